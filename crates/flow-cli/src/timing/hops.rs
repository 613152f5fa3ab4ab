//! The hops of one request, as a tree: the client, the network, the gateway, its nodes, their stages.
//!
//! Clocks of different machines differ. How long something took is therefore always the difference of two readings of one
//! clock. When it began within its caller's time is what the clocks say, if that is possible; otherwise it is drawn in the
//! middle.

use std::time::{Duration, SystemTime};

use flow_proto::jina::{RouteProto, status_proto};
use serde_json::{Value, json};

/// The name of a gateway in routes.
const GATEWAY: &str = "gateway";

/// The stage in which a gateway makes a request wait, and the prefix of all stages.
const ADMISSION: &str = "gateway#admission";
const SEPARATOR: char = '#';

/// What a client knows of a request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sent {
    /// When it was sent, by the client's clock.
    pub(crate) at: SystemTime,
    /// How long it took to the reply.
    pub(crate) took: Duration,
}

/// A part of the time of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Hop {
    pub(crate) name: String,
    /// When, in the order of time. Several if something else came between.
    pub(crate) spans: Vec<TimeSpan>,
    pub(crate) note: Option<String>,
    pub(crate) children: Vec<Hop>,
}

/// A time, counted from when the client sent the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TimeSpan {
    pub(crate) start: Duration,
    pub(crate) took: Duration,
}

/// A route with both its times.
#[derive(Debug, Clone)]
struct Route {
    name: String,
    start: SystemTime,
    took: Duration,
    note: Option<String>,
}

/// A place in the tree, and the clock there at its start.
#[derive(Debug, Clone, Copy)]
struct TreePosition {
    span: TimeSpan,
    clock: SystemTime,
}

/// The hops of a request whose reply has these routes.
pub(crate) fn hops(sent: Sent, routes: &[RouteProto]) -> Hop {
    let whole = TimeSpan {
        start: Duration::ZERO,
        took: sent.took,
    };
    let routes = routes.iter().filter_map(Route::read);
    let (stages, nodes): (Vec<Route>, Vec<Route>) =
        routes.partition(|it| it.name.contains(SEPARATOR));
    let client = TreePosition {
        span: whole,
        clock: sent.at,
    };
    let server = nodes
        .split_first()
        .map(|(first, nodes)| match first.name.as_str() {
            GATEWAY => gateway(client, first, (nodes, &stages)),
            _ => {
                let process = client.inside(first);
                let stages = below(&stages, &first.name);
                Hop::of(&first.name, process.span).with(stages_of(process, &stages))
            }
        });
    let server: Vec<Hop> = server.into_iter().collect();
    Hop::of("client", whole).with_rest("network", server)
}

/// The gateway with its nodes.
fn gateway(client: TreePosition, route: &Route, (nodes, stages): (&[Route], &[Route])) -> Hop {
    let waited = stages.iter().find(|it| it.name == ADMISSION);
    let waited = waited.map_or(Duration::ZERO, |it| it.took);
    let whole = Route {
        start: route.start.checked_sub(waited).unwrap_or(route.start),
        took: route.took + waited,
        ..route.clone()
    };
    let place = client.inside(&whole);
    let (waited, run) = place.span.split(waited);
    let run = TreePosition {
        span: run,
        clock: route.start,
    };
    let mut children: Vec<Hop> = nodes.iter().map(|it| node(run, it, stages)).collect();
    children.sort_by_key(|it| it.spans.first().map(|it| it.start));
    let gateway = Hop::of(GATEWAY, run.span).with_rest("itself", children);
    let admission = (!waited.took.is_zero()).then(|| Hop::of("admission", waited));
    Hop {
        spans: vec![place.span],
        children: admission.into_iter().chain(gateway.children).collect(),
        ..gateway
    }
}

/// A node with the stages of its processes.
fn node(gateway: TreePosition, route: &Route, stages: &[Route]) -> Hop {
    let place = gateway.inside(route);
    let of_node = below(stages, &route.name);
    let is_process = |it: &&Route| !it.name.contains(SEPARATOR);
    let processes: Vec<&Route> = of_node.iter().filter(is_process).collect();
    let hop = Hop {
        note: route.note.clone(),
        ..Hop::of(&route.name, place.span)
    };
    let hop_of = |process: &Route| {
        let inside = place.inside(process);
        let stages = stages_of(inside, &below(&of_node, &process.name));
        Hop::of(&process.name, inside.span).with(stages)
    };
    match processes[..] {
        [] if route.took.is_zero() => Hop {
            note: hop.note.or_else(|| Some("skipped".to_owned())),
            ..hop
        },
        [] => hop,
        [process] => {
            let inside = hop_of(process);
            let network = Hop {
                name: "network".to_owned(),
                spans: place.span.without(&inside.spans),
                ..Hop::of("", place.span)
            };
            let name = (process.name != route.name).then(|| process.name.clone());
            Hop {
                note: hop.note.clone().or(name),
                ..hop
            }
            .with(std::iter::once(network).chain(inside.children).collect())
        }
        _ => {
            let processes = processes.into_iter().map(hop_of).collect();
            hop.with_rest("network", processes)
        }
    }
}

