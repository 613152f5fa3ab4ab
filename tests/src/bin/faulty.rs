//! An executor that fails in the way that a request asks for, for the tests in `bad_luck.rs`.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use flow_executor::{
    CallError, Document, DocumentArray, Emit, Endpoints, Executor, LoadContext, LoadError,
    Parameters, Timer,
};
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// Longer than any test waits.
const FOR_EVER: Duration = Duration::from_secs(3600);

/// More than a test's container has, and little for a machine without containers.
const HOG_MEBIBYTES: usize = 256;

/// Wait between two looks at whether a call may go on.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// Does what its endpoints are called.
struct FaultyExecutor {
    with: With,
    calls: u32,
    /// What `/mark` takes for each text.
    marking: Timer,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct With {
    /// Fails to load with these words.
    #[serde(default)]
    sick: Option<String>,
    /// What `/mark` puts at the end of a text.
    #[serde(default)]
    mark: String,
    /// A secret, which is not used.
    #[serde(default, rename = "api_key")]
    _api_key: Option<String>,
    /// The URL of a database, which is not used.
    #[serde(default, rename = "url")]
    _url: Option<String>,
}

impl Executor for FaultyExecutor {
    type With = With;

    fn load(with: With, context: &LoadContext) -> Result<Self, LoadError> {
        let monitor = &context.monitor;
        match with.sick {
            Some(words) => Err(LoadError::new(words)),
            None => Ok(Self {
                with,
                calls: 0,
                marking: monitor.timer("marking_seconds", "Time spent on one text.")?,
            }),
        }
    }

    fn endpoints() -> Endpoints<Self> {
        Endpoints::new()
            .on("/panic", Self::panic)
            .on("/fail", Self::fail)
            .on("/last", Self::last)
            .on("/hang", Self::hang)
            .on("/exit", Self::exit)
            .on("/hog", Self::hog)
            .on("/wait", Self::wait)
            .on("/slow", Self::slow)
            .on("/mark", Self::mark)
            .on("/tag", Self::tag)
            .on("/touch", Self::touch)
            .on("/parameters", Self::parameters)
            .on("/count", Self::count)
            .on_stream("/letters", Self::letters)
    }
}

impl FaultyExecutor {
    fn panic(&mut self, _: &mut DocumentArray, _: &Parameters) -> Result<(), CallError> {
        panic!("this is too much")
    }

    fn fail(&mut self, _: &mut DocumentArray, _: &Parameters) -> Result<(), CallError> {
        Err(CallError::new("not today"))
    }

    /// As an executor whose device is lost does.
    fn last(&mut self, _: &mut DocumentArray, _: &Parameters) -> Result<(), CallError> {
        Err(CallError::new("nothing works any more").and_end())
    }

    fn hang(&mut self, _: &mut DocumentArray, _: &Parameters) -> Result<(), CallError> {
        thread::sleep(FOR_EVER);
        Ok(())
    }

    /// Ends the process, after a line in the file `runs`, if the parameters name one.
    #[allow(clippy::exit, reason = "that is what it is asked for")]
    fn exit(&mut self, _: &mut DocumentArray, parameters: &Parameters) -> Result<(), CallError> {
        if let Some(file) = parameters.get::<PathBuf>("runs").ok().flatten() {
            let file = OpenOptions::new().create(true).append(true).open(file);
            let written = file.and_then(|mut file| writeln!(file, "began"));
            written.map_err(|error| CallError::new(error.to_string()))?;
        }
        std::process::exit(3)
    }

    /// Takes more memory than its container gives it.
    fn hog(&mut self, _: &mut DocumentArray, _: &Parameters) -> Result<(), CallError> {
        // Not zero: pages that were never written are not resident.
        let taken: Vec<Vec<u8>> = (0..HOG_MEBIBYTES).map(|_| vec![1; 1 << 20]).collect();
        Err(CallError::new(format!("{} MiB are there", taken.len())))
    }

    /// Makes the file `began`, and goes on when there is a file `until`.
    fn wait(&mut self, _: &mut DocumentArray, parameters: &Parameters) -> Result<(), CallError> {
        let path = |name| parameters.get::<PathBuf>(name).ok().flatten();
        if let Some(began) = path("began") {
            std::fs::write(began, "").map_err(|error| CallError::new(error.to_string()))?;
        }
        let until = path("until").unwrap_or_default();
        while !Path::new(&until).exists() {
            thread::sleep(LOOK_AGAIN);
        }
        Ok(())
    }

    /// Takes as many milliseconds as its first text says.
    fn slow(&mut self, docs: &mut DocumentArray, _: &Parameters) -> Result<(), CallError> {
        let first = docs.first().map(Document::text).unwrap_or_default();
        thread::sleep(Duration::from_millis(first.parse().unwrap_or_default()));
        Ok(())
    }

    fn mark(&mut self, docs: &mut DocumentArray, _: &Parameters) -> Result<(), CallError> {
        for doc in docs {
            self.marking
                .time(|| doc.set_text(doc.text() + &self.with.mark));
        }
        Ok(())
    }

    /// Sets the tag that `mark` names, and the tag `last`.
    fn tag(&mut self, docs: &mut DocumentArray, _: &Parameters) -> Result<(), CallError> {
        for doc in docs {
            let mut tags = doc.tags();
            tags.insert(self.with.mark.clone(), json!(true));
            tags.insert("last".to_owned(), json!(self.with.mark));
            doc.set_tags(&tags);
        }
        Ok(())
    }

    /// Sets a field to what it is, so that the document is encoded again.
    fn touch(&mut self, docs: &mut DocumentArray, _: &Parameters) -> Result<(), CallError> {
        for doc in docs.iter_mut().filter(|doc| doc.has_text()) {
            doc.set_text(doc.text());
        }
        Ok(())
    }

    fn parameters(
        &mut self,
        _: &mut DocumentArray,
        parameters: &Parameters,
    ) -> Result<Map<String, Value>, CallError> {
        Ok(parameters.as_map().clone())
    }

    /// Tells how often it was asked, and which process it is.
    fn count(
        &mut self,
        _: &mut DocumentArray,
        _: &Parameters,
    ) -> Result<Map<String, Value>, CallError> {
        self.calls += 1;
        let pairs = [
            ("calls", json!(self.calls)),
            ("pid", json!(std::process::id())),
        ];
        Ok(pairs
            .map(|(key, value)| (key.to_owned(), value))
            .into_iter()
            .collect())
    }

    fn letters(
        &mut self,
        mut doc: Document,
        _: &Parameters,
        emit: &mut Emit<'_>,
    ) -> Result<(), CallError> {
        for letter in doc.text().chars() {
            doc.set_text(letter.to_string());
            emit.send(doc.clone())?;
        }
        Ok(())
    }
}

fn main() -> ExitCode {
    flow_executor::run::<FaultyExecutor>()
}
