//! Documents of the Python package `flow_serve`.

use flow_tests::{DocArrayVersion, flow_serve_alone, last_json, run_python, script};
use serde_json::json;

#[test]
fn documents_in_python_have_docarrays_attributes_and_survive_the_wire() {
    run_python("documents.py");
}

/// Random programs, the same ones each time. Other ones: `python tests/python/oracle/fuzz.py --seconds 600`, in this environment.
#[test]
fn programs_that_use_docarray_behave_the_same_with_our_documents() {
    let fuzz = script(DocArrayVersion::V1, "../python/oracle/fuzz.py");
    if let (Some(mut fuzz), Some(package)) = (fuzz, flow_serve_alone()) {
        fuzz.env("PYTHONPATH", package.path());
        assert_eq!(last_json(fuzz), json!("fine"));
    }
}