/// The stages inside a process, or the parts of a stage, whose times are of one clock.
fn stages_of(whole: TreePosition, stages: &[Route]) -> Vec<Hop> {
    let hop = |stage: &Route| {
        let inside = whole.inside(stage);
        let hop = Hop {
            note: stage.note.clone(),
            ..Hop::of(&stage.name, inside.span)
        };
        hop.with_rest("itself", stages_of(inside, &below(stages, &stage.name)))
    };
    let is_part = |it: &Route| stages.iter().any(|whole| it.is_below(&whole.name));
    let wholes = stages.iter().filter(|it| !is_part(it));
    wholes.map(hop).collect()
}

/// The routes below a name, without it: of `a`, `a#b` becomes `b`.
fn below(routes: &[Route], name: &str) -> Vec<Route> {
    let rest = |route: &Route| {
        Some(Route {
            name: route.name_below(name)?.to_owned(),
            ..route.clone()
        })
    };
    routes.iter().filter_map(rest).collect()
}

impl Route {
    /// Its name without this one and the separator before it, if it is below this one.
    fn name_below(&self, name: &str) -> Option<&str> {
        self.name.strip_prefix(name)?.strip_prefix(SEPARATOR)
    }

    fn is_below(&self, name: &str) -> bool {
        self.name_below(name).is_some()
    }

    fn read(route: &RouteProto) -> Option<Self> {
        let start = SystemTime::try_from(route.start_time?).ok()?;
        let end = SystemTime::try_from(route.end_time?).ok()?;
        let status = route
            .status
            .as_ref()
            .filter(|it| !it.description.is_empty());
        let error: i32 = status_proto::StatusCode::Error.into();
        Some(Self {
            name: route.executor.clone(),
            start,
            took: end.duration_since(start).unwrap_or_default(),
            note: status.map(|it| match it.code >= error {
                true => format!("failed: {}", it.description),
                false => it.description.clone(),
            }),
        })
    }
}

impl TreePosition {
    /// The place of a route that is inside this one.
    fn inside(self, route: &Route) -> Self {
        let took = route.took.min(self.span.took);
        let room = self.span.took - took;
        let offset = route.start.duration_since(self.clock).ok();
        let offset = offset.filter(|it| *it <= room).unwrap_or(room / 2);
        Self {
            span: TimeSpan {
                start: self.span.start + offset,
                took,
            },
            clock: route.start,
        }
    }
}

impl TimeSpan {
    fn end(self) -> Duration {
        self.start + self.took
    }

    /// The first part of this length, and the rest.
    fn split(self, first: Duration) -> (Self, Self) {
        let first = first.min(self.took);
        let before = Self {
            took: first,
            ..self
        };
        let after = Self {
            start: before.end(),
            took: self.took - first,
        };
        (before, after)
    }

    /// What of it none of the others covers.
    fn without(self, others: &[Self]) -> Vec<Self> {
        let mut others: Vec<Self> = others.to_vec();
        others.retain(|it| !it.took.is_zero());
        others.sort_by_key(|it| it.start);
        let (mut rest, mut at) = (Vec::new(), self.start);
        for other in others {
            if other.start > at {
                rest.push(Self {
                    start: at,
                    took: other.start - at,
                });
            }
            at = at.max(other.end());
        }
        if self.end() > at {
            rest.push(Self {
                start: at,
                took: self.end() - at,
            });
        }
        rest
    }
}

impl Hop {
    fn of(name: &str, span: TimeSpan) -> Self {
        Self {
            name: name.to_owned(),
            spans: vec![span],
            note: None,
            children: Vec::new(),
        }
    }

    fn with(self, children: Vec<Self>) -> Self {
        Self { children, ..self }
    }

    /// The hop with its parts, and before them the time that none of them covers.
    fn with_rest(self, rest: &str, parts: Vec<Self>) -> Self {
        let covered: Vec<TimeSpan> = parts.iter().flat_map(|it| it.spans.clone()).collect();
        let spans = self.spans.iter().flat_map(|it| it.without(&covered));
        let rest = Self {
            name: rest.to_owned(),
            spans: spans.collect(),
            note: None,
            children: Vec::new(),
        };
        match parts.is_empty() {
            true => self,
            false => self.with(std::iter::once(rest).chain(parts).collect()),
        }
    }

    /// How long it took.
    pub(crate) fn took(&self) -> Duration {
        self.spans.iter().map(|it| it.took).sum()
    }

    /// The hop as JSON, with times in milliseconds.
    pub(crate) fn to_json(&self) -> Value {
        let ms = |it: Duration| it.as_secs_f64() * 1e3;
        let start = self.spans.first().map_or(Duration::ZERO, |it| it.start);
        let children: Vec<Value> = self.children.iter().map(Self::to_json).collect();
        json!({
            "name": self.name,
            "start_ms": ms(start),
            "took_ms": ms(self.took()),
            "note": self.note,
            "hops": children,
        })
    }
}

#[cfg(test)]
mod tests;
