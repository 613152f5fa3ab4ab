//! Any flow file is a flow or an error, and the plan of a flow survives a round trip through JSON.
#![no_main]

use flow_spec::{ExecutorConfig, Plan, TextFile, Variables, load};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let path = "fuzz.yml".as_ref();
    let file = TextFile { path, text };
    drop(ExecutorConfig::load(file, &Variables::default()));
    if let Ok(checked) = load(file, &Variables::default()) {
        let plan = Plan::from(checked.flow);
        let json = serde_json::to_string(&plan).expect("a plan is always JSON");
        assert_eq!(serde_json::from_str::<Plan>(&json).expect("its own JSON"), plan);
    }
});
