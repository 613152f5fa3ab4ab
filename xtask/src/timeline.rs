//! Draws what happened over time as an SVG: panels of lines, with the faults behind them.

use std::fmt::Write;

/// Sizes in pixels.
const WIDTH: f64 = 960.0;
const LEFT: f64 = 190.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 40.0;
const PANEL: f64 = 90.0;
const GAP: f64 = 34.0;
const FOOT: f64 = 40.0;

/// Readable on light and on dark pages.
const STYLE: &str = "text{font:12px system-ui,sans-serif;fill:#24292f}.t{font-size:15px;font-weight:600}\
.s{fill:#6e7781}path{fill:none;stroke-width:1.3}.a{stroke:#0d9488}.b{stroke:#d97706}.c{stroke:#7c3aed}.d{stroke:#db2777}\
.e{stroke:#64748b}.f{fill:#ef4444;fill-opacity:.16}.x{stroke:#8884;stroke-width:1}.ka{fill:#0d9488}.kb{fill:#d97706}\
.kc{fill:#7c3aed}.kd{fill:#db2777}.ke{fill:#64748b}\
@media(prefers-color-scheme:dark){text{fill:#e6edf3}.s{fill:#8d96a0}}";

/// The colours of the lines of a panel, in order.
const COLOURS: [&str; 5] = ["a", "b", "c", "d", "e"];

/// A line of a panel: a name, and points of seconds and values.
pub(crate) type Line<'a> = (&'a str, Vec<(f64, f64)>);

/// Panels below each other, which share their time.
pub(crate) struct Timeline {
    elements: String,
    seconds: f64,
    bottom: f64,
}

impl Timeline {
    /// A picture of so many seconds, during which there were these faults: each from a second to another.
    pub(crate) fn new(title: &str, seconds: f64, faults: impl Iterator<Item = (f64, f64)>) -> Self {
        let mut it = Self {
            elements: String::new(),
            seconds: seconds.max(1.0),
            bottom: TOP,
        };
        it.text((8.0, 20.0), "t", title);
        it.define_faults(faults);
        it
    }

    /// Defines what all panels show: a bar of the height of a panel for each fault.
    fn define_faults(&mut self, faults: impl Iterator<Item = (f64, f64)>) {
        let mut path = String::new();
        for (began, ended) in faults {
            let (from, to) = (self.x(began), self.x(ended));
            let width = (to - from).max(1.0);
            write!(path, "M{from:.1} 0h{width:.1}v{PANEL}h-{width:.1}z")
                .expect("writing to a String cannot fail");
        }
        self.element(format_args!(
            "<defs><path id=\"faults\" class=\"f\" d=\"{path}\"/></defs>"
        ));
    }

    /// A panel below those that are there.
    pub(crate) fn panel(&mut self, title: &str, lines: Vec<Line<'_>>) {
        let top = self.bottom;
        let values = lines.iter().flat_map(|(_, points)| points).map(|it| it.1);
        let largest = values.fold(0.0, f64::max).max(1.0);
        self.element(format_args!("<use href=\"#faults\" y=\"{top}\"/>"));
        let base = top + PANEL;
        self.element(format_args!(
            "<path class=\"x\" d=\"M{LEFT} {base}H{}M{LEFT} {top}V{base}\"/>",
            WIDTH - RIGHT
        ));
        self.text((8.0, top + 12.0), "", title);
        self.text((8.0, top + 28.0), "s", &format!("0 to {largest:.0}"));
        for (number, (name, points)) in lines.into_iter().enumerate() {
            let colour = COLOURS[number % COLOURS.len()];
            #[allow(clippy::cast_precision_loss, reason = "a handful of lines")]
            let below = top + 43.0 + 12.0 * number as f64;
            self.text((8.0, below), &format!("k{colour}"), name);
            self.line(colour, &points, (base, largest));
        }
        self.bottom = base + GAP;
    }

    fn line(&mut self, colour: &str, points: &[(f64, f64)], (base, largest): (f64, f64)) {
        let mut path = String::new();
        for (number, (seconds, value)) in points.iter().enumerate() {
            let command = if number == 0 { 'M' } else { 'L' };
            let y = base - value / largest * PANEL;
            write!(path, "{command}{:.1} {y:.1}", self.x(*seconds))
                .expect("writing to a String cannot fail");
        }
        self.element(format_args!("<path class=\"{colour}\" d=\"{path}\"/>"));
    }

    fn x(&self, seconds: f64) -> f64 {
        LEFT + seconds / self.seconds * (WIDTH - LEFT - RIGHT)
    }

    fn text(&mut self, (x, y): (f64, f64), class: &str, text: &str) {
        self.element(format_args!(
            "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\">{text}</text>"
        ));
    }

    fn element(&mut self, element: std::fmt::Arguments<'_>) {
        writeln!(self.elements, "{element}").expect("writing to a String cannot fail");
    }

    pub(crate) fn finish(mut self) -> String {
        let foot = self.bottom - GAP + 18.0;
        for part in 0..=4 {
            let seconds = self.seconds * f64::from(part) / 4.0;
            let minutes = format!("{:.1} min", seconds / 60.0);
            self.text((self.x(seconds) - 30.0, foot), "s", &minutes);
        }
        let height = self.bottom - GAP + FOOT;
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" \
             height=\"{height}\" role=\"img\">\n<style>{STYLE}</style>\n{}</svg>\n",
            self.elements
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_and_values_are_drawn_at_their_times() {
        let mut timeline = Timeline::new("a title", 100.0, [(50.0, 60.0)].into_iter());
        timeline.panel("ms", vec![("a", vec![(0.0, 5.0), (100.0, 10.0)])]);
        let svg = timeline.finish();
        assert!(svg.contains("d=\"M565.0 0h75.0v90h-75.0z\""), "{svg}");
        assert!(svg.contains("<use href=\"#faults\" y=\"40\"/>"), "{svg}");
        assert!(svg.contains("d=\"M190.0 85.0L940.0 40.0\""), "{svg}");
    }
}
