//! The result of a comparison, for people and for programs.

use std::fmt::Write;

use serde_json::{Value, json};

use super::comparison::{Bars, Compared, Comparison};
use crate::escape::{escape_json, escape_lines};
use crate::output::{Colour, Painter};

/// Characters of a text that are shown.
const TEXT_MAX: usize = 60;

/// Lines of text.
pub(super) fn text(comparison: &Comparison, bars: Bars, painter: Painter) -> String {
    let mut text = String::new();
    let mut line = |line: String| {
        // Writing to a String cannot fail.
        let _infallible = writeln!(text, "{line}");
    };
    let shown = |value: Option<f64>| value.map_or("–".to_owned(), |it| format!("{it:.6}"));
    line(format!("texts           {}", comparison.texts()));
    line(format!("lowest cosine   {}", shown(comparison.lowest())));
    line(format!("mean cosine     {}", shown(comparison.mean())));
    line(format!(
        "below {:<9} {}",
        bars.lowest,
        comparison.below(bars.lowest)
    ));
    if 0 < comparison.missing() {
        line(format!("not compared    {}", comparison.missing()));
    }
    line("\nTexts that differ most:".to_owned());
    for compared in comparison.worst() {
        line(worst(compared));
    }
    let verdict = match comparison.holds(bars) {
        true => painter.paint(Colour::Green, "the vectors agree"),
        false => painter.paint(Colour::Yellow, "the vectors do not agree"),
    };
    line(format!(
        "\n{verdict}: the lowest cosine has to be {}, and the mean {}",
        bars.lowest, bars.mean
    ));
    text
}

fn worst(compared: &Compared) -> String {
    let Compared { entry, cosine, .. } = compared;
    let text = escape_lines(&beginning(&compared.text)).into_owned();
    match cosine {
        Ok(cosine) => format!("  {cosine:.6}  {entry:>6}  {text}"),
        Err(reason) => format!("  –         {entry:>6}  {text}  ({})", escape_lines(reason)),
    }
}

/// As much of a text as is shown.
fn beginning(text: &str) -> String {
    match text.char_indices().nth(TEXT_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// A line of JSON.
pub(super) fn json(comparison: &Comparison, bars: Bars) -> String {
    let worst: Vec<Value> = comparison.worst().iter().map(worst_json).collect();
    let value = json!({
        "texts": comparison.texts(),
        "not_compared": comparison.missing(),
        "lowest_cosine": comparison.lowest(),
        "mean_cosine": comparison.mean(),
        "below": comparison.below(bars.lowest),
        "min_cosine": bars.lowest,
        "min_mean": bars.mean,
        "agree": comparison.holds(bars),
        "worst": worst,
    });
    format!("{}\n", escape_json(&value.to_string()))
}

fn worst_json(compared: &Compared) -> Value {
    let (cosine, reason) = match &compared.cosine {
        Ok(cosine) => (Some(cosine), None),
        Err(reason) => (None, Some(reason)),
    };
    json!({"entry": compared.entry, "text": compared.text, "cosine": cosine, "reason": reason})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_cut_between_characters() {
        assert_eq!(beginning("short"), "short");
        assert_eq!(beginning(&"é".repeat(61)), format!("{}…", "é".repeat(60)));
    }
}
