//! The models that the executors of a flow run, and which one a request means.

use flow_core::{Code, DocArrayVersion, Failure, ModelInfo, ModelKind};

use flow_spec::NodePlan;
use futures_util::future::join_all;

use super::api_error::{ApiError, ErrorKind};
use crate::discovery::{node_endpoints, soon};
use crate::node::GatewayNode;
use crate::shortened::shortened;
use crate::snapshot::Snapshot;

/// Longest unknown name of a model that an error repeats, in bytes.
const NAME_LEN_MAX: usize = 200;

/// The endpoint of an executor that does not say which one computes its model.
const ENCODE: &str = "/encode";

/// A model that clients can name.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ServedModel {
    /// What clients call it: the name that its executor reports, or an alias of the flow file.
    pub(crate) id: String,
    /// The name of its executor.
    pub(crate) executor: String,
    pub(crate) endpoint: String,
    /// What the executor reports about it; `None` if it reports nothing.
    pub(crate) info: Option<ModelInfo>,
    /// The format of documents that the executor reads.
    pub(crate) version: DocArrayVersion,
}

/// The models of a flow.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct ServedModels {
    /// By what the executors report, in the order of the flow.
    reported: Vec<ServedModel>,
    /// By the flow file.
    aliases: Vec<ServedModel>,
    /// Whether an executor has not said yet what it offers.
    incomplete: bool,
}

impl ServedModels {
    /// The models of the executors of this snapshot. An executor that has not been asked yet is asked here, so that the
    /// first request of a flow is treated like any other.
    pub(crate) async fn of(snapshot: &Snapshot) -> Self {
        let unknown = snapshot.nodes();
        let unknown = unknown.filter(|(_, node)| node.endpoints.models().is_none());
        join_all(unknown.map(|(plan, node)| ask(plan, node))).await;
        Self::known(snapshot)
    }

    fn known(snapshot: &Snapshot) -> Self {
        let mut models = Self::default();
        for (plan, node) in snapshot.nodes() {
            let Some(known) = node.endpoints.models() else {
                models.incomplete = true;
                continue;
            };
            let version = known.version.unwrap_or_default();
            let embedding = known.models.iter();
            let embedding = embedding.filter(|(_, info)| info.kind == ModelKind::Embedding);
            models
                .reported
                .extend(embedding.map(|(endpoint, info)| ServedModel {
                    id: info.name.clone(),
                    executor: plan.name.as_str().to_owned(),
                    endpoint: endpoint.clone(),
                    info: Some(info.clone()),
                    version,
                }));
            models.add_aliases(snapshot, plan.name.as_str(), version);
        }
        models
    }

    /// Adds the aliases of the flow file for an executor.
    fn add_aliases(&mut self, snapshot: &Snapshot, executor: &str, version: DocArrayVersion) {
        let own = self.reported.iter().find(|it| it.executor == executor);
        let model = own.cloned().unwrap_or_else(|| ServedModel {
            id: String::new(),
            executor: executor.to_owned(),
            endpoint: ENCODE.to_owned(),
            info: None,
            version,
        });
        for (alias, of) in &snapshot.plan.gateway.models {
            if of.as_str() == executor {
                self.aliases.push(ServedModel {
                    id: alias.clone(),
                    ..model.clone()
                });
            }
        }
    }

    /// All models by the names that clients can give, aliases last.
    pub(crate) fn all(&self) -> impl Iterator<Item = &ServedModel> {
        self.reported.iter().chain(&self.aliases)
    }

    /// Whether a request must name its executor, because several run models.
    pub(crate) fn are_several(&self) -> bool {
        let mut executors = self.all().map(|it| it.executor.as_str());
        let first = executors.next();
        executors.any(|other| Some(other) != first)
    }

    /// The model that a request means. Without a name it is the only one.
    pub(crate) fn find(&self, name: Option<&str>) -> Result<&ServedModel, ApiError> {
        let Some(name) = name.filter(|name| !name.is_empty()) else {
            return self.only();
        };
        let alias = self.aliases.iter().find(|it| it.id == name);
        let full = || self.reported.iter().find(|it| it.id == name);
        let short = || self.reported.iter().find(|it| it.has_short_name(name));
        let found = alias.or_else(full).or_else(short);
        found.ok_or_else(|| self.unknown(name))
    }

    fn only(&self) -> Result<&ServedModel, ApiError> {
        match self.reported.first().or(self.aliases.first()) {
            Some(only) if !self.are_several() => Ok(only),
            Some(_) => Err(ApiError::invalid(
                "model",
                format!("the flow has several models; name one of {}", self.names()),
            )),
            None if self.incomplete => Err(not_ready()),
            None => Err(ApiError::new(ErrorKind::NoModel, NO_MODEL)),
        }
    }

