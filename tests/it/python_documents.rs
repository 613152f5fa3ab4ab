//! Documents of the Python package `flow_serve`.

use flow_tests::run_python;

#[test]
fn documents_in_python_have_docarrays_attributes_and_survive_the_wire() {
    run_python("documents.py");
}
