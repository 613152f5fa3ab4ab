//! Pictures that nothing is missing from, and in which nothing overlaps.

use serde_json::json;

use super::layers::{self, Size};
use super::picture::{Card, Link, Picture};
use super::*;
use crate::{Flow, FlowSpec, Variables};

fn plan(entries: &str) -> Plan {
    let text = format!("jtype: Flow\nexecutors:\n{entries}");
    let checked = Flow::check(FlowSpec::parse(&text, &Variables::default()).unwrap());
    Plan::from(checked.unwrap_or_else(|problems| panic!("{problems}")).flow)
}

const ALL_KINDS: &str = "\
- {name: first, uses: echo, replicas: 2, workers: 4}
- {name: yes, uses: ./clever/program, needs: first, when: {tags__lang: {$eq: de}}}
- {name: no, external: true, host: 'there:5,there:6', needs: first}
- {name: joined, uses: echo, needs: [yes, no, gateway]}
- {name: index, uses: vector-index, shards: 3, polling: ALL, uses_after: ranker}
- {name: aside, uses: echo, floating: true, needs: joined}
";

fn cards(picture: &Picture) -> Vec<String> {
    let said = |card: &Card| {
        let words = [&card.title, &card.program]
            .into_iter()
            .chain(&card.details)
            .chain(&card.when);
        words.map(String::as_str).collect::<Vec<_>>().join(" | ")
    };
    picture.cards.iter().map(said).collect()
}

#[test]
fn a_card_shows_the_program_and_its_replicas() {
    assert_eq!(
        cards(&Picture::of(&plan(ALL_KINDS))),
        [
            "gateway | requests",
            "first | echo | 2 replicas | 4 workers each",
            "yes | ./clever/program | tags.lang = de",
            "no | there:5 | external, 2 addresses",
            "joined | echo",
            "index | vector-index | 3 shards | one asked on /index | all asked otherwise | after: ranker",
            "aside | echo | floating",
            "gateway | replies",
        ]
    );
}

#[test]
fn a_card_shows_the_polling_of_each_endpoint() {
    let check = |polling: &str, said: &str| {
        let plan = plan(&format!("- {{name: a, uses: x, shards: 2{polling}}}\n"));
        let cards = cards(&Picture::of(&plan));
        assert_eq!(cards[1], format!("a | x | 2 shards | {said}"), "{polling}");
    };
    check("", "all asked on /search | one asked otherwise");
    check(
        ", polling: ANY",
        "all asked on /search | one asked otherwise",
    );
    check(
        ", polling: ALL",
        "one asked on /index | all asked otherwise",
    );
    check(
        ", polling: {/index: ANY, /search: ALL, /delete: ALL}",
        "all asked on /search, /delete | one asked otherwise",
    );
    check(", polling: {/search: ANY}", "one asked");
    check(", polling: {/index: ALL, '*': ALL}", "all asked");
}

#[test]
fn every_path_of_a_document_is_a_link() {
    let picture = Picture::of(&plan(ALL_KINDS));
    let links = picture.links.iter().map(|it| (it.from, it.to, it.is_aside));
    assert_eq!(
        links.collect::<Vec<_>>(),
        [
            (0, 1, false),
            (1, 2, false),
            (1, 3, false),
            (2, 4, false),
            (3, 4, false),
            (0, 4, false),
            (4, 5, false),
            (4, 6, true),
            (5, 7, false),
        ]
    );
}

#[test]
fn conditions_are_written_in_plain_words() {
    let check = |query: serde_json::Value, said: &str| assert_eq!(condition::say(&query), said);
    check(json!({"tags__a__b": {"$gte": 1}}), "tags.a.b ≥ 1");
    check(json!({"text": {"$in": ["a", "b"]}}), "text in a, b");
    check(
        json!({"text": {"$exists": true}, "uri": {"$exists": false}}),
        "has text and no uri",
    );
    check(
        json!({"$or": [{"a": {"$eq": 1}}, {"b": {"$neq": 2}}]}),
        "(a = 1 or b ≠ 2)",
    );
    check(json!({"$not": {"chunks": {"$size": 0}}}), "not (0 chunks)");
}

fn size(height: f64) -> Size {
    Size {
        width: 100.0,
        height,
        is_aside: false,
    }
}

fn link(from: usize, to: usize) -> Link {
    Link {
        from,
        to,
        is_aside: false,
    }
}

/// Middle and half height of everything in a column, cards and lanes.
fn in_column(layout: &layers::Layout, sizes: &[Size], column: usize) -> Vec<(f64, f64)> {
    let cards = layout.cards.iter().zip(sizes);
    let cards = cards.filter(|((rank, _), _)| *rank == column);
    let cards = cards.map(|((_, middle), size)| (*middle, size.height / 2.0));
    let lanes = layout
        .lanes
        .iter()
        .flatten()
        .filter(|(rank, _)| *rank == column);
    let mut all: Vec<_> = cards
        .chain(lanes.map(|(_, middle)| (*middle, 0.0)))
        .collect();
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    all
}

