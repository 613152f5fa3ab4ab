use std::num::{NonZeroU16, NonZeroUsize};

use flow_spec::Run;

use super::*;
use crate::spec::invocation::{BuiltIn, Programs};

const CORES: NonZeroUsize = NonZeroUsize::new(4).unwrap();

fn shared() -> SharedOptions {
    SharedOptions {
        programs: Programs {
            flow: "/bin/flow".into(),
            built_in: vec![BuiltIn {
                name: "echo".to_owned(),
                variables: Vec::new(),
                uses_all_cores: false,
            }],
        },
        grace: Duration::from_secs(10),
        log: LogStyle::Text,
        restart_policy: RestartPolicy::default(),
        flow: None,
        state_directory: None,
    }
}

fn plan(executors: &str) -> Plan {
    let text = format!("jtype: Flow\nwith: {{port: 5}}\nexecutors: {executors}");
    let path = "test.yml".as_ref();
    let file = flow_spec::TextFile { path, text: &text };
    let checked = flow_spec::load(file, &flow_spec::Variables::default());
    Plan::from(checked.unwrap().flow)
}

/// A plan of one node, in shards.
fn sharded(shards: u16, replicas: u16) -> Plan {
    let mut plan = plan("[{name: a, uses: echo}]");
    let run = run(&mut plan);
    run.ports = vec![7, 8, 9];
    run.shards = NonZeroU16::new(shards).unwrap();
    run.replicas = NonZeroU16::new(replicas).unwrap();
    plan
}

fn run(plan: &mut Plan) -> &mut LocalRun {
    match &mut plan.nodes[0].run {
        Run::Local(run) => run,
        Run::External { .. } => panic!("the flow starts it"),
    }
}

fn check(plan: &Plan, expected: &[(&str, u16)]) {
    let specs = executors(plan, &shared()).unwrap();
    let found: Vec<(&str, u16)> = specs
        .iter()
        .map(|it| (&*it.name, it.ports.serving))
        .collect();
    assert_eq!(found, expected);
}

#[test]
fn an_executor_listens_at_a_socket_unless_the_file_gives_it_an_address() {
    let check = |options: &str, expected: &[bool]| {
        let plan = plan(&format!("[{{name: a, uses: echo{options}}}]"));
        let specs = executors(&plan, &shared()).unwrap();
        let found: Vec<bool> = specs.iter().map(|it| it.at_socket).collect();
        assert_eq!(found, expected, "{options}");
    };
    check("", &[true]);
    check(", port: 7, replicas: 2", &[false, false]);
    check(", host: 127.0.0.1", &[false]);
    let around = ", shards: 2, uses_before: echo, uses_after: docker://img";
    check(around, &[true, true, true, false]);
}

#[test]
fn each_replica_is_a_process_with_its_own_name() {
    check(&plan("[{name: a, uses: echo}]"), &[("a", 0)]);
    check(&plan("[{name: a, uses: echo, port: 7}]"), &[("a", 7)]);
    check(
        &plan("[{name: a, uses: echo, replicas: 2}, {name: b, uses: echo}]"),
        &[("a/rep-0", 0), ("a/rep-1", 0), ("b", 0)],
    );
}

#[test]
fn each_shard_has_its_own_replicas() {
    check(&sharded(2, 1), &[("a/shard-0", 7), ("a/shard-1", 8)]);
    check(
        &sharded(2, 2),
        &[
            ("a/shard-0/rep-0", 7),
            ("a/shard-0/rep-1", 8),
            ("a/shard-1/rep-0", 9),
            ("a/shard-1/rep-1", 0),
        ],
    );
}

#[test]
fn uses_before_and_uses_after_are_processes() {
    let mut plan = sharded(2, 1);
    run(&mut plan).before = Some(Uses::Named("echo".to_owned()));
    run(&mut plan).after = Some(Uses::Named("ranker".to_owned()));
    check(
        &plan,
        &[
            ("a/shard-0", 7),
            ("a/shard-1", 8),
            ("a/uses-before", 0),
            ("a/uses-after", 0),
        ],
    );
    let specs = executors(&plan, &shared()).unwrap();
    assert_eq!(specs[3].invocation.program.to_str(), Some("ranker"));
}

#[test]
fn an_external_executor_is_not_started() {
    check(
        &plan("[{name: a, external: true, host: 127.0.0.1, port: 7}]"),
        &[],
    );
}

#[test]
fn replicas_take_devices_in_turn_in_every_shard() {
    let mut plan = sharded(2, 3);
    let env = &mut run(&mut plan).env;
    let devices = Secret::new("RR0,1".to_owned());
    env.insert(round_robin::VARIABLE.to_owned(), devices);
    let specs = executors(&plan, &shared()).unwrap();
    let seen: Vec<&str> = specs
        .iter()
        .filter_map(|it| it.invocation.env.reveal(round_robin::VARIABLE))
        .collect();
    assert_eq!(seen, ["0", "1", "0", "0", "1", "0"]);
}

#[test]
fn unknown_devices_are_an_error_that_names_the_node() {
    let mut plan = sharded(1, 1);
    let env = &mut run(&mut plan).env;
    let devices = Secret::new("RR".to_owned());
    env.insert(round_robin::VARIABLE.to_owned(), devices);
    let error = executors(&plan, &shared()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot assign devices to the replicas of `a`"
    );
    assert!(error.source.to_string().contains("CUDA_TOTAL_DEVICES"));
}

