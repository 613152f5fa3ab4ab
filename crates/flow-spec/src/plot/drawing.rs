//! A picture as data, for programs that draw it themselves.

use serde::Serialize;

use super::frames::{ARROW, Frames, LETTERS_MAX, Room};
use super::picture::{Card, CardKind, Picture};
use super::words::cut;
use crate::plan::Plan;

/// A plan with the position of everything in it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Drawing {
    /// Width of all, without a margin.
    pub width: f64,
    /// Height of all, without a margin.
    pub height: f64,
    /// The gateway's way in, the nodes in the order of the plan, and the gateway's way out.
    pub cards: Vec<DrawnCard>,
    /// The lines between cards.
    pub links: Vec<DrawnLink>,
}

/// A card with its position.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DrawnCard {
    /// `start`, `end`, `local` or `external`.
    pub kind: &'static str,
    /// The name of the node.
    pub title: String,
    /// The lines below the name: the program, and replicas, shards and the like.
    pub lines: Vec<String>,
    /// The condition on documents.
    pub when: Option<String>,
    /// It represents several processes.
    pub is_stack: bool,
    /// The reply does not wait for it.
    pub is_aside: bool,
    /// The left side.
    pub left: f64,
    /// The upper side.
    pub top: f64,
    /// The width.
    pub width: f64,
    /// The height.
    pub height: f64,
}

/// A line from one card to another.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DrawnLink {
    /// The index of the card where it begins.
    pub from: usize,
    /// The index of the card where it ends.
    pub to: usize,
    /// The reply does not wait for what comes of it.
    pub is_aside: bool,
    /// The line, as SVG writes paths.
    pub path: String,
    /// The head of the arrow, as SVG writes paths.
    pub tip: String,
}

impl Drawing {
    /// Lays a plan out, with this room in the card of each node.
    #[must_use]
    pub fn of(plan: &Plan, room: Room) -> Self {
        let picture = Picture::of(plan);
        let frames = Frames::of(&picture, room);
        let cards = picture.cards.iter().zip(&frames.cards);
        let links = picture.links.iter().zip(&frames.links);
        let half = ARROW * 0.55;
        Self {
            width: frames.width,
            height: frames.height,
            cards: cards
                .map(|(card, frame)| DrawnCard {
                    left: frame.left,
                    top: frame.top,
                    width: frame.width,
                    height: frame.height,
                    ..DrawnCard::of(card)
                })
                .collect(),
            links: links
                .map(|(link, line)| DrawnLink {
                    from: link.from,
                    to: link.to,
                    is_aside: link.is_aside,
                    path: line.path.clone(),
                    tip: format!(
                        "M{:.1} {:.1}l-{ARROW} -{half:.1}v{:.1}z",
                        line.tip.0,
                        line.tip.1,
                        2.0 * half
                    ),
                })
                .collect(),
        }
    }
}

impl DrawnCard {
    /// A card without its position.
    fn of(card: &Card) -> Self {
        let lines = [&card.program].into_iter().chain(&card.details);
        Self {
            kind: match card.kind {
                CardKind::Start => "start",
                CardKind::End => "end",
                CardKind::Local => "local",
                CardKind::External => "external",
            },
            title: cut(&card.title, LETTERS_MAX),
            lines: lines.map(|line| cut(line, LETTERS_MAX)).collect(),
            when: card.when.as_deref().map(|it| cut(it, LETTERS_MAX)),
            is_stack: card.is_stack,
            is_aside: card.is_aside,
            left: 0.0,
            top: 0.0,
            width: 0.0,
            height: 0.0,
        }
    }
}
