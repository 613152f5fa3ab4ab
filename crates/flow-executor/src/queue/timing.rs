//! Where the time of one request goes in the executor, if its caller asks for it.
//!
//! Each stage begins where the one before it ends. The times go back as routes of the reply, which have names such as
//! `encoder#queue`: stock peers take them for processes that the request passed, and gateways of flow forward them. A part of a
//! stage has the stage's name before its own, such as `encoder#call#tokenize`.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use flow_proto::jina::{RouteProto, StatusProto};
use prost_types::Timestamp;

use crate::sdk::PastStage;

/// A part of the time of a request, in the order of their beginnings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    /// It waits for its bytes and for a place in the queue.
    Admission,
    /// Its documents are decoded.
    Decode,
    /// It waits for a worker.
    Queue,
    /// A worker waits for further requests of its batch.
    Batch,
    /// The executor's method runs.
    Call,
    /// The reply is made.
    Encode,
}

/// The time of a request; empty if its caller does not ask for it. Clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Timing(Option<Arc<Mutex<Times>>>);

#[derive(Debug)]
struct Times {
    /// The clock of this machine at the first beginning.
    clock: SystemTime,
    /// The beginnings, in the order of the stages. The first one is that of the whole.
    begun: Vec<(Stage, Instant)>,
    /// The parts of its call, as the executor reports them.
    of_call: Vec<PastStage>,
    /// The requests and the documents of its call; it is worth a note if there are several requests.
    shared: Option<(usize, usize)>,
}

impl Stage {
    fn name(self) -> &'static str {
        match self {
            Self::Admission => "admission",
            Self::Decode => "decode",
            Self::Queue => "queue",
            Self::Batch => "batch",
            Self::Call => "call",
            Self::Encode => "encode",
        }
    }
}

impl Timing {
    /// Begins with the first stage, if it is wanted.
    pub(crate) fn begin_if(is_wanted: bool) -> Self {
        Self(is_wanted.then(|| {
            Arc::new(Mutex::new(Times {
                clock: SystemTime::now(),
                begun: vec![(Stage::Admission, Instant::now())],
                of_call: Vec::new(),
                shared: None,
            }))
        }))
    }

    /// Whether the caller asks for it.
    pub(crate) fn is_wanted(&self) -> bool {
        self.0.is_some()
    }

    /// Begins a stage now.
    pub(crate) fn begin(&self, stage: Stage) {
        if self.is_wanted() {
            self.begin_at(stage, Instant::now());
        }
    }

    /// Begins a stage. Of a request that is split, the first part decides when a stage begins, and the last one when the call
    /// ends.
    pub(crate) fn begin_at(&self, stage: Stage, at: Instant) {
        self.change(|times| {
            let known = times.begun.iter_mut().find(|(known, _)| *known == stage);
            match known {
                Some((Stage::Encode, last)) => *last = at,
                Some(_) => {}
                None => times.begun.push((stage, at)),
            }
        });
    }

    /// Notes with how many requests and documents it shares its call, itself included.
    pub(crate) fn share(&self, shared: (usize, usize)) {
        self.change(|times| times.shared = Some(shared));
    }

    /// Adds the parts of its call. A request that is split has several calls.
    pub(crate) fn add_stages_of_call(&self, stages: &[PastStage]) {
        self.change(|times| times.of_call.extend_from_slice(stages));
    }

    /// Ends it, and returns its routes: that of the executor, and one for each stage. Without times, only the name of the
    /// executor.
    pub(crate) fn end(&self, executor: &str) -> Vec<RouteProto> {
        let mut routes = Vec::new();
        self.change(|times| routes = times.routes(executor, Instant::now()));
        if routes.is_empty() {
            routes.push(RouteProto {
                executor: executor.to_owned(),
                ..RouteProto::default()
            });
        }
        routes
    }

    fn change(&self, change: impl FnOnce(&mut Times)) {
        if let Some(times) = &self.0 {
            change(&mut times.lock().unwrap_or_else(PoisonError::into_inner));
        }
    }
}

