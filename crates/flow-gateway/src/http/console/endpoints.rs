//! The endpoints of the flow with the executors that work on them, and its models.

use std::collections::{BTreeMap, BTreeSet};

use flow_core::{Endpoint, ModelInfo, discovery};
use serde::Serialize;

use crate::http::models::ServedModels;
use crate::snapshot::Snapshot;

/// What is known of the endpoints and models of a flow.
#[derive(Debug, Serialize)]
pub(super) struct Known {
    endpoints: Vec<EndpointReport>,
    models: Vec<ModelReport>,
    /// Executors that have not said yet what they offer.
    silent: Vec<String>,
}

#[derive(Debug, Serialize)]
struct EndpointReport {
    name: String,
    #[serde(flatten)]
    offer: EndpointOffer,
}

#[derive(Debug, Default, Serialize)]
struct EndpointOffer {
    /// The executors that have the endpoint.
    executors: Vec<String>,
    /// The parameters that they accept; `None` if one of them accepts any.
    parameters: Option<BTreeSet<String>>,
    /// It changes what an executor has stored.
    writes: bool,
    /// It makes documents one by one.
    streams: bool,
}

#[derive(Debug, Serialize)]
struct ModelReport {
    /// The name that clients give.
    id: String,
    executor: String,
    endpoint: String,
    info: Option<ModelInfo>,
}

impl Known {
    /// Executors that have not said yet what they offer are asked.
    pub(super) async fn ask(snapshot: &Snapshot) -> Self {
        let models = ServedModels::of(snapshot).await;
        let mut offers: BTreeMap<String, EndpointOffer> = BTreeMap::new();
        let mut silent = Vec::new();
        for (plan, node) in snapshot.nodes() {
            let name = plan.name.as_str();
            let Some(said) = node.endpoints.offered(node.generation()) else {
                silent.push(name.to_owned());
                continue;
            };
            for endpoint in &said.endpoints {
                let accepted = discovery::accepted(&said, endpoint);
                let accepted = accepted.map(|it| it.names().map(str::to_owned).collect());
                let offer = offers.entry(endpoint.clone()).or_default();
                offer.add(name, accepted);
                offer.writes |= said.write_endpoints.contains(endpoint);
                offer.streams |= discovery::is_generator(&said, endpoint);
            }
        }
        offers.remove(Endpoint::DRY_RUN);
        let offers = offers.into_iter();
        Self {
            endpoints: offers
                .map(|(name, offer)| EndpointReport { name, offer })
                .collect(),
            models: reports(&models),
            silent,
        }
    }
}

impl EndpointOffer {
    /// Adds an executor with the parameters that it accepts; `None` for any.
    fn add(&mut self, executor: &str, accepted: Option<BTreeSet<String>>) {
        let is_first = self.executors.is_empty();
        self.executors.push(executor.to_owned());
        self.parameters = match (self.parameters.take(), accepted) {
            (Some(known), Some(more)) => Some(&known | &more),
            (None, more) if is_first => more,
            _ => None,
        };
    }
}

fn reports(models: &ServedModels) -> Vec<ModelReport> {
    let all = models.all();
    all.map(|model| ModelReport {
        id: models.name_of(model).to_owned(),
        executor: model.executor.clone(),
        endpoint: model.endpoint.clone(),
        info: model.info.clone(),
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_accepts_what_all_its_executors_together_accept() {
        let names = |of: &[&str]| Some(of.iter().map(|&it| it.to_owned()).collect());
        let mut offer = EndpointOffer::default();
        offer.add("a", names(&["x"]));
        offer.add("b", names(&["y"]));
        assert_eq!(offer.parameters, names(&["x", "y"]));
        offer.add("c", None);
        assert_eq!(offer.parameters, None);
        offer.add("d", names(&["z"]));
        assert_eq!(offer.parameters, None);
        assert_eq!(offer.executors, ["a", "b", "c", "d"]);
    }
}
