//! GPUs, on a machine that has none: what the program needs to start, what it says of drivers that are not there,
//! too old, or without a GPU that it could use, and the whole way of a request through a driver's functions.
//!
//! The driver of these tests is compiled from the fake of `flow-cuda`, and found as the real one is: by its name. Where
//! requests are to be answered, it runs the kernels by the emulator.

use std::path::Path;
use std::process::Command;

use flow_tests::{Program, TestFlow, eventually, flow_command, post, scrape, skipped, texts};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::monitoring::of_executor;
use crate::tiny_model::TinyModel;

const FLOW_CUDA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../crates/flow-cuda");

/// What a program of Rust's needs of any Linux.
const LIBRARIES: &[&str] = &[
    "libc.so",
    "libm.so",
    "libgcc_s.so",
    "ld-linux",
    "libdl.so",
    "libpthread.so",
    "librt.so",
];

/// The program with a driver that gives these answers; `None` if no driver can be made here.
fn with_driver(folder: &Path, answers: &[&str]) -> Option<Command> {
    let library = folder.join("libcuda.so.1");
    let mut compile = Command::new("cc");
    compile.args(["-shared", "-fPIC", "-o"]).arg(library);
    compile.arg(format!("{FLOW_CUDA}/src/driver/fake.c"));
    compile.args(answers.iter().map(|answer| format!("-D{answer}")));
    compiled(compile)?;
    let mut command = flow_command();
    command.env("LD_LIBRARY_PATH", folder);
    Some(command)
}

fn compiled(mut compile: Command) -> Option<()> {
    match compile.status() {
        Ok(status) => assert!(status.success(), "the fake driver does not compile"),
        Err(error) => {
            skipped(&format!(
                "no driver can be faked without a compiler: {error}"
            ));
            return None;
        }
    }
    Some(())
}

/// A driver whose kernels compute.
fn emulated_driver(folder: &Path, answers: &[&str]) -> Option<()> {
    let fake = folder.join("fake.o");
    let mut compile = Command::new("cc");
    compile.args(["-c", "-fPIC", "-DEMULATED", "-o"]).arg(&fake);
    compile.arg(format!("{FLOW_CUDA}/src/driver/fake.c"));
    compile.args(answers.iter().map(|answer| format!("-D{answer}")));
    compiled(compile)?;
    let mut link = Command::new("c++");
    link.args(["-std=c++17", "-O2", "-fPIC", "-shared", "-ffp-contract=off"]);
    link.args(["-U_FORTIFY_SOURCE", "-DEMULATE", "-o"]);
    link.arg(folder.join("libcuda.so.1")).arg(fake);
    link.arg(format!("-I{FLOW_CUDA}/kernels"));
    link.args(["-x", "c++"]);
    link.arg(format!("{FLOW_CUDA}/kernels/flow.cu"));
    link.arg(format!("{FLOW_CUDA}/kernels/emulate/emulate.cpp"));
    compiled(link)
}

/// What the encoder says that is to compute on `device`, and how it ended.
fn encoder(mut command: Command, device: &str) -> (Option<i32>, String) {
    command.args(["executor", "--uses", "sentence-encoder", "--uses-with"]);
    command.arg(format!("device:{device}"));
    // It is asked for a model only when it has a device.
    command.args(["--uses-with", "model:/there/is/none"]);
    let (code, program) = Program::run(command);
    (code, program.stderr())
}

#[track_caller]
fn check(answers: &[&str], device: &str, parts: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let Some(command) = with_driver(folder.path(), answers) else {
        return;
    };
    let (code, said) = encoder(command, device);
    assert_ne!(code, Some(0), "{said}");
    for part in parts {
        assert!(said.contains(part), "no {part:?} in: {said}");
    }
}

/// What the last check is, when all that is asked of a GPU is there.
fn has_kernels() -> bool {
    let folder = tempfile::tempdir().unwrap();
    let Some(command) = with_driver(folder.path(), &[]) else {
        return false;
    };
    listing(command)["gpus"][0]["usable"] == true
}

fn listing(mut command: Command) -> Value {
    command.args(["devices", "--json"]);
    let (code, program) = Program::run(command);
    assert_eq!(code, Some(0), "{}", program.said());
    serde_json::from_str(&program.stdout()).unwrap()
}