impl Times {
    fn routes(&mut self, executor: &str, end: Instant) -> Vec<RouteProto> {
        self.begun.sort_by_key(|(stage, _)| *stage);
        let first = self.begun.first().map_or(end, |(_, at)| *at);
        let mut routes = vec![self.route(executor.to_owned(), Duration::ZERO, end - first)];
        for (index, (stage, at)) in self.begun.iter().enumerate() {
            let next = self.begun.get(index + 1).map_or(end, |(_, next)| *next);
            let name = format!("{executor}#{}", stage.name());
            // A mark of another thread may be a moment earlier than the one before it.
            let offset = |at: Instant| at.saturating_duration_since(first);
            let mut route = self.route(name.clone(), offset(*at), offset(next).max(offset(*at)));
            if let (Stage::Call, Some((requests @ 2.., documents))) = (stage, self.shared) {
                route.status = Some(StatusProto {
                    description: format!("{requests} requests with {documents} documents"),
                    ..StatusProto::default()
                });
            }
            routes.push(route);
            if *stage == Stage::Call {
                routes.extend(self.of_call.iter().map(|part| {
                    let name = format!("{name}#{}", part.name);
                    self.route(name, offset(part.began), offset(part.ended))
                }));
            }
        }
        routes
    }

    fn route(&self, executor: String, from: Duration, to: Duration) -> RouteProto {
        RouteProto {
            executor,
            start_time: Some(Timestamp::from(self.clock + from)),
            end_time: Some(Timestamp::from(self.clock + to)),
            ..RouteProto::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The names of the routes and how many milliseconds each took.
    fn of(timing: &Timing) -> Vec<(String, u128)> {
        let time = |it: Option<Timestamp>| SystemTime::try_from(it.unwrap()).unwrap();
        let took = |it: &RouteProto| time(it.end_time).duration_since(time(it.start_time));
        let routes = timing.end("a");
        let routes = routes.iter();
        routes
            .map(|it| (it.executor.clone(), took(it).unwrap().as_millis()))
            .collect()
    }

    #[test]
    fn nothing_is_measured_unless_it_is_asked_for() {
        let timing = Timing::begin_if(false);
        timing.begin(Stage::Call);
        let routes = timing.end("a");
        assert_eq!(routes.len(), 1);
        assert_eq!(
            (routes[0].executor.as_str(), routes[0].start_time),
            ("a", None)
        );
    }

    #[test]
    fn the_parts_of_a_call_follow_it() {
        let timing = Timing::begin_if(true);
        timing.begin(Stage::Call);
        let began = timing.0.as_ref().unwrap().lock().unwrap().begun[1].1;
        let ms = Duration::from_millis;
        timing.add_stages_of_call(&[PastStage {
            name: "tokenize",
            began,
            ended: began + ms(3),
        }]);
        timing.begin_at(Stage::Encode, began + ms(10));
        let found = of(&timing);
        assert_eq!(found[2], ("a#call".to_owned(), 10));
        assert_eq!(found[3], ("a#call#tokenize".to_owned(), 3));
        assert_eq!(found[4].0, "a#encode");
    }

    #[test]
    fn a_stage_ends_where_the_next_one_begins() {
        let timing = Timing::begin_if(true);
        let begun = timing.0.as_ref().unwrap().lock().unwrap().begun[0].1;
        let at = |ms: u64| begun.checked_sub(Duration::from_millis(100 - ms)).unwrap();
        timing.change(|times| times.begun[0].1 = at(0));
        timing.begin_at(Stage::Queue, at(2));
        // Of two parts, the first one begins the call and the last one ends it.
        for (call, end) in [(10, 30), (20, 50)] {
            timing.begin_at(Stage::Call, at(call));
            timing.begin_at(Stage::Encode, at(end));
        }
        timing.share((3, 96));
        let found = of(&timing);
        let stages: Vec<(&str, u128)> = found
            .iter()
            .map(|(name, ms)| (name.as_str(), *ms))
            .collect();
        assert_eq!(
            stages[1..4],
            [("a#admission", 2), ("a#queue", 8), ("a#call", 40)]
        );
        assert_eq!((stages[0].0, stages[4].0), ("a", "a#encode"));
        let call = &timing.end("a")[3];
        let note = &call.status.as_ref().unwrap().description;
        assert_eq!(note, "3 requests with 96 documents");
    }
}
