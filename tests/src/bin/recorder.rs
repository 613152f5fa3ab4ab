//! An executor that records each request that it runs, to detect those that ran twice.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use flow_executor::{CallError, Document, Endpoints, Executor, LoadContext, LoadError, Parameters};
use serde::Deserialize;

/// Appends texts to a file, which several processes share.
struct Recorder {
    file: File,
    /// Texts that begin with these words are written down.
    prefixes: Vec<String>,
    /// How long a call goes on after that, so that a process which is killed has often run what it did not answer.
    pause: Duration,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct With {
    /// Where the texts go, a line each.
    file: PathBuf,
    prefixes: Vec<String>,
    pause_ms: u64,
}

impl Executor for Recorder {
    type With = With;

    fn load(with: With, _: &LoadContext) -> Result<Self, LoadError> {
        let file = OpenOptions::new()
            .append(true)
            .create(true)
            .open(&with.file);
        Ok(Self {
            file: file.map_err(|error| LoadError::new(error.to_string()))?,
            prefixes: with.prefixes,
            pause: Duration::from_millis(with.pause_ms),
        })
    }

    fn endpoints() -> Endpoints<Self> {
        Endpoints::new().default_batch(Self::record)
    }
}

impl Recorder {
    /// One write for all lines: the kernel appends it whole, whatever other processes write.
    fn record(&mut self, docs: &mut [Document], _: &Parameters) -> Result<(), CallError> {
        let texts = docs.iter().map(Document::text);
        let is_recorded = |text: &String| self.prefixes.iter().any(|it| text.starts_with(it));
        let lines = texts.filter(is_recorded).map(|text| text + "\n");
        let lines: String = lines.collect();
        let written = self.file.write_all(lines.as_bytes());
        written.map_err(|error| CallError::new(error.to_string()))?;
        thread::sleep(self.pause);
        Ok(())
    }
}

fn main() -> ExitCode {
    flow_executor::run::<Recorder>()
}