    fn unknown(&self, name: &str) -> ApiError {
        let name = shortened(name, NAME_LEN_MAX);
        let message = match self.all().next() {
            None if self.incomplete => return not_ready(),
            None => format!("there is no model `{name}`: {NO_MODEL}"),
            Some(_) => format!(
                "there is no model `{name}`; there is {}. `models` in the flow file gives a model \
                 other names",
                self.names()
            ),
        };
        ApiError::new(ErrorKind::NoModel, message).at("model")
    }

    /// The name by which a request finds this model and no other: that of its executor if several executors run the model.
    pub(crate) fn name_of<'m>(&self, model: &'m ServedModel) -> &'m str {
        match self.all().filter(|it| it.id == model.id).count() {
            0 | 1 => &model.id,
            _ => &model.executor,
        }
    }

    /// The names of all models, for messages.
    pub(crate) fn names(&self) -> String {
        let names = self.all().map(|it| format!("`{}`", self.name_of(it)));
        names.collect::<Vec<_>>().join(", ")
    }
}

const NO_MODEL: &str = "no executor of the flow reports an embedding model, and `models` in the \
                        flow file names none";

impl ServedModel {
    /// Whether this is the name of its executor, or the model's name without its owner or folder.
    fn has_short_name(&self, name: &str) -> bool {
        let last = self.id.trim_end_matches('/').rsplit('/').next();
        self.executor == name || last == Some(name)
    }
}

/// Asks an executor for its models. They stay unknown if it does not answer.
async fn ask(plan: &NodePlan, node: &GatewayNode) {
    let generation = node.generation();
    match node_endpoints(plan, node, soon()).await {
        Ok(offered) => node.endpoints.set(&offered, generation),
        Err(failure) => tracing::debug!(%failure, "cannot read the models of an executor"),
    }
}

fn not_ready() -> ApiError {
    Failure::new(
        Code::Unavailable,
        "the executors have not reported their models yet; try again",
    )
    .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model(id: &str, executor: &str) -> ServedModel {
        ServedModel {
            id: id.to_owned(),
            executor: executor.to_owned(),
            endpoint: ENCODE.to_owned(),
            info: None,
            version: DocArrayVersion::default(),
        }
    }

    fn models(reported: &[(&str, &str)], aliases: &[(&str, &str)]) -> ServedModels {
        let all = |of: &[(&str, &str)]| of.iter().map(|(id, at)| model(id, at)).collect();
        ServedModels {
            reported: all(reported),
            aliases: all(aliases),
            incomplete: false,
        }
    }

    #[track_caller]
    fn check(models: &ServedModels, name: Option<&str>, executor: &str) {
        assert_eq!(models.find(name).unwrap().executor, executor, "{name:?}");
    }

    #[test]
    fn a_model_is_found_by_its_name_its_short_name_its_executor_and_its_aliases() {
        let two = [("a/small", "fast"), ("b/large", "good")];
        let models = models(&two, &[("text-embedding-3-small", "good")]);
        for name in ["b/large", "large", "good", "text-embedding-3-small"] {
            check(&models, Some(name), "good");
        }
        check(&models, Some("a/small"), "fast");
        let error = models.find(Some("tiny")).unwrap_err();
        assert_eq!(
            (error.kind, error.field),
            (ErrorKind::NoModel, Some("model"))
        );
        assert!(error.message.contains("`a/small`"), "{}", error.message);
    }

    #[test]
    fn a_model_that_two_executors_run_has_the_names_of_its_executors() {
        let models = models(&[("m", "one"), ("m", "two"), ("n", "three")], &[]);
        assert_eq!(models.names(), "`one`, `two`, `n`");
        check(&models, Some("two"), "two");
    }

    #[test]
    fn an_alias_wins_over_a_reported_name() {
        let models = models(&[("m", "one"), ("n", "two")], &[("m", "two")]);
        check(&models, Some("m"), "two");
    }

    #[test]
    fn a_request_without_a_model_gets_the_only_one() {
        check(&models(&[("m", "one")], &[("x", "one")]), None, "one");
        check(&models(&[("m", "one")], &[]), Some(""), "one");
        check(&models(&[], &[("x", "one")]), None, "one");
        let error = models(&[("m", "one"), ("n", "two")], &[])
            .find(None)
            .unwrap_err();
        assert_eq!(error.kind, ErrorKind::Invalid);
        let error = models(&[], &[]).find(None).unwrap_err();
        assert_eq!(error.kind, ErrorKind::NoModel);
    }

    #[test]
    fn a_flow_whose_executors_have_not_answered_yet_is_not_ready() {
        let models = ServedModels {
            incomplete: true,
            ..ServedModels::default()
        };
        for name in [None, Some("m")] {
            let error = models.find(name).unwrap_err();
            assert_eq!(error.kind, ErrorKind::Failed(Code::Unavailable));
        }
    }
}
