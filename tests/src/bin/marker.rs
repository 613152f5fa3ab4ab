//! An executor that marks documents, as `peers/marker.py` does in Python, for the test of topologies.

use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use flow_executor::{
    CallError, DocsMatrix, Document, DocumentArray, Endpoints, Executor, LoadContext, LoadError,
    Parameters,
};
use serde::Deserialize;
use serde_json::{Map, Value, json};

struct Marker {
    mark: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct With {
    #[serde(default)]
    mark: String,
}

impl Executor for Marker {
    type With = With;

    fn load(with: With, _: &LoadContext) -> Result<Self, LoadError> {
        Ok(Self { mark: with.mark })
    }

    fn endpoints() -> Endpoints<Self> {
        Endpoints::new()
            .on("/mark", Self::mark)
            .on("/tag", Self::tag)
            .on("/seen", Self::seen)
            .on("/results", Self::results)
            .on("/fail", Self::fail)
            .on("/drop", Self::drop_last)
            .on_matrix("/parts", Self::parts)
    }
}

fn rest(parameters: &Parameters) -> Result<(), CallError> {
    let delay: f64 = parameters.get("delay")?.unwrap_or_default();
    thread::sleep(Duration::from_secs_f64(delay / 1000.0));
    Ok(())
}

impl Marker {
    fn mark(&mut self, docs: &mut DocumentArray, parameters: &Parameters) -> Result<(), CallError> {
        rest(parameters)?;
        for doc in docs {
            doc.set_text(doc.text() + &self.mark);
        }
        Ok(())
    }

    fn tag(&mut self, docs: &mut DocumentArray, parameters: &Parameters) -> Result<(), CallError> {
        rest(parameters)?;
        self.set_tag(docs, &json!(true));
        Ok(())
    }

    fn seen(&mut self, docs: &mut DocumentArray, parameters: &Parameters) -> Result<(), CallError> {
        self.set_tag(docs, &Value::Object(parameters.as_map().clone()));
        Ok(())
    }

    fn results(
        &mut self,
        docs: &mut DocumentArray,
        _: &Parameters,
    ) -> Result<Map<String, Value>, CallError> {
        let results = [("mark", json!(self.mark)), ("count", json!(docs.len()))];
        Ok(results
            .map(|(key, value)| (key.to_owned(), value))
            .into_iter()
            .collect())
    }

    fn fail(&mut self, docs: &mut DocumentArray, parameters: &Parameters) -> Result<(), CallError> {
        if parameters.get::<String>("who")? == Some(self.mark.clone()) {
            return Err(CallError::new("not today"));
        }
        self.mark(docs, &Parameters::default())
    }

    fn drop_last(&mut self, docs: &mut DocumentArray, _: &Parameters) -> Result<(), CallError> {
        let mut left = docs.len();
        docs.retain(|_| {
            left -= 1;
            left > 0
        });
        Ok(())
    }

    /// Writes into the documents of the first part what all parts are.
    fn parts(&mut self, matrix: DocsMatrix, _: &Parameters) -> Result<DocumentArray, CallError> {
        let texts = |part: &DocumentArray| part.iter().map(Document::text).collect::<Vec<_>>();
        let parts: Vec<_> = matrix.iter().map(texts).collect();
        let mut names: Vec<_> = matrix.by_name().map(|(name, _)| name.to_owned()).collect();
        names.sort();
        // A request that is no join has no map in Jina.
        names.truncate(if parts.len() > 1 { parts.len() } else { 0 });
        let mut docs = matrix.into_parts().into_iter().next().unwrap_or_default();
        for doc in &mut docs {
            let mut tags = doc.tags();
            tags.insert("parts".to_owned(), json!(parts));
            tags.insert("map".to_owned(), json!(names));
            doc.set_tags(&tags);
        }
        Ok(docs)
    }

    fn set_tag(&self, docs: &mut DocumentArray, value: &Value) {
        for doc in docs {
            let mut tags = doc.tags();
            tags.insert(self.mark.clone(), value.clone());
            doc.set_tags(&tags);
        }
    }
}

fn main() -> ExitCode {
    flow_executor::run::<Marker>()
}
