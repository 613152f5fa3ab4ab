//! What clusters can do: `cargo xtask capacity` runs it and judges what it writes.
//!
//! ```text
//! measure.rs     what requests cost here, and how well the simulation agrees with this machine
//!   machine.rs     real executors and gateways; the executor `timed` is one whose calls take a given time
//!   load.rs        real requests
//! cluster.rs     a cluster under a simulated clock, with the code that balances and batches
//! projection.rs  clusters of a hundred nodes
//! costs.rs, traffic.rs, random.rs  what both need                                      pure
//! ```
#![allow(
    clippy::unwrap_used,
    reason = "a measurement that cannot go on ends, and its processes with it"
)]

mod cluster;
mod costs;
mod load;
mod machine;
mod measure;
mod projection;
mod random;
mod traffic;

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use crate::costs::Costs;
use crate::machine::{Kind, core_count};
use crate::measure::{Comparison, Measurement, Setting};
use crate::projection::{Projection, project};
use crate::traffic::{Calls, Sizes};

/// Documents of a call of the encoder.
const ENCODER_BATCH: usize = 256;

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1);
    let seconds = words.next().and_then(|it| it.parse().ok());
    let Some((seconds, out)) = seconds.zip(words.next()) else {
        #[allow(clippy::print_stderr, reason = "it is a command-line program")]
        {
            eprintln!("usage: capacity SECONDS OUT, as `cargo xtask capacity` does");
        }
        return ExitCode::from(2);
    };
    measure_and_project(Duration::from_secs(seconds), &PathBuf::from(out));
    ExitCode::SUCCESS
}

fn measure_and_project(length: Duration, out: &Path) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let measurement = Measurement {
        runtime: &runtime,
        length,
    };
    let mut costs = HEAD_OF_COSTS.to_owned();
    let mut validation = HEAD_OF_VALIDATION.to_owned();
    for setting in settings() {
        let own = measurement.compare(&setting, |comparison| {
            write_comparison(&mut validation, comparison);
            fs::write(out.join("validation.csv"), &validation).unwrap();
        });
        write_costs(&mut costs, setting.name, &own);
    }
    let node = measurement.node_costs(core_count(), ENCODER_BATCH);
    write_costs(&mut costs, "a node of the projection", &node);
    fs::write(out.join("costs.csv"), costs).unwrap();
    let mut projection = HEAD_OF_PROJECTION.to_owned();
    for it in project(&runtime, &node, core_count()) {
        write_projection(&mut projection, &it);
    }
    fs::write(out.join("projection.csv"), projection).unwrap();
}

/// Documents of a call of timed executors, as `timed` has it.
const TIMED_BATCH: usize = 32;

/// Where simulation and reality are compared.
fn settings() -> [Setting; 4] {
    let timed = Setting {
        name: "8 timed executors, 1 gateway",
        kind: Kind::Timed {
            call_us: 6_000,
            document_us: 1_000,
            vector: 0,
        },
        executors: 8,
        gateways: 1,
        batch: TIMED_BATCH,
        sizes: SOME_LARGE,
        calls: [300.0, 900.0, 1500.0, 2100.0]
            .map(Calls::PerSecond)
            .into_iter()
            .chain([8, 32, 128, 512].map(Calls::Callers))
            .collect(),
    };
    let encoder = Setting {
        name: "1 encoder, 1 gateway, 1 document",
        kind: Kind::Encoder { threads: 1 },
        executors: 1,
        gateways: 1,
        batch: ENCODER_BATCH,
        sizes: Sizes::of(1),
        calls: [4, 16, 128].map(Calls::Callers).into(),
    };
    [
        Setting {
            name: "8 timed executors, 2 gateways",
            gateways: 2,
            calls: timed.calls.clone(),
            ..timed
        },
        Setting {
            name: "1 encoder, 1 gateway, 1 or 16 documents",
            sizes: SOME_LARGE,
            calls: [150.0, 400.0]
                .map(Calls::PerSecond)
                .into_iter()
                .chain([4, 16].map(Calls::Callers))
                .collect(),
            ..encoder
        },
        timed,
        encoder,
    ]
}

/// One request in ten has 16 documents, and the others have one.
const SOME_LARGE: Sizes = Sizes {
    usual: 1,
    one_in_ten: 16,
};

const HEAD_OF_COSTS: &str = "setting,call_us,call_document_us,call_request_us,after_idle_us,gateway_us,gateway_document_us,overhead_us\n";

fn write_costs(text: &mut String, name: &str, costs: &Costs) {
    let Costs {
        call,
        request_us,
        after_idle_us,
        gateway,
        overhead_us,
        ..
    } = costs;
    let (call_us, call_document) = (call.fixed_us, call.document_us);
    let (gateway_us, gateway_document) = (gateway.fixed_us, gateway.document_us);
    writeln!(
        text,
        "\"{name}\",{call_us:.1},{call_document:.2},{request_us:.2},{after_idle_us:.1},{gateway_us:.1},{gateway_document:.2},{overhead_us:.1}"
    )
    .unwrap();
}

const HEAD_OF_VALIDATION: &str = "setting,load,measured_per_s,simulated_per_s,measured_p50_ms,simulated_p50_ms,measured_p99_ms,simulated_p99_ms\n";

fn write_comparison(text: &mut String, comparison: &Comparison) {
    let Comparison {
        setting,
        calls,
        measured,
        simulated,
    } = comparison;
    writeln!(
        text,
        "\"{setting}\",{},{:.1},{:.1},{:.3},{:.3},{:.3},{:.3}",
        calls.describe(),
        measured.requests_per_s,
        simulated.requests_per_s,
        measured.p50_ms,
        simulated.p50_ms,
        measured.p99_ms,
        simulated.p99_ms
    )
    .unwrap();
}

const HEAD_OF_PROJECTION: &str = "documents,gateways,network,documents_per_s,bottleneck,executors_busy,gateways_busy,networks_busy,used_p50_ms,used_p99_ms,choice_us,node_hours_per_million\n";

fn write_projection(text: &mut String, it: &Projection) {
    writeln!(
        text,
        "{},{},{},{:.0},{},{:.3},{:.3},{:.3},{:.2},{:.2},{:.2},{:.4}",
        it.documents,
        it.gateways,
        it.network,
        it.full.seen.documents_per_s,
        it.bottleneck(),
        it.full.executors_busy,
        it.full.gateways_busy,
        it.full.networks_busy,
        it.at_part.seen.p50_ms,
        it.at_part.seen.p99_ms,
        it.full.choice.as_secs_f64() * 1e6,
        it.node_hours()
    )
    .unwrap();
}
