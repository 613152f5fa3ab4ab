//! Executors by name, in whole flow files: the flow's own hub, the user's, and none.

use std::path::Path;

use flow_spec::{Plan, Run, TextFile, Uses, Variables, load};

/// The image that a flow runs, or what is wrong with it.
fn image(with: &str, uses: &str, own: Option<&str>) -> String {
    let text = format!("jtype: Flow\nwith: {{{with}}}\nexecutors: [{{name: a, uses: '{uses}'}}]");
    let own = own.map(|own| ("FLOW_HUB".to_owned(), own.to_owned()));
    let variables = Variables {
        env: own.into_iter().collect(),
        ..Variables::default()
    };
    let path = Path::new("flow.yml");
    let file = TextFile { path, text: &text };
    let plan = match load(file, &variables) {
        Ok(checked) => Plan::from(checked.flow),
        Err(error) => return format!("{error}"),
    };
    match &plan.nodes[0].run {
        Run::Local(run) => match &run.uses {
            Uses::Image(image) => image.clone(),
            other => format!("{other:?}"),
        },
        Run::External { .. } => "external".to_owned(),
    }
}

#[test]
fn a_name_is_looked_up_in_the_flows_hub_or_else_in_the_users() {
    let check = |with: &str, own: Option<&str>, expected: &str| {
        assert_eq!(image(with, "hub://SentenceEncoder:gpu", own), expected);
    };
    let team = "hub: registry.example.com/team";
    check(team, None, "registry.example.com/team/sentence-encoder:gpu");
    check(
        "",
        Some("localhost:5000"),
        "localhost:5000/sentence-encoder:gpu",
    );
    check(
        team,
        Some("localhost:5000"),
        "registry.example.com/team/sentence-encoder:gpu",
    );
}

#[test]
fn jinas_forms_name_the_same_images() {
    for uses in [
        "jinahub+docker://TransformerTorchEncoder/gpu",
        "jinahub://TransformerTorchEncoder/gpu",
        "jinaai+docker://TransformerTorchEncoder:gpu",
        "jinaai://TransformerTorchEncoder:gpu",
    ] {
        let image = image("hub: r.example.com", uses, None);
        assert_eq!(
            image, "r.example.com/transformer-torch-encoder:gpu",
            "{uses}"
        );
    }
}

#[test]
fn a_name_without_a_hub_says_how_to_name_one() {
    let check = |with: &str, uses: &str, own: Option<&str>, parts: &[&str]| {
        let output = image(with, uses, own);
        assert!(parts.iter().all(|part| output.contains(part)), "{output}");
    };
    let remedy = [
        "executors.a.uses",
        "hub: registry.example.com/team",
        "FLOW_HUB",
    ];
    check("", "hub://A", None, &remedy);
    check("", "hub://A", Some(""), &remedy);
    check(
        "",
        "hub://A",
        Some("https://r"),
        &["FLOW_HUB", "without `https://`"],
    );
    check(
        "hub: 'https://r'",
        "hub://A",
        None,
        &["with.hub", "without `https://`"],
    );
    check(
        "hub: r",
        "jinahub://A:secret/v1",
        None,
        &["executors.a.uses", "leave it out"],
    );
}
