//! Draws a run as an SVG chart of horizontal bars, one group of bars for each thing that was measured.
//!
//! The bars of a group are scaled to its largest figure, for what is compared are the systems within a group.

use std::fmt::Write;

use crate::bench::report::figure;
use crate::bench::runs::{Group, Run};

/// Sizes in pixels.
const WIDTH: u32 = 720;
const LABELS_WIDTH: u32 = 230;
const FIGURES_WIDTH: u32 = 70;
const BAR_HEIGHT: u32 = 18;
const BAR_STEP: u32 = 23;
const TITLE_HEIGHT: u32 = 34;
const GROUP_HEAD: u32 = 28;
const GROUP_GAP: u32 = 10;
const FOOT_HEIGHT: u32 = 26;

/// Readable on light and on dark pages.
const STYLE: &str = "text{font:13px system-ui,sans-serif;fill:#24292f}.t{font-size:15px;font-weight:600}\
.g{font-weight:600}.s{font-size:11px;fill:#6e7781}.o{fill:#0d9488}.p{fill:#afb8c1}\
@media(prefers-color-scheme:dark){text{fill:#e6edf3}.s{fill:#8d96a0}.p{fill:#57606a}.o{fill:#2dd4bf}}";

/// The run as a chart. Systems for which `is_shown` is false are left out.
pub(super) fn draw(run: &Run, title: &str, is_shown: impl Fn(&str) -> bool) -> String {
    let mut chart = Chart::default();
    chart.text(0, 20, "t", &format!("{title}, {}", run.unit));
    chart.height = TITLE_HEIGHT;
    for group in &run.groups {
        chart.group(group, &is_shown);
    }
    chart.text(
        0,
        chart.height + 14,
        "s",
        &format!("Medians. More is better. Run {}.", run.name),
    );
    chart.finish()
}

#[derive(Debug, Default)]
struct Chart {
    elements: String,
    height: u32,
}

impl Chart {
    fn group(&mut self, group: &Group, is_shown: impl Fn(&str) -> bool) {
        let systems = group.systems.iter().filter(|(name, _)| is_shown(name));
        let systems: Vec<&(String, f64)> = systems.collect();
        let largest = systems.iter().map(|it| it.1).fold(0.0, f64::max);
        self.text(0, self.height + 18, "g", &group.name);
        self.height += GROUP_HEAD;
        for (name, value) in systems {
            self.bar(name, *value, largest);
        }
        self.height += GROUP_GAP;
    }

    fn bar(&mut self, name: &str, value: f64, largest: f64) {
        let longest = f64::from(WIDTH - LABELS_WIDTH - FIGURES_WIDTH);
        let length = (value / largest * longest).max(1.0);
        let class = if name.starts_with("flow") { "o" } else { "p" };
        let top = self.height;
        self.text(12, top + 14, "", name);
        self.element(format_args!(
            "<rect class=\"{class}\" x=\"{LABELS_WIDTH}\" y=\"{top}\" width=\"{length:.1}\" height=\"{BAR_HEIGHT}\" rx=\"2\"/>"
        ));
        let after = f64::from(LABELS_WIDTH) + length + 6.0;
        self.element(format_args!(
            "<text x=\"{after:.1}\" y=\"{}\">{}</text>",
            top + 14,
            grouped(&figure(value))
        ));
        self.height += BAR_STEP;
    }

    fn text(&mut self, x: u32, y: u32, class: &str, text: &str) {
        let text = escaped(text);
        self.element(format_args!(
            "<text class=\"{class}\" x=\"{x}\" y=\"{y}\">{text}</text>"
        ));
    }

    fn element(&mut self, element: std::fmt::Arguments<'_>) {
        // Writing to a String cannot fail.
        let _infallible = writeln!(self.elements, "{element}");
    }

    fn finish(self) -> String {
        let height = self.height + FOOT_HEIGHT;
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" \
             height=\"{height}\" role=\"img\">\n<style>{STYLE}</style>\n{}</svg>\n",
            self.elements
        )
    }
}

/// The digits of a whole number in groups of three.
fn grouped(figure: &str) -> String {
    if figure.len() < 4 || !figure.bytes().all(|byte| byte.is_ascii_digit()) {
        return figure.to_owned();
    }
    let mut text = String::new();
    for (index, digit) in figure.chars().enumerate() {
        if index > 0 && (figure.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_as_long_as_their_figures_and_what_is_not_shown_takes_no_part() {
        let systems = [("flow", 2000.0), ("peer <1>", 500.0), ("other", 9000.0)];
        let run = Run {
            name: "2026-01-01-cpu".to_owned(),
            unit: "requests/s".to_owned(),
            groups: vec![Group {
                name: "small".to_owned(),
                systems: systems
                    .map(|(name, value)| (name.to_owned(), value))
                    .to_vec(),
            }],
        };
        let svg = draw(&run, "Gateway", |name| name != "other");
        assert!(
            svg.contains("class=\"o\" x=\"230\" y=\"62\" width=\"420.0\""),
            "{svg}"
        );
        assert!(
            svg.contains("class=\"p\" x=\"230\" y=\"85\" width=\"105.0\""),
            "{svg}"
        );
        assert!(
            svg.contains(">2,000<") && svg.contains("peer &lt;1>"),
            "{svg}"
        );
        assert!(!svg.contains("other"), "{svg}");
    }

    #[test]
    fn thousands_are_grouped() {
        let check = |figure: &str, expected: &str| assert_eq!(grouped(figure), expected);
        check("999", "999");
        check("1000", "1,000");
        check("1234567", "1,234,567");
        check("1234.5", "1234.5");
    }
}
