//! Times of the stages of a request in each process, for callers that ask for them.
//!
//! An executor of flow adds a route for each stage to its reply, such as `encoder#queue`. The gateway's reply has them all,
//! with the name of their node before, such as `encoder#encoder/rep-0#queue`. Their times are of the executor's clock.

use std::time::{Duration, SystemTime};

use flow_proto::Envelope;
use flow_proto::jina::RouteProto;

/// Separates the name of a process and that of a stage. Names of nodes do not contain it.
const SEPARATOR: char = '#';

/// The stage before the gateway's own route: the request waits to be admitted.
const ADMISSION: &str = "gateway#admission";

/// Maximum stages of one request. A large flow has dozens; executors report them, so their number is limited.
const STAGES_MAX: usize = 512;

/// The stages of a request at all nodes.
#[derive(Debug, Default)]
pub(crate) struct Stages(Vec<RouteProto>);

/// Takes the stages out of the reply of an executor, each with the name of its process. Nothing is allocated if the caller
/// does not ask for them.
pub(crate) fn take(reply: &mut Envelope) -> Vec<RouteProto> {
    let is_stage = |it: &RouteProto| it.executor.contains(SEPARATOR);
    match reply.routes.iter().position(is_stage) {
        // The route before the first stage is that of the whole process, with its time.
        Some(first) => reply.routes.split_off(first.saturating_sub(1)),
        None => Vec::new(),
    }
}

/// The routes of a reply that are not stages: the gateway's, and those of nodes.
pub(crate) fn without(routes: &[RouteProto]) -> impl Iterator<Item = &RouteProto> {
    routes.iter().filter(|it| !it.executor.contains(SEPARATOR))
}

impl Stages {
    /// Adds the stages of a node.
    pub(crate) fn add(&mut self, node: &str, stages: Vec<RouteProto>) {
        let room = STAGES_MAX.saturating_sub(self.0.len());
        self.0
            .extend(stages.into_iter().take(room).map(|mut stage| {
                stage.executor = format!("{node}{SEPARATOR}{}", stage.executor);
                stage
            }));
    }

    /// Adds them to the routes of the reply, and how long the request waited to be admitted.
    pub(crate) fn write(self, routes: &mut Vec<RouteProto>, waited: Duration) {
        let now = SystemTime::now();
        let begun = routes.first().and_then(|it| it.start_time);
        let begun = begun.and_then(|it| SystemTime::try_from(it).ok());
        let ended = begun.unwrap_or(now);
        let started = ended.checked_sub(waited).unwrap_or(ended);
        routes.push(RouteProto {
            executor: ADMISSION.to_owned(),
            start_time: Some(started.into()),
            end_time: Some(ended.into()),
            status: None,
        });
        routes.extend(self.0);
    }
}

/// How long a request spent in the stages of executors, summed over them. `None` if none of them reports the stage.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct StageTimes {
    /// Waiting to be admitted, for a worker, and for further requests of its batch.
    pub(crate) queue: Option<Duration>,
    pub(crate) tokenization: Option<Duration>,
    /// The executor's method, except tokenization.
    pub(crate) inference: Option<Duration>,
}

impl StageTimes {
    /// Of the routes of a reply to a request that asked for its times.
    pub(crate) fn of(routes: &[RouteProto]) -> Self {
        let mut times = Self::default();
        let mut call = None;
        for route in routes {
            let (Some(stage), Some(took)) = (stage_of_executor(&route.executor), took(route))
            else {
                continue;
            };
            let sum = match stage {
                "admission" | "queue" | "batch" => &mut times.queue,
                "call" => &mut call,
                "call#tokenize" => &mut times.tokenization,
                _ => continue,
            };
            *sum = Some(sum.unwrap_or_default() + took);
        }
        let tokenization = times.tokenization.unwrap_or_default();
        times.inference = call.map(|call| call.saturating_sub(tokenization));
        times
    }

