//! The elements of a picture: cards, and the links between them.

use crate::flow::{LocalRun, Run};
use crate::plan::{DocumentSource, NodePlan, Plan};
use crate::values::{Poll, Polling, Uses, Workers};

use super::condition;

/// Cards in an order in which links go from earlier to later ones: the gateway's way in is the first,
/// its way out the last.
#[derive(Debug)]
pub(super) struct Picture {
    pub(super) cards: Vec<Card>,
    pub(super) links: Vec<Link>,
}

/// One box of the picture.
#[derive(Debug)]
pub(super) struct Card {
    pub(super) kind: CardKind,
    pub(super) title: String,
    /// What runs there.
    pub(super) program: String,
    /// Replicas, shards and the like, a line each.
    pub(super) details: Vec<String>,
    /// The condition on documents.
    pub(super) when: Option<String>,
    /// It represents several processes.
    pub(super) is_stack: bool,
    /// The reply does not wait for it.
    pub(super) is_aside: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CardKind {
    Start,
    End,
    Local,
    External,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Link {
    pub(super) from: usize,
    pub(super) to: usize,
    /// The reply does not wait for what comes of it.
    pub(super) is_aside: bool,
}

impl Picture {
    pub(super) fn of(plan: &Plan) -> Self {
        let card_of = |source: &DocumentSource| match source {
            DocumentSource::Gateway => 0,
            DocumentSource::Node(at) => at.index() + 1,
        };
        let end = plan.nodes.len() + 1;
        let mut cards = vec![door(CardKind::Start, "requests")];
        let mut links = Vec::new();
        for (at, node) in plan.nodes() {
            cards.push(Card::of(node));
            links.extend(node.parents.iter().map(|parent| Link {
                from: card_of(parent),
                to: at.index() + 1,
                is_aside: !node.awaited,
            }));
        }
        cards.push(door(CardKind::End, "replies"));
        links.extend(plan.exit.iter().map(|source| Link {
            from: card_of(source),
            to: end,
            is_aside: false,
        }));
        Self { cards, links }
    }
}

fn door(kind: CardKind, passes: &str) -> Card {
    Card {
        kind,
        title: "gateway".to_owned(),
        program: passes.to_owned(),
        details: Vec::new(),
        when: None,
        is_stack: false,
        is_aside: false,
    }
}

impl Card {
    fn of(node: &NodePlan) -> Self {
        let mut card = Self {
            kind: CardKind::Local,
            title: node.name.to_string(),
            program: String::new(),
            details: Vec::new(),
            when: node.calls.when.as_ref().map(|it| condition::say(it.json())),
            is_stack: false,
            is_aside: !node.awaited,
        };
        match &node.run {
            Run::Local(run) => card.add_local(run, node),
            Run::External { addresses } => {
                card.kind = CardKind::External;
                card.is_stack = addresses.len() > 1;
                let first = addresses.first().map(ToString::to_string);
                let first = first.unwrap_or_default();
                card.program = first.trim_start_matches("http://").to_owned();
                card.details.push(match addresses.len() {
                    1 => "external".to_owned(),
                    len => format!("external, {len} addresses"),
                });
            }
        }
        card.details.extend(aside(node).map(str::to_owned));
        card
    }

    fn add_local(&mut self, run: &LocalRun, node: &NodePlan) {
        let (shards, replicas) = (run.shards.get(), run.replicas.get());
        self.program = program(&run.uses);
        self.is_stack = shards > 1 || replicas > 1;
        let replicas = (replicas > 1).then(|| format!("{replicas} replicas"));
        if shards > 1 {
            let each = replicas.map(|it| format!(" of {it}")).unwrap_or_default();
            self.details.push(format!("{shards} shards{each}"));
            self.details.extend(polling(&node.calls.polling));
        } else {
            self.details.extend(replicas);
        }
        let around = [("before", &run.before), ("after", &run.after)];
        let around = around
            .into_iter()
            .filter_map(|(when, uses)| Some((when, uses.as_ref()?)));
        self.details
            .extend(around.map(|(when, uses)| format!("{when}: {}", program(uses))));
        match run.workers {
            Workers::Number(number) if number.get() > 1 => {
                self.details.push(format!("{number} workers each"));
            }
            Workers::Auto => self.details.push("a worker for each core".to_owned()),
            Workers::Number(_) => {}
        }
    }
}

/// Which shards a request goes to. The picture of an index shows that a search asks all of them.
fn polling(polling: &Polling) -> Vec<String> {
    let (default, other) = match polling.default {
        Poll::Any => ("one asked", "all asked"),
        Poll::All => ("all asked", "one asked"),
    };
    match &polling.exceptions()[..] {
        [] => vec![default.to_owned()],
        endpoints => vec![
            format!("{other} on {}", endpoints.join(", ")),
            format!("{default} otherwise"),
        ],
    }
}

/// Why the reply does not wait for a node.
fn aside(node: &NodePlan) -> Option<&'static str> {
    match (node.awaited, node.floating) {
        (true, _) => None,
        (false, true) => Some("floating"),
        (false, false) => Some("no node needs it"),
    }
}

fn program(uses: &Uses) -> String {
    match uses {
        Uses::Named(name) => name.clone(),
        Uses::Path(path) => path.display().to_string(),
        Uses::Image(image) => format!("docker://{image}"),
    }
}
