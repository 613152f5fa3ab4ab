//! Where the time of a request went inside the processes that it passed, if its caller asks for it.
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

#[cfg(test)]
mod tests {
    use super::*;

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