    /// The longer time of each stage, for requests that are in progress at the same time.
    pub(crate) fn max(self, other: Self) -> Self {
        Self {
            queue: self.queue.max(other.queue),
            tokenization: self.tokenization.max(other.tokenization),
            inference: self.inference.max(other.inference),
        }
    }
}

/// The name of a stage in a route such as `encoder#encoder/rep-0#call#tokenize`: what follows the node and its process.
fn stage_of_executor(route: &str) -> Option<&str> {
    let (_node, rest) = route.split_once(SEPARATOR)?;
    let (_process, stage) = rest.split_once(SEPARATOR)?;
    Some(stage)
}

fn took(route: &RouteProto) -> Option<Duration> {
    let start = SystemTime::try_from(route.start_time?).ok()?;
    let end = SystemTime::try_from(route.end_time?).ok()?;
    end.duration_since(start).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A route that took this many milliseconds.
    fn timed(name: &str, ms: u64) -> RouteProto {
        let start = SystemTime::UNIX_EPOCH;
        RouteProto {
            executor: name.to_owned(),
            start_time: Some(start.into()),
            end_time: Some((start + Duration::from_millis(ms)).into()),
            status: None,
        }
    }

    #[test]
    fn the_times_of_stages_are_summed_over_executors() {
        let ms = Duration::from_millis;
        let times = StageTimes::of(&[
            timed("gateway", 100),
            timed("gateway#admission", 9),
            timed("a#a/rep-0", 50),
            timed("a#a/rep-0#admission", 1),
            timed("a#a/rep-0#decode", 1),
            timed("a#a/rep-0#queue", 4),
            timed("a#a/rep-0#call", 20),
            timed("a#a/rep-0#call#tokenize", 3),
            timed("a#a/rep-0#call#compute", 16),
            timed("b#b#batch", 5),
            timed("b#b#call", 7),
        ]);
        assert_eq!(times.queue, Some(ms(10)));
        assert_eq!(times.tokenization, Some(ms(3)));
        assert_eq!(times.inference, Some(ms(24)));
    }

    #[test]
    fn stages_that_no_executor_reports_have_no_time() {
        let stock = [timed("gateway", 9), timed("a", 5)];
        assert_eq!(StageTimes::of(&stock), StageTimes::default());
        let no_tokens = StageTimes::of(&[timed("a#a#call", 5)]);
        assert_eq!(no_tokens.tokenization, None);
        assert_eq!(no_tokens.inference, Some(Duration::from_millis(5)));
    }

    #[test]
    fn of_pieces_the_longest_time_counts() {
        let [one, other] = [3, 5].map(|ms| StageTimes::of(&[timed("a#a#queue", ms)]));
        assert_eq!(one.max(other), other);
        assert_eq!(one.max(StageTimes::default()), one);
    }

    fn reply(routes: &[&str]) -> Envelope {
        let route = |name: &&str| RouteProto {
            executor: (*name).to_owned(),
            ..RouteProto::default()
        };
        Envelope {
            routes: routes.iter().map(route).collect(),
            ..Envelope::default()
        }
    }

    #[test]
    fn the_stages_of_a_reply_have_the_names_of_their_node_and_their_process() {
        let mut sent = reply(&["gateway", "a/rep-0", "a/rep-0#queue", "a/rep-0#call"]);
        let mut stages = Stages::default();
        stages.add("a", take(&mut sent));
        stages.add("b", take(&mut reply(&["b"])));
        let mut routes = reply(&["gateway", "a", "b"]).routes;
        stages.write(&mut routes, Duration::from_millis(1));
        let names: Vec<&str> = routes.iter().map(|it| it.executor.as_str()).collect();
        let expected = [
            "gateway",
            "a",
            "b",
            "gateway#admission",
            "a#a/rep-0",
            "a#a/rep-0#queue",
            "a#a/rep-0#call",
        ];
        assert_eq!(names, expected);
    }

    #[test]
    fn an_executor_cannot_add_any_number_of_stages() {
        let mut stages = Stages::default();
        stages.add("a", take(&mut reply(&["a#b"; 2 * STAGES_MAX])));
        assert_eq!(stages.0.len(), STAGES_MAX);
    }
}
