//! An executor that reports a model of each kind and computes nothing, so that the gateway calls it for every route.

use std::net::SocketAddr;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use flow_executor::{
    Addresses, CallError, Document, Endpoints, Executor, Facts, LoadContext, LoadError, ModelInfo,
    ModelKind, Models, Parameters, ServerSettings, ShorterVectors, Tensor,
};
use flow_net::Drain;
use serde::Deserialize;
use serde_json::{Map, json};
use tokio::runtime::Runtime;

/// Numbers of a vector, and labels of the classifier.
const DIMENSIONS: usize = 2;
const LABELS: [&str; 2] = ["bad", "good"];

#[derive(Debug)]
struct AnyModel;

#[derive(Debug, Deserialize)]
struct With {}

impl Executor for AnyModel {
    type With = With;

    fn load(_: With, _: &LoadContext) -> Result<Self, LoadError> {
        Ok(Self)
    }

    fn endpoints() -> Endpoints<Self> {
        Endpoints::new()
            .on_batch("/encode", Self::encode)
            .on_batch("/token_vectors", Self::token_vectors)
            .on_batch("/to_tokens", Self::echo)
            .on_batch("/from_tokens", Self::echo)
            .on_batch("/rank", Self::rank)
            .on_batch("/sparse", Self::sparse)
            .on_batch("/classify", Self::classify)
            .default_batch(Self::echo)
    }

    fn models(&self) -> Models {
        let model = |name: &str, kind| ModelInfo {
            name: name.to_owned(),
            kind,
            dimensions: DIMENSIONS,
            shorter: ShorterVectors::Any,
            prompts: vec!["query".to_owned()],
            labels: LABELS.map(str::to_owned).to_vec(),
            ..ModelInfo::default()
        };
        Models::from([
            ("/encode".to_owned(), model("m", ModelKind::Embedding)),
            ("/rank".to_owned(), model("r", ModelKind::Reranker)),
            ("/classify".to_owned(), model("c", ModelKind::Classifier)),
            ("/sparse".to_owned(), model("s", ModelKind::SparseEmbedding)),
        ])
    }
}

impl AnyModel {
    fn echo(&mut self, _: &mut [Document], _: &Parameters) -> Result<(), CallError> {
        Ok(())
    }

    fn encode(&mut self, docs: &mut [Document], _: &Parameters) -> Result<(), CallError> {
        let vector = Tensor::vector(&[0.6, 0.8]);
        docs.iter_mut().for_each(|doc| doc.set_embedding(&vector));
        Ok(())
    }

    fn token_vectors(&mut self, docs: &mut [Document], _: &Parameters) -> Result<(), CallError> {
        let matrix = Tensor::matrix(&[0.6, 0.8, 0.8, 0.6], DIMENSIONS);
        docs.iter_mut().for_each(|doc| doc.set_embedding(&matrix));
        Ok(())
    }

    fn sparse(&mut self, docs: &mut [Document], _: &Parameters) -> Result<(), CallError> {
        let vector = json!({"indices": [3, 20_000], "values": [0.5, 1.25]});
        let tags = Map::from_iter([("sparse_embedding".to_owned(), vector)]);
        docs.iter_mut().for_each(|doc| doc.set_tags(&tags));
        Ok(())
    }

    fn rank(&mut self, docs: &mut [Document], _: &Parameters) -> Result<(), CallError> {
        for doc in docs {
            for found in doc.matches_mut()? {
                found.set_score("relevance", 0.5, "");
            }
        }
        Ok(())
    }

    fn classify(&mut self, docs: &mut [Document], _: &Parameters) -> Result<(), CallError> {
        for doc in docs {
            doc.set_scores(LABELS.map(|label| (label, Some(0.5))), "");
        }
        Ok(())
    }
}

/// Starts the executor on a thread of its own, where it stays, and returns its address.
pub fn start() -> SocketAddr {
    let settings = ServerSettings {
        host: "127.0.0.1".to_owned(),
        ..ServerSettings::default()
    };
    let (ready, is_ready) = mpsc::channel();
    thread::spawn(move || {
        let runtime = Runtime::new().expect("a runtime");
        let drain = Drain::new(Duration::ZERO);
        let on_ready = |at: &Addresses, _: &Facts| {
            ready.send(at.serving.tcp()).ok();
        };
        let served = flow_executor::serve::<AnyModel>(settings, &drain, on_ready);
        panic!("the executor ended: {:?}", runtime.block_on(served));
    });
    let address = is_ready.recv().expect("the executor starts");
    address.expect("it listens at a port")
}
