//! The frames of cards and the lines of links, in the coordinates of the picture.

use std::fmt::Write as _;

use super::layers::{self, Layout, Size};
use super::picture::{Card, CardKind, Link, Picture};
use super::words::{cut, width};

pub(super) const PADDING: f64 = 16.0;
pub(super) const TITLE: f64 = 15.0;
pub(super) const SMALL: f64 = 12.0;
pub(super) const LINE: f64 = 17.0;
pub(super) const CHIP: f64 = 22.0;
const CARD_MIN: f64 = 116.0;
/// How far the cards behind a stack stick out.
pub(super) const STACK: f64 = 5.0;
/// Longer texts are cut; the whole text is shown under the pointer.
pub(super) const LETTERS_MAX: usize = 34;
pub(super) const ARROW: f64 = 8.0;

/// Room in the card of each node beside its own texts.
#[derive(Debug, Clone, Copy)]
pub struct Room {
    /// The least width inside the card.
    pub width: f64,
    /// Height below the texts.
    pub height: f64,
}

impl Room {
    /// No room.
    pub const NONE: Self = Self {
        width: 0.0,
        height: 0.0,
    };
}

/// Where a card is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Frame {
    pub(super) left: f64,
    pub(super) top: f64,
    pub(super) width: f64,
    pub(super) height: f64,
}

/// The line of a link, and the point of its arrow.
#[derive(Debug)]
pub(super) struct LinkLine {
    /// As SVG writes it.
    pub(super) path: String,
    pub(super) tip: (f64, f64),
}

/// Where everything in a picture is.
#[derive(Debug)]
pub(super) struct Frames {
    pub(super) cards: Vec<Frame>,
    pub(super) links: Vec<LinkLine>,
    pub(super) width: f64,
    pub(super) height: f64,
}

impl Frames {
    pub(super) fn of(picture: &Picture, room: Room) -> Self {
        let cards = picture.cards.iter();
        let sizes: Vec<Size> = cards.clone().map(|card| size(card, room)).collect();
        let layout = layers::layout(&sizes, &picture.links);
        let frame = |((card, size), (rank, middle)): ((&Card, &Size), &(usize, f64))| {
            let (left, right) = layout.columns[*rank];
            Frame {
                left,
                top: middle - size.height / 2.0 + behind(card),
                width: right - left,
                height: size.height - 2.0 * behind(card),
            }
        };
        let links = picture.links.iter().zip(&layout.lanes);
        Self {
            cards: cards.zip(&sizes).zip(&layout.cards).map(frame).collect(),
            links: links
                .map(|(link, lanes)| line(link, lanes, &layout))
                .collect(),
            width: layout.columns.last().map_or(0.0, |(_, right)| *right),
            height: layout.height,
        }
    }
}

pub(super) fn is_door(card: &Card) -> bool {
    matches!(card.kind, CardKind::Start | CardKind::End)
}

fn size(card: &Card, room: Room) -> Size {
    let small = [&card.program].into_iter().chain(&card.details);
    let small = small.map(|line| width(&cut(line, LETTERS_MAX), SMALL));
    let chip = card
        .when
        .iter()
        .map(|it| width(&cut(it, LETTERS_MAX), SMALL) + 16.0);
    // Names are bold.
    let name = width(&cut(&card.title, LETTERS_MAX), TITLE) * 1.06;
    let inner = small.chain(chip).fold(name, f64::max);
    let lines = card.details.iter().fold(1.0, |lines, _| lines + 1.0);
    let chip = if card.when.is_some() { CHIP + 8.0 } else { 0.0 };
    // The same above as below, so that links meet the card in its middle.
    let height = 2.0 * PADDING + TITLE + lines * LINE + chip + 2.0 * behind(card);
    let is_aside = card.is_aside;
    if is_door(card) {
        let width = inner + 2.0 * PADDING;
        return Size {
            width,
            height,
            is_aside,
        };
    }
    Size {
        width: (inner.max(room.width) + 2.0 * PADDING + 6.0).max(CARD_MIN),
        height: height + room.height,
        is_aside,
    }
}

/// Height that the cards behind a stack stick out.
fn behind(card: &Card) -> f64 {
    if card.is_stack { 2.0 * STACK } else { 0.0 }
}

/// From the right side of one card, along its lanes, to the left side of another.
fn line(link: &Link, lanes: &[(usize, f64)], layout: &Layout) -> LinkLine {
    let end = |card: usize| {
        let (rank, height) = layout.cards[card];
        (layout.columns[rank], height)
    };
    let ((_, from), height) = end(link.from);
    let mut path = format!("M{from:.1} {height:.1}");
    let mut at = (from, height);
    for (column, height) in lanes {
        let (left, right) = layout.columns[*column];
        curve(&mut path, at, (left, *height));
        write!(path, "H{right:.1}").expect("writing to a String cannot fail");
        at = (right, *height);
    }
    let ((to, _), height) = end(link.to);
    curve(&mut path, at, (to - ARROW + 1.0, height));
    LinkLine {
        path,
        tip: (to, height),
    }
}

/// A bend that leaves and arrives level.
fn curve(path: &mut String, (x, y): (f64, f64), (to_x, to_y): (f64, f64)) {
    let half = f64::midpoint(x, to_x);
    write!(
        path,
        "C{half:.1} {y:.1} {half:.1} {to_y:.1} {to_x:.1} {to_y:.1}"
    )
    .expect("writing to a String cannot fail");
}