#[test]
fn a_gpu_that_cannot_be_used_ends_the_start_with_what_to_do() {
    let cpu = "available is `cpu` with";
    check(
        &["VERSION=12040"],
        "cuda",
        &["supports CUDA 12.4, and 13.0 is needed", "580", cpu],
    );
    check(
        &["WITHOUT_FUNCTIONS"],
        "cuda",
        &["has no `cuDeviceGetCount`", cpu],
    );
    check(
        &["INIT=100"],
        "gpu",
        &["sees no GPU", "CUDA_VISIBLE_DEVICES"],
    );
    check(&["COUNT=1"], "cuda:7", &["no GPU 7", "only `cuda:0`"]);
    check(
        &["MAJOR=6", "MINOR=1"],
        "cuda:all",
        &["compute capability 6.1, and at least 7.5 is needed"],
    );
    check(&[], "cuda:x", &["`cuda:x` is not a device", "`cuda:all`"]);
}

#[test]
fn missing_and_unsuitable_kernels_are_reported() {
    let why = if has_kernels() {
        "this program's kernels do not run on this GPU"
    } else {
        "this program is built without CUDA kernels; build it with `cargo xtask build-cuda`"
    };
    check(&["LOAD=209"], "cuda", &[why]);
}

#[test]
fn auto_computes_on_the_processor_and_says_why() {
    for (answer, why) in [("INIT=100", "sees no GPU"), ("VERSION=12040", "too old")] {
        let folder = tempfile::tempdir().unwrap();
        let Some(mut command) = with_driver(folder.path(), &[answer]) else {
            return;
        };
        // The log of an executor alone.
        command.env("FLOW_LOG", "info");
        let (_, said) = encoder(command, "auto");
        let line = said.lines().find(|line| line.contains("device chosen"));
        let line = line.unwrap_or_else(|| panic!("nothing was said: {said}"));
        assert!(line.contains(why) && line.contains("cpu"), "{line}");
    }
}

#[test]
fn devices_are_listed_with_what_keeps_them_from_being_used() {
    let folder = tempfile::tempdir().unwrap();
    let Some(command) = with_driver(folder.path(), &["MAJOR=7", "MINOR=0"]) else {
        return;
    };
    let listing = listing(command);
    let gpus = listing["gpus"].as_array().unwrap();
    assert_eq!(gpus.len(), 2, "{listing}");
    assert_eq!(gpus[1]["device"], "cuda:1");
    assert_eq!(gpus[1]["compute_capability"], "7.0");
    assert_eq!(gpus[1]["usable"], false);
    let why = gpus[1]["why_not"].as_str().unwrap();
    assert!(why.contains("at least 7.5 is needed"), "{why}");
}

#[test]
fn the_program_is_linked_to_no_library_of_cudas() {
    let program = flow_command().get_program().to_owned();
    let mut readelf = Command::new("readelf");
    let Ok(output) = readelf.arg("-d").arg(&program).output() else {
        skipped("there is no `readelf` to read what the program is linked to");
        return;
    };
    let output = String::from_utf8_lossy(&output.stdout);
    let needed = output.lines().filter(|line| line.contains("(NEEDED)"));
    let needed: Vec<&str> = needed
        .filter_map(|line| line.split(['[', ']']).nth(1))
        .collect();
    assert!(
        needed.iter().any(|name| name.starts_with("libc.so")),
        "{output}"
    );
    let others = needed
        .iter()
        .filter(|name| !LIBRARIES.iter().any(|known| name.starts_with(known)));
    assert_eq!(others.collect::<Vec<_>>(), [&""; 0]);
}

/// A flow of an encoder with this device, and a driver found in `folder`.
fn encoding(folder: &Path, model: &TinyModel, device: &str) -> TestFlow {
    encoding_with("", (folder, model, device))
}

/// The same, with more options of the encoder.
fn encoding_with(more: &str, (folder, model, device): (&Path, &TinyModel, &str)) -> TestFlow {
    let with = json!({"model": model.path(), "device": device, "precision": "f32"});
    let environment = json!({"LD_LIBRARY_PATH": folder});
    TestFlow::up(&format!(
        "executors: [{{name: encoder, uses: sentence-encoder, uses_with: {with}, env: {environment}{more}}}]"
    ))
}

