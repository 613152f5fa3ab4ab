use std::time::UNIX_EPOCH;

use flow_core::{Code, Failure};

use super::*;

fn at(ms: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(ms)
}

fn route(name: &str, from: u64, to: u64) -> RouteProto {
    RouteProto {
        executor: name.to_owned(),
        start_time: Some(at(from).into()),
        end_time: Some(at(to).into()),
        status: None,
    }
}

/// Each hop on a line, with the start and the length of its spans in milliseconds.
fn text(hop: &Hop, depth: usize) -> String {
    let spans = hop.spans.iter();
    let spans = spans.map(|it| format!(" {}+{}", it.start.as_millis(), it.took.as_millis()));
    let spans: String = spans.collect();
    let note = hop.note.as_ref().map(|it| format!(" ({it})"));
    let below = hop.children.iter().map(|it| text(it, depth + 1));
    let line = format!(
        "{:depth$}{}{spans}{}\n",
        "",
        hop.name,
        note.unwrap_or_default()
    );
    line + &below.collect::<String>()
}

#[track_caller]
fn check(took: u64, routes: &[RouteProto], expected: &str) {
    let sent = Sent {
        at: at(1000),
        took: Duration::from_millis(took),
    };
    let found = text(&hops(sent, routes), 0);
    let expected: Vec<&str> = expected.trim_matches('\n').lines().collect();
    let indent = expected[0].len() - expected[0].trim_start().len();
    let expected = expected.iter().map(|line| format!("{}\n", &line[indent..]));
    assert_eq!(found, expected.collect::<String>());
}

#[test]
fn branches_of_a_flow_overlap() {
    let routes = [
        route("gateway", 1010, 1060),
        route("b", 1012, 1052),
        route("a", 1011, 1031),
        route("join", 1053, 1058),
        route("gateway#admission", 1005, 1010),
        route("a#a/rep-0", 1013, 1030),
        route("a#a/rep-0#queue", 1013, 1014),
        route("a#a/rep-0#call", 1014, 1030),
    ];
    check(
        70,
        &routes,
        "
        client 0+70
         network 0+5 60+10
         gateway 5+55
          admission 5+5
          itself 10+1 52+1 58+2
          a 11+20 (a/rep-0)
           network 11+2 30+1
           queue 13+1
           call 14+16
          b 12+40
          join 53+5",
    );
}

#[test]
fn the_parts_of_a_call_are_below_it() {
    let routes = [
        route("gateway", 1010, 1060),
        route("a", 1010, 1060),
        route("a#a", 1020, 1050),
        route("a#a#queue", 1020, 1022),
        route("a#a#call", 1022, 1050),
        route("a#a#call#tokenize", 1023, 1026),
        route("a#a#call#compute", 1026, 1050),
        route("a#a#lost#part", 1050, 1050),
    ];
    check(
        60,
        &routes,
        "
        client 0+60
         network 0+10
         gateway 10+50
          itself
          a 10+50
           network 10+10 50+10
           queue 20+2
           call 22+28
            itself 22+1
            tokenize 23+3
            compute 26+24
           lost#part 50+0",
    );
}

#[test]
fn clocks_of_other_machines_move_nothing_out_of_its_place() {
    // The gateway's clock is an hour ahead, and the executor's is behind.
    let hour = 3_600_000;
    let routes = [
        route("gateway", hour, hour + 40),
        route("a", hour + 10, hour + 30),
        route("a#a", 7, 17),
        route("a#a#call", 9, 12),
    ];
    check(
        60,
        &routes,
        "
        client 0+60
         network 0+10 50+10
         gateway 10+40
          itself 10+10 40+10
          a 20+20
           network 20+5 35+5
           call 27+3",
    );
}

#[test]
fn a_span_that_outlasts_its_callers_wait_is_truncated() {
    let routes = [route("gateway", 1000, 1900), route("a", 1100, 1800)];
    check(
        10,
        &routes,
        "
        client 0+10
         network
         gateway 0+10
          itself
          a 0+10",
    );
}

#[test]
fn a_reply_without_times_has_the_client_only() {
    let untimed = RouteProto {
        executor: "a".to_owned(),
        ..RouteProto::default()
    };
    check(10, &[untimed], "client 0+10");
    check(10, &[], "client 0+10");
}

#[test]
fn an_executor_can_be_called_without_a_gateway() {
    let routes = [route("a", 1002, 1008), route("a#call", 1003, 1008)];
    check(
        10,
        &routes,
        "
        client 0+10
         network 0+2 8+2
         a 2+6
          call 3+5",
    );
}

#[test]
fn a_node_is_skipped_or_fails_or_has_shards() {
    let failure = Failure::new(Code::ExecutorFailed, "no");
    let failed = RouteProto {
        status: Some(failure.to_status()),
        ..route("b", 1004, 1006)
    };
    let routes = [
        route("gateway", 1000, 1020),
        route("a", 1001, 1001),
        failed,
        route("c", 1006, 1016),
        route("c#c/shard-0", 1007, 1012),
        route("c#c/shard-1", 1008, 1015),
    ];
    check(
        20,
        &routes,
        "
        client 0+20
         network
         gateway 0+20
          itself 0+4 16+4
          a 1+0 (skipped)
          b 4+2 (failed: no)
          c 6+10
           network 6+1 15+1
           c/shard-0 7+5
           c/shard-1 8+7",
    );
}
