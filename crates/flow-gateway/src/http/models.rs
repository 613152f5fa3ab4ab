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

/// The endpoint of an executor that does not say which one computes its model, if the flow file does not say so either.
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
            let reported = known.models.iter();
            let reported = reported.filter(|(_, info)| info.kind != ModelKind::Other);
            models
                .reported
                .extend(reported.map(|(endpoint, info)| ServedModel {
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

    /// Adds the aliases of the flow file for an executor: of the model at their endpoint, or of its first one.
    fn add_aliases(&mut self, snapshot: &Snapshot, executor: &str, version: DocArrayVersion) {
        for (alias, of) in &snapshot.plan.gateway.models {
            if of.node.as_str() != executor {
                continue;
            }
            let endpoint = of.endpoint.as_deref();
            let mut own = self.reported.iter().filter(|it| it.executor == executor);
            let own = own.find(|it| endpoint.is_none_or(|wanted| it.endpoint == wanted));
            let model = own.cloned().unwrap_or_else(|| ServedModel {
                id: String::new(),
                executor: executor.to_owned(),
                endpoint: endpoint.unwrap_or(ENCODE).to_owned(),
                info: None,
                version,
            });
            self.aliases.push(ServedModel {
                id: alias.clone(),
                ..model
            });
        }
    }

    /// All models by the names that clients can give, aliases last.
    pub(crate) fn all(&self) -> impl Iterator<Item = &ServedModel> {
        self.reported.iter().chain(&self.aliases)
    }

    /// The models of one kind, by the names that clients can give, aliases last.
    pub(crate) fn of_kind(&self, kind: ModelKind) -> impl Iterator<Item = &ServedModel> {
        self.all().filter(move |it| it.kind() == kind)
    }

    /// Whether a request must name its executor, because several run models.
    pub(crate) fn have_several_executors(&self) -> bool {
        are_several(self.all())
    }

    /// The model of a kind that a request means. Without a name it is the only one.
    pub(crate) fn find(
        &self,
        kind: ModelKind,
        name: Option<&str>,
    ) -> Result<&ServedModel, ApiError> {
        let of_kind = || self.of_kind(kind);
        let name = name.filter(|name| !name.is_empty());
        let Some(first) = of_kind().next() else {
            return Err(self.none(kind, name));
        };
        let Some(name) = name else {
            return match are_several(of_kind()) {
                false => Ok(first),
                true => Err(ApiError::invalid(
                    "model",
                    format!(
                        "the flow has several models; name one of {}",
                        self.names(Some(kind))
                    ),
                )),
            };
        };
        let found = self.named(of_kind, name);
        found.ok_or_else(|| self.unknown(Some(kind), name))
    }

    /// Checks that there is a model of a kind.
    pub(crate) fn check_kind(&self, kind: ModelKind) -> Result<(), ApiError> {
        let found = self.of_kind(kind).next();
        found.map(|_| ()).ok_or_else(|| self.none(kind, None))
    }

    /// The kind of model for a request that names none: one that makes vectors, if there is one. `None` as long as one may still be
    /// reported.
    pub(crate) fn first_kind(&self) -> Option<ModelKind> {
        let kinds = [
            ModelKind::Embedding,
            ModelKind::Reranker,
            ModelKind::Classifier,
            ModelKind::SparseEmbedding,
        ];
        let is_there = |kind: &ModelKind| self.of_kind(*kind).next().is_some();
        let found = kinds.into_iter().find(is_there);
        found.filter(|kind| *kind == ModelKind::Embedding || !self.incomplete)
    }

    /// The model of any kind that a request means. Without a name it is the only one that makes vectors, or else the only reranker, or else the only
    /// classifier, or else the only one that makes sparse vectors.
    pub(crate) fn find_any(&self, name: Option<&str>) -> Result<&ServedModel, ApiError> {
        match name.filter(|name| !name.is_empty()) {
            Some(name) => {
                let found = self.named(|| self.all(), name);
                found.ok_or_else(|| self.unknown(None, name))
            }
            None => {
                let kind = self.first_kind();
                self.find(kind.unwrap_or(ModelKind::Embedding), None)
            }
        }
    }

    /// The one of these models that has this name: as an alias, or in full, or without its owner.
    fn named<'m, I: Iterator<Item = &'m ServedModel>>(
        &'m self,
        models: impl Fn() -> I,
        name: &str,
    ) -> Option<&'m ServedModel> {
        let alias = models().find(|it| it.id == name && self.is_alias(it));
        let full = || models().find(|it| it.id == name);
        let short = || models().find(|it| !self.is_alias(it) && it.has_short_name(name));
        alias.or_else(full).or_else(short)
    }

    fn is_alias(&self, model: &ServedModel) -> bool {
        self.aliases.iter().any(|alias| std::ptr::eq(alias, model))
    }

    /// The error of a request for a kind of model that the flow does not have.
    fn none(&self, kind: ModelKind, name: Option<&str>) -> ApiError {
        match (kind, name) {
            _ if self.incomplete => not_ready(),
            (ModelKind::Reranker, _) => self.no_model("for reranking"),
            (ModelKind::Classifier, _) => self.no_model("for classification"),
            (ModelKind::SparseEmbedding, _) => self.no_model("for sparse embeddings"),
            _ if self.all().next().is_some() => self.no_model("for embeddings"),
            (_, Some(name)) => self.unknown(None, name),
            (_, None) => ApiError::new(ErrorKind::NoModel, NO_MODEL),
        }
    }

    /// The error of a route that needs a kind of model which the flow does not have.
    fn no_model(&self, what: &str) -> ApiError {
        let of_kind = |kind, what: &str| {
            let names = self.names(Some(kind));
            (!names.is_empty()).then(|| format!("{names}, {what}"))
        };
        let there = [
            of_kind(ModelKind::Embedding, "for embeddings"),
            of_kind(ModelKind::Reranker, "for reranking"),
            of_kind(ModelKind::Classifier, "for classification"),
            of_kind(ModelKind::SparseEmbedding, "for sparse embeddings"),
        ];
        let there: Vec<String> = there.into_iter().flatten().collect();
        let there = match there.is_empty() {
            true => "it has no models".to_owned(),
            false => format!("there is {}", there.join("; and ")),
        };
        let message = format!("the flow has no model {what}; {there}");
        ApiError::new(ErrorKind::NoModel, message)
    }

    fn unknown(&self, kind: Option<ModelKind>, name: &str) -> ApiError {
        let name = shortened(name, NAME_LEN_MAX);
        let of_another_kind = self.named(|| self.all(), name);
        let names = self.names(kind);
        let message = match (of_another_kind, kind) {
            (Some(other), Some(kind)) => format!(
                "`{name}` is not {}, but {}; there is {names}",
                with_article(kind),
                with_article(other.kind())
            ),
            _ if names.is_empty() && self.incomplete => return not_ready(),
            _ if names.is_empty() => format!("there is no model `{name}`: {NO_MODEL}"),
            _ => format!(
                "there is no model `{name}`; there is {names}. `models` in the flow file gives a model \
                 other names"
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

    /// The names of all models, or those of one kind, for messages.
    fn names(&self, kind: Option<ModelKind>) -> String {
        let of_kind = self.all();
        let of_kind = of_kind.filter(|it| kind.is_none_or(|kind| it.kind() == kind));
        let names = of_kind.map(|it| format!("`{}`", self.name_of(it)));
        names.collect::<Vec<_>>().join(", ")
    }
}

/// Whether these models run in several executors.
fn are_several<'m>(models: impl Iterator<Item = &'m ServedModel>) -> bool {
    let mut executors = models.map(|it| it.executor.as_str());
    let first = executors.next();
    executors.any(|other| Some(other) != first)
}

/// What messages call a model of this kind.
fn with_article(kind: ModelKind) -> &'static str {
    match kind {
        ModelKind::Embedding => "an embedding model",
        ModelKind::Reranker => "a reranker",
        ModelKind::Classifier => "a classifier",
        ModelKind::SparseEmbedding => "a model for sparse embeddings",
        ModelKind::Other => "a model",
    }
}

const NO_MODEL: &str = "no executor of the flow reports an embedding model, and `models` in the \
                        flow file names none";

impl ServedModel {
    /// What it makes of a document. An executor that reports nothing is taken for an encoder.
    pub(crate) fn kind(&self) -> ModelKind {
        let info = self.info.as_ref();
        info.map_or(ModelKind::Embedding, |info| info.kind)
    }

    /// The failure of its executor, which did something else than it was asked for.
    pub(crate) fn failure(&self, what: &str) -> Failure {
        let message = format!("executor `{}` {what}", self.executor);
        Failure::new(Code::ExecutorFailed, message)
    }

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
        let found = models.find(ModelKind::Embedding, name).unwrap();
        assert_eq!(found.executor, executor, "{name:?}");
    }

    #[test]
    fn a_model_is_found_by_its_name_its_short_name_its_executor_and_its_aliases() {
        let two = [("a/small", "fast"), ("b/large", "good")];
        let models = models(&two, &[("text-embedding-3-small", "good")]);
        for name in ["b/large", "large", "good", "text-embedding-3-small"] {
            check(&models, Some(name), "good");
        }
        check(&models, Some("a/small"), "fast");
        let error = models.find(ModelKind::Embedding, Some("tiny")).unwrap_err();
        assert_eq!(
            (error.kind, error.field),
            (ErrorKind::NoModel, Some("model"))
        );
        assert!(error.message.contains("`a/small`"), "{}", error.message);
    }

    #[test]
    fn a_model_that_two_executors_run_has_the_names_of_its_executors() {
        let models = models(&[("m", "one"), ("m", "two"), ("n", "three")], &[]);
        assert_eq!(models.names(None), "`one`, `two`, `n`");
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
            .find(ModelKind::Embedding, None)
            .unwrap_err();
        assert_eq!(error.kind, ErrorKind::Invalid);
        let error = models(&[], &[])
            .find(ModelKind::Embedding, None)
            .unwrap_err();
        assert_eq!(error.kind, ErrorKind::NoModel);
    }

    #[test]
    fn a_flow_whose_executors_have_not_answered_yet_is_not_ready() {
        let models = ServedModels {
            incomplete: true,
            ..ServedModels::default()
        };
        for name in [None, Some("m")] {
            for kind in [ModelKind::Embedding, ModelKind::Reranker] {
                let error = models.find(kind, name).unwrap_err();
                assert_eq!(error.kind, ErrorKind::Failed(Code::Unavailable));
            }
        }
    }

    /// An encoder, and a reranker with an alias.
    fn two_kinds() -> ServedModels {
        let reranker = |id: &str| ServedModel {
            info: Some(ModelInfo {
                kind: ModelKind::Reranker,
                ..ModelInfo::default()
            }),
            ..model(id, "ranker")
        };
        let mut models = models(&[("a/m", "encoder")], &[]);
        models.reported.push(reranker("b/r"));
        models.aliases.push(reranker("rerank-v3.5"));
        models
    }

    #[test]
    fn a_model_is_found_among_those_of_its_kind() {
        let models = two_kinds();
        let find = |kind, name| models.find(kind, name).map(|it| it.executor.as_str());
        for name in [None, Some("r"), Some("ranker"), Some("rerank-v3.5")] {
            assert_eq!(find(ModelKind::Reranker, name), Ok("ranker"), "{name:?}");
        }
        assert_eq!(find(ModelKind::Embedding, None), Ok("encoder"));
        assert!(models.have_several_executors());
        let error = find(ModelKind::Embedding, Some("r")).unwrap_err();
        assert!(
            error
                .message
                .contains("`r` is not an embedding model, but a reranker; there is `a/m`"),
            "{}",
            error.message
        );
        assert_eq!(models.find_any(None).unwrap().executor, "encoder");
        assert_eq!(models.find_any(Some("r")).unwrap().executor, "ranker");
    }

    #[test]
    fn a_flow_without_a_kind_of_model_names_those_that_are_there() {
        let message = |of: &ServedModels, kind| of.find(kind, None).unwrap_err().message;
        let encoder = models(&[("m", "one")], &[]);
        assert_eq!(
            message(&encoder, ModelKind::Reranker),
            "the flow has no model for reranking; there is `m`, for embeddings"
        );
        let mut ranker = two_kinds();
        ranker.reported.remove(0);
        assert_eq!(
            message(&ranker, ModelKind::Embedding),
            "the flow has no model for embeddings; there is `b/r`, `rerank-v3.5`, for reranking"
        );
        assert_eq!(ranker.find_any(None).unwrap().executor, "ranker");
        assert_eq!(
            message(&ServedModels::default(), ModelKind::Reranker),
            "the flow has no model for reranking; it has no models"
        );
    }
}
