//! Which processes a plan needs: one post for each replica, and one for the gateway. Pure.

use std::sync::Arc;
use std::time::Duration;

use flow_spec::{LocalRun, Log, NodeIdx, NodePlan, Plan, Run};

use crate::backoff::Restarts;
use crate::command::{Common, Invocation};

/// The gateway's name among the processes; no node may have it.
const GATEWAY: &str = "gateway";

/// One process as the plan wants it.
#[derive(Debug, Clone)]
pub(crate) struct Post {
    pub(crate) name: Arc<str>,
    pub(crate) role: Role,
    pub(crate) invocation: Invocation,
    /// Port it takes; 0: any free one.
    pub(crate) port: u16,
    pub(crate) timeout_ready: Option<Duration>,
    pub(crate) grace: Duration,
    pub(crate) restarts: Restarts,
    /// Its lines are kept, and not passed on.
    pub(crate) quiet: bool,
}

/// What a process is in its flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// It runs a node.
    Replica {
        /// The node.
        node: NodeIdx,
        /// Which of the node's replicas, from 0.
        number: usize,
    },
    /// Clients talk to it.
    Gateway,
}

/// Every executor process of a plan, in the plan's order.
pub(crate) fn executors(plan: &Plan, common: &Common) -> Vec<Post> {
    let locals = plan.nodes().filter_map(|(at, node)| match &node.run {
        Run::Local(run) => Some((at, node, run.as_ref())),
        Run::External { .. } => None,
    });
    locals
        .flat_map(|(at, node, run)| replicas(at, node, run, common))
        .collect()
}

fn replicas<'p>(
    at: NodeIdx,
    node: &'p NodePlan,
    run: &'p LocalRun,
    common: &'p Common,
) -> impl Iterator<Item = Post> + 'p {
    let count = usize::from(run.replicas.get());
    (0..count).map(move |number| {
        let name = match count {
            1 => node.name.as_str().to_owned(),
            _ => format!("{}/rep-{number}", node.name),
        };
        Post {
            role: Role::Replica { node: at, number },
            invocation: Invocation::executor(common, &name, run),
            name: name.into(),
            port: run.ports.get(number).copied().unwrap_or(0),
            timeout_ready: run.timeout_ready,
            grace: common.grace,
            restarts: common.restarts,
            quiet: run.log == Some(Log::Off),
        }
    })
}

/// The gateway process of a plan.
pub(crate) fn gateway(plan: &Plan, common: &Common) -> Post {
    let gateway = &plan.gateway;
    Post {
        name: GATEWAY.into(),
        role: Role::Gateway,
        invocation: Invocation::gateway(common, gateway),
        port: gateway.port.unwrap_or(0),
        timeout_ready: gateway.timeout_ready,
        grace: common.grace,
        restarts: common.restarts,
        quiet: gateway.log == Some(Log::Off),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::Programs;

    fn common() -> Common {
        Common {
            programs: Programs {
                flow: "/bin/flow".into(),
                built_in: vec!["echo".to_owned()],
            },
            grace: Duration::from_secs(10),
            log: Log::Text,
            restarts: Restarts::default(),
        }
    }

    fn plan(executors: &str) -> Plan {
        let text = format!("jtype: Flow\nwith: {{port: 5}}\nexecutors: {executors}");
        let path = "test.yml".as_ref();
        let file = flow_spec::TextFile { path, text: &text };
        let checked = flow_spec::load(file, &flow_spec::Variables::default());
        Plan::from(checked.unwrap().flow)
    }

    fn check(yaml: &str, expected: &[(&str, u16)]) {
        let posts = executors(&plan(yaml), &common());
        let found: Vec<(&str, u16)> = posts.iter().map(|it| (&*it.name, it.port)).collect();
        assert_eq!(found, expected, "{yaml}");
    }

    #[test]
    fn each_replica_is_a_process_with_a_name_of_its_own() {
        check("[{name: a, uses: echo}]", &[("a", 0)]);
        check("[{name: a, uses: echo, port: 7}]", &[("a", 7)]);
        check(
            "[{name: a, uses: echo, replicas: 2}, {name: b, uses: echo}]",
            &[("a/rep-0", 0), ("a/rep-1", 0), ("b", 0)],
        );
    }

    #[test]
    fn what_others_started_is_not_started() {
        check("[{name: a, external: true, host: 127.0.0.1, port: 7}]", &[]);
    }

    #[test]
    fn the_gateway_is_a_process_too() {
        let post = gateway(&plan("[{name: a, uses: echo}]"), &common());
        assert_eq!(
            (&*post.name, post.port, post.role),
            ("gateway", 5, Role::Gateway)
        );
        let arguments = post.invocation.arguments.join(" ");
        let expected = "gateway --placement - --host 0.0.0.0 --grace 10000ms --log text";
        assert_eq!(arguments, expected);
    }
}