#[test]
fn nothing_in_a_column_overlaps() {
    let sizes: Vec<Size> = [50.0, 90.0, 60.0, 40.0, 120.0, 60.0, 70.0, 50.0]
        .map(size)
        .to_vec();
    let links = [
        (0, 1),
        (0, 2),
        (0, 3),
        (0, 6),
        (1, 4),
        (2, 4),
        (3, 5),
        (1, 6),
        (4, 6),
        (5, 6),
        (6, 7),
        (0, 7),
    ];
    let links = links.map(|(from, to)| link(from, to));
    let layout = layers::layout(&sizes, &links);
    for column in 0..layout.columns.len() {
        for pair in in_column(&layout, &sizes, column).windows(2) {
            let ((above, half), (below, other)) = (pair[0], pair[1]);
            assert!(
                above + half + other < below - 10.0,
                "column {column}: {pair:?}"
            );
        }
    }
    for pair in layout.columns.windows(2) {
        assert!(pair[0].1 + 40.0 < pair[1].0, "{:?}", layout.columns);
    }
}

#[test]
fn a_line_is_straight_and_branches_lie_even() {
    let sizes = vec![size(60.0); 4];
    let layout = layers::layout(&sizes, &[link(0, 1), link(1, 2), link(2, 3)]);
    assert!(
        layout
            .cards
            .iter()
            .all(|(_, middle)| (middle - 30.0).abs() < 0.01),
        "{layout:?}"
    );

    let layout = layers::layout(&sizes, &[link(0, 1), link(0, 2), link(1, 3), link(2, 3)]);
    let middle = |card: usize| layout.cards[card].1;
    assert!(
        (middle(0) - f64::midpoint(middle(1), middle(2))).abs() < 0.5,
        "{layout:?}"
    );
    assert!((middle(0) - middle(3)).abs() < 0.5, "{layout:?}");
}

#[test]
fn links_cross_only_where_they_must() {
    // Written crosswise: the first parent's child comes second.
    let sizes = vec![size(60.0); 6];
    let links = [
        link(0, 1),
        link(0, 2),
        link(1, 4),
        link(2, 3),
        link(3, 5),
        link(4, 5),
    ];
    let layout = layers::layout(&sizes, &links);
    let middle = |card: usize| layout.cards[card].1;
    assert_eq!(middle(1) < middle(2), middle(4) < middle(3), "{layout:?}");
}

#[test]
fn an_svg_is_complete_and_escaped() {
    let plan = plan("- {name: a, uses: './<b>&\"c\"', when: {text: {$eq: '<x>'}}}");
    let svg = svg(&plan, "<title> & more");
    assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
    assert!(svg.contains("&lt;title&gt; &amp; more"));
    assert!(svg.contains("./&lt;b&gt;&amp;&quot;c&quot;"));
    assert!(svg.contains("text = &lt;x&gt;"));
    assert!(!svg.contains("<x>") && !svg.contains("NaN") && !svg.contains("inf"));
}

#[test]
fn an_empty_flow_and_a_long_one_are_drawn() {
    let empty = Flow::check(FlowSpec::parse("jtype: Flow", &Variables::default()).unwrap());
    assert_eq!(
        svg(&Plan::from(empty.unwrap().flow), "x")
            .matches("class=\"door\"")
            .count(),
        2
    );
    let many = plan(&"- {uses: echo, needs: gateway}\n".repeat(300));
    assert_eq!(svg(&many, "x").matches("class=\"name\"").count(), 300);
}

#[test]
fn mermaid_has_the_same_cards_and_links() {
    let entries = "\
- {name: a, uses: echo, replicas: 2}
- {name: b, uses: './x\"y', needs: a, when: {text: {$eq: hm}}}
- {name: f, uses: echo, floating: true, needs: a}
";
    let expected = "\
flowchart LR
  n0([\"<b>gateway</b><br/>requests\"])
  n1[[\"<b>a</b><br/>echo<br/>2 replicas\"]]
  n2[\"<b>b</b><br/>./x#34;y\"]
  n3[\"<b>f</b><br/>echo<br/>floating\"]:::aside
  n4([\"<b>gateway</b><br/>replies\"])
  n0 --> n1
  n1 -->|\"text #61; hm\"| n2
  n1 -.-> n3
  n2 --> n4
  classDef aside stroke-dasharray: 5 4
  classDef external stroke-dasharray: 5 4,stroke:#0d9488
";
    assert_eq!(mermaid(&plan(entries)), expected);
}