#[test]
fn a_process_stays_if_it_would_be_started_in_the_same_way() {
    let spec = |yaml: &str| executors(&plan(yaml), &shared()).unwrap().remove(0);
    let old = spec("[{name: a, uses: echo}]");
    let check = |yaml: &str, stays: bool| assert_eq!(spec(yaml).is_met_by(&old), stays, "{yaml}");
    check("[{name: a, uses: echo}]", true);
    // It keeps the name that it had alone.
    check("[{name: a, uses: echo, replicas: 2}]", true);
    check("[{name: a, uses: echo, timeout_send: 5}]", true);
    check("[{name: b, uses: echo}]", false);
    check("[{name: a, uses: ecco}]", false);
    check("[{name: a, uses: echo, port: 7}]", false);
    check("[{name: a, uses: echo, env: {A: b}}]", false);
    check("[{name: a, uses: echo, uses_with: {b: 1}}]", false);
    check("[{name: a, uses: echo, monitoring: true}]", false);
}

#[test]
fn a_monitored_process_has_a_metrics_port_and_jinas_name() {
    let mut plan = sharded(2, 2);
    let run = run(&mut plan);
    run.monitoring = Some(flow_spec::Monitoring {
        ports: vec![7, 8, 0],
    });
    run.before = Some(Uses::Named("echo".to_owned()));
    let specs = executors(&plan, &shared()).unwrap();
    let output = specs.iter().map(|spec| {
        let arguments = spec
            .invocation
            .at_start(&spec.name, spec.ports, 1)
            .join(" ");
        let start = spec.invocation.arguments.join(" ");
        let name = start.rsplit(' ').next().unwrap_or_default().to_owned();
        let port = arguments
            .split("--port-monitoring ")
            .nth(1)
            .unwrap_or_default();
        let port = port.split(' ').next().unwrap_or_default().to_owned();
        assert!(start.contains("--monitoring --runtime-name "), "{start}");
        (name, port)
    });
    let output: Vec<(String, String)> = output.collect();
    let output: Vec<(&str, &str)> = output.iter().map(|(a, b)| (&**a, &**b)).collect();
    assert_eq!(
        output,
        [
            ("a/shard-0/rep-0", "7"),
            ("a/shard-0/rep-1", "8"),
            ("a/shard-1/rep-0", "0"),
            ("a/shard-1/rep-1", "0"),
            ("a/uses-before/rep-0", "0"),
        ]
    );
}

#[test]
fn the_gateway_is_a_process() {
    let spec = gateway(
        &plan("[{name: a, uses: echo}, {name: b}]"),
        &shared(),
        CORES,
    );
    assert_eq!(
        (&*spec.name, spec.ports.serving, spec.role),
        ("gateway", 5, Role::Gateway)
    );
    let arguments = spec.invocation.arguments.join(" ");
    let expected = "gateway --placement - --host 127.0.0.1 --grace 10000ms --log text";
    assert_eq!(arguments, expected);
    let with_state = SharedOptions {
        state_directory: Some("/state/a flow".into()),
        ..shared()
    };
    let spec = gateway(&plan("[{name: a}, {name: b}]"), &with_state, CORES);
    let arguments = spec.invocation.arguments;
    let at = arguments.iter().position(|it| it == "--state-directory");
    assert_eq!(arguments[at.unwrap() + 1], "/state/a flow");
}

#[test]
fn beside_one_model_the_gateway_uses_half_of_the_cores() {
    let mut programs = shared().programs;
    let threads = |executors: &str, programs: &Programs, cores: usize| {
        let cores = NonZeroUsize::new(cores).unwrap();
        threads(&plan(executors), programs, cores).map(NonZeroUsize::get)
    };
    let one = "[{name: a, uses: echo, replicas: 3}]";
    let colocated = "[{name: a, uses: echo, colocate: true}]";
    assert_eq!(threads(one, &programs, 2), None);
    assert_eq!(threads(colocated, &programs, 2), None);
    programs.built_in[0].uses_all_cores = true;
    for (cores, half) in [(1, 1), (2, 1), (3, 2), (16, 8)] {
        assert_eq!(threads(one, &programs, cores), Some(half));
        assert_eq!(threads(colocated, &programs, cores), Some(half));
    }
    let two = "[{name: a, uses: echo}, {name: b, uses: echo}]";
    assert_eq!(threads(two, &programs, 2), None);
    let elsewhere = "[{name: a, external: true, host: far, port: 7}]";
    assert_eq!(threads(elsewhere, &programs, 2), None);
    let mut shared = shared();
    shared.programs = programs;
    let spec = gateway(&plan(one), &shared, CORES);
    let arguments = spec.invocation.arguments.join(" ");
    assert!(arguments.contains("--threads 2"), "{arguments}");
}

#[test]
fn the_gateway_waits_for_colocated_executors_and_inherits_what_they_read() {
    let executor = |options: &str| {
        let plan = plan(&format!("[{{name: a, uses: echo{options}}}]"));
        let mut shared = shared();
        shared.programs.built_in[0].variables = vec!["TOKEN".to_owned()];
        gateway(&plan, &shared, CORES)
    };
    let of_gateway = executor("").timeout_ready.unwrap();
    let seconds = |options: &str| executor(options).timeout_ready.map(|it| it.as_secs());
    let with = |more: u64| Some(of_gateway.as_secs() + more);
    assert_eq!(seconds(", timeout_ready: 7s"), with(0));
    assert_eq!(seconds(", timeout_ready: 7s, colocate: true"), with(7));
    assert_eq!(seconds(", timeout_ready: -1, colocate: true"), None);
    let inherits = |options: &str| executor(options).invocation.inherits;
    let listed = |names: &[&str]| {
        crate::spec::environment::Inherited::Shared(names.iter().map(|&it| it.to_owned()).collect())
    };
    assert_eq!(inherits(""), listed(&[]));
    assert_eq!(inherits(", colocate: true"), listed(&["TOKEN"]));
}