/// A folder with a driver whose kernels compute. `None`, which is said, if this program has no kernels or there is no compiler.
fn emulated_gpus() -> Option<TempDir> {
    if !has_kernels() {
        skipped("this program is built without kernels; `cargo xtask build-cuda` makes them");
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    emulated_driver(folder.path(), &[]).map(|()| folder)
}

/// The vectors of two texts, as the flow gives them.
fn vectors(flow: &TestFlow) -> Vec<Vec<f64>> {
    let mut command = flow_command();
    command.args(["post", &flow.url(), "--on", "/encode", "--output", "-"]);
    command.args(["--text", "a b c", "d"]);
    let (code, program) = Program::run(command);
    assert_eq!(code, Some(0), "{}", program.said());
    let vector = |line: &str| {
        let document: Value = serde_json::from_str(line).unwrap();
        let numbers = document["embedding"].as_array().unwrap();
        numbers.iter().map(|it| it.as_f64().unwrap()).collect()
    };
    program.stdout().lines().map(vector).collect()
}

#[test]
fn a_request_goes_through_the_drivers_functions_and_comes_back_as_the_processor_answers_it() {
    let Some(folder) = emulated_gpus() else {
        return;
    };
    let model = TinyModel::bert();
    let wanted = vectors(&encoding(folder.path(), &model, "cpu"));
    for device in ["cuda", "cuda:1", "cuda:all"] {
        let flow = encoding(folder.path(), &model, device);
        flow.program().line("Fake GPU");
        let got = vectors(&flow);
        assert_eq!(got.len(), 2);
        let pairs = got.iter().flatten().zip(wanted.iter().flatten());
        let difference = pairs
            .map(|(got, wanted)| (got - wanted).abs())
            .fold(0.0, f64::max);
        assert!(difference < 1e-5, "{device}: {got:?} and {wanted:?}");
    }
}

#[tokio::test]
async fn an_encoder_whose_gpu_is_lost_says_so_and_is_started_again() {
    if !has_kernels() {
        skipped("this program is built without kernels; `cargo xtask build-cuda` makes them");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    if with_driver(folder.path(), &["KERNEL_RESULT=700"]).is_none() {
        return;
    }
    let model = TinyModel::bert();
    let flow = encoding(folder.path(), &model, "cuda");
    flow.expect("replica cannot be reached").expect("encoder");
    flow.program().line("encoder@");
    let lines = flow.program().lines().len();
    let said = post(&flow, vec![texts("/encode", &["a"])]).await;
    let failure = said[0].failure.as_deref().unwrap_or_default();
    assert!(failure.contains("lost to this process"), "{said:?}");
    assert!(failure.contains("an illegal memory address"), "{failure}");
    flow.program().line_from(lines, "encoder@");
}

/// The metrics of the encoder's GPUs.
fn gpu_metrics(flow: &TestFlow) -> Vec<(String, f64)> {
    let numbers = scrape(&of_executor(flow, "encoder"));
    let of_gpu = numbers.names().filter(|name| name.starts_with("flow_gpu"));
    of_gpu
        .map(|name| (name.to_owned(), numbers.seconds(name)))
        .collect()
}

#[test]
fn the_metrics_of_an_encoder_show_how_its_gpu_is_used() {
    let Some(folder) = emulated_gpus() else {
        return;
    };
    let mut compile = Command::new("cc");
    compile.args(["-shared", "-fPIC", "-o"]);
    compile.arg(folder.path().join("libnvidia-ml.so.1"));
    compile.arg(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/it/devices/fake_nvml.c"
    ));
    compiled(compile).unwrap();
    let model = TinyModel::bert();
    let flow = encoding_with(", monitoring: true", (folder.path(), &model, "cuda"));
    let labels = "runtime_name=\"encoder/rep-0\",gpu=\"cuda:0 Fake GPU 0\",\
                  uuid=\"GPU-00010203-0405-0607-0809-0a0b0c0d0e0f\"";
    let wanted = [
        ("flow_gpu_busy_ratio", 0.25),
        ("flow_gpu_memory_total_bytes", 85_899_345_920.0),
        ("flow_gpu_memory_used_bytes", 3_221_225_472.0),
        ("flow_gpu_power_watts", 123.456),
    ];
    let wanted = wanted.map(|(name, value)| (format!("{name}{{{labels}}}"), value));
    // A thread reads them after the encoder has loaded.
    eventually("all values are shown", || {
        gpu_metrics(&flow).len() >= wanted.len()
    });
    assert_eq!(gpu_metrics(&flow), wanted);
}

#[test]
fn an_encoder_without_nvml_serves_and_says_that_the_metrics_of_its_gpu_are_missing() {
    let Some(folder) = emulated_gpus() else {
        return;
    };
    let empty = folder.path().join("libnvidia-ml.so.1");
    std::fs::write(empty, "no library").unwrap();
    let model = TinyModel::bert();
    let flow = encoding_with(", monitoring: true", (folder.path(), &model, "cuda"));
    flow.expect("the metrics of the GPUs are missing");
    let line = flow.program().line("the metrics of the GPUs are missing");
    assert!(line.contains("libnvidia-ml.so.1"), "{line}");
    assert_eq!(vectors(&flow).len(), 2);
    assert!(gpu_metrics(&flow).is_empty());
}
