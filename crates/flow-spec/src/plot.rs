//! A plan as a picture: SVG by a layout of our own, or text for Mermaid.
//!
//! `picture.rs` says what there is to draw, `layers.rs` and `frames.rs` where it goes, `svg.rs` and `mermaid.rs` how it
//! is written; `drawing.rs` gives it to programs that draw it themselves, such as the gateway's console. The width of
//! texts is estimated, because there is no font.

mod cell;
mod condition;
mod drawing;
mod frames;
mod layers;
mod mermaid;
mod order;
mod picture;
mod svg;
mod words;

use crate::plan::Plan;
use picture::Picture;

pub use drawing::{Drawing, DrawnCard, DrawnLink};
pub use frames::Room;

/// Draws a plan as SVG that reads well on light and on dark ground.
#[must_use]
pub fn svg(plan: &Plan, title: &str) -> String {
    svg::draw(&Picture::of(plan), title)
}

/// Writes a plan as a Mermaid flowchart.
#[must_use]
pub fn mermaid(plan: &Plan) -> String {
    mermaid::write(&Picture::of(plan))
}

#[cfg(test)]
mod tests;
