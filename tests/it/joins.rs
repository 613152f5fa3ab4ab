//! Branches run side by side, and become one in the order in which `needs` names them.

use flow_tests::{TestFlow, post, texts};

use serde_json::json;

use crate::{FAULTY, MARKER};

#[tokio::test]
async fn the_flow_of_two_branches_gives_documents_back() {
    let flow = TestFlow::file("two-branches.yml");
    let said = post(&flow, vec![texts("/any", &["a", "b"])]).await;
    assert_eq!(said[0].texts, ["a", "b"]);
    assert_eq!(said[0].failure, None);
    assert_eq!(said[0].routes[0], "gateway");
    let mut routes = said[0].routes[1..].to_vec();
    routes.sort();
    assert_eq!(routes, ["joined", "left", "right"]);
}

/// Two branches that both change the text; the one that is first in `needs` wins.
async fn check(needs: &str, wanted: &str) {
    let flow = TestFlow::up(&format!(
        "executors:
  - {{name: left, uses: {FAULTY}, uses_with: {{mark: L}}, needs: gateway}}
  - {{name: right, uses: {FAULTY}, uses_with: {{mark: R}}, needs: gateway}}
  - {{name: joined, uses: echo, needs: {needs}}}"
    ));
    let requests: Vec<_> = (0..20).map(|_| texts("/mark", &["x"])).collect();
    for said in post(&flow, requests).await {
        assert_eq!(said.texts, [wanted], "{needs}: {:?}", said.failure);
    }
}

#[tokio::test]
async fn the_branch_that_needs_names_first_wins_however_slow_it_is() {
    check("[left, right]", "xL").await;
    check("[right, left]", "xR").await;
}

/// However slow they are: three branches that set the same tags, and as many milliseconds as chance gives each.
#[tokio::test]
async fn a_thousand_joins_of_branches_that_take_their_time_give_one_result() {
    let branch = |name| {
        format!("- {{name: {name}, uses: {MARKER}, uses_with: {{mark: {name}}}, needs: gateway}}\n")
    };
    let branches: String = ["a", "b", "c"].map(branch).concat();
    let flow = TestFlow::up(&format!(
        "executors:\n{branches}- {{name: joined, uses: echo, needs: [b, c, a]}}"
    ));
    let mut chance = 1u32;
    let mut delay = || {
        chance = chance.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (chance >> 16) % 4
    };
    let mut requests = Vec::new();
    for _ in 0..1000 {
        let delays = json!({"a__delay": delay(), "b__delay": delay(), "c__delay": delay()});
        requests.push(flow_tests::request("/mark", &["x"], &delays));
    }
    for said in post(&flow, requests).await {
        assert_eq!(said.texts, ["xb"], "{:?}", said.failure);
    }
}

#[tokio::test]
async fn a_floating_executor_does_not_delay_the_reply() {
    let flow = TestFlow::up(&format!(
        "executors:
  - {{name: first, uses: echo}}
  - {{name: aside, uses: {FAULTY}, floating: true}}"
    ));
    let (began, until) = (flow.folder().join("began"), flow.folder().join("until"));
    let parameters = json!({ "began": began, "until": until });
    let said = post(
        &flow,
        vec![flow_tests::request("/wait", &["x"], &parameters)],
    )
    .await;
    assert_eq!(said[0].texts, ["x"]);
    flow_tests::eventually("the floating executor runs", || began.exists());
    assert!(!until.exists(), "the reply came while it was still at work");
}
