//! Whether the endpoints and methods that a node names are those of its built-in executor.

use flow_core::{Endpoint, closest};
use indexmap::IndexMap;

use super::entry::EntryChecker;
use super::local_run::LocalRun;
use crate::context::ExecutorDescription;
use crate::diagnostics::{Diagnostics, Problem, SourceSpan};

/// A built-in executor, with the methods that its own config binds.
pub(super) struct KnownExecutor {
    pub(super) name: String,
    pub(super) requests: IndexMap<String, String>,
}

impl EntryChecker<'_> {
    /// Checks what `uses_requests`, `uses_dynamic_batching`, `polling` and `replicas` say about a built-in executor.
    pub(super) fn check_methods(
        &self,
        executor: &KnownExecutor,
        run: &LocalRun,
        diagnostics: &mut Diagnostics,
    ) {
        let Some(description) = self.context.executors.describe(&executor.name) else {
            return;
        };
        let methods = Methods {
            executor: &executor.name,
            endpoints: &description.endpoints,
            bound: executor
                .requests
                .keys()
                .chain(run.requests.keys())
                .collect(),
        };
        self.check_requests(&methods, executor, run, diagnostics);
        self.check_batching(&methods, run, diagnostics);
        self.check_polling(&methods, run, diagnostics);
        self.warn_of_replicas(&description, run, diagnostics);
    }

    fn check_requests(
        &self,
        methods: &Methods<'_>,
        executor: &KnownExecutor,
        run: &LocalRun,
        diagnostics: &mut Diagnostics,
    ) {
        let span = self.span_of(
            self.effective
                .options
                .uses_requests
                .as_ref()
                .map(|it| &it.span),
        );
        for (endpoint, method) in executor.requests.iter().chain(&run.requests) {
            if !methods.has_method(method) {
                let name = methods.executor;
                let message = format!(
                    "`{endpoint}` is bound to the method `{method}`, which `{name}` does not have"
                );
                let problem = Problem::new(span, message);
                diagnostics.problem(problem.remedy(methods.meant_method(method)));
            }
        }
    }

    fn check_batching(&self, methods: &Methods<'_>, run: &LocalRun, diagnostics: &mut Diagnostics) {
        let written = self.effective.options.uses_dynamic_batching.as_ref();
        let span = self.span_of(written.map(|it| &it.span));
        for name in run.batching.keys() {
            let is_endpoint = name.starts_with('/');
            let (is_known, remedy) = match is_endpoint {
                true => (methods.has_endpoint(name), methods.meant_endpoint(name)),
                false => (methods.has_method(name), methods.meant_method(name)),
            };
            if !is_known {
                let executor = methods.executor;
                let what = if is_endpoint { "endpoint" } else { "method" };
                let message = format!("`{executor}` has no {what} `{name}`");
                diagnostics.problem(Problem::new(span, message).remedy(remedy));
            }
        }
    }

    /// What `with` says is for all executors, which need not have the same endpoints.
    fn check_polling(&self, methods: &Methods<'_>, run: &LocalRun, diagnostics: &mut Diagnostics) {
        let Some(polling) = &self.entry.inherited.options.polling else {
            return;
        };
        if run.shards.get() == 1 {
            return;
        }
        let unknown = polling.value.by_endpoint.keys();
        for endpoint in unknown.filter(|it| !methods.has_endpoint(it)) {
            let message = format!("`{}` has no endpoint `{endpoint}`", methods.executor);
            let problem = Problem::new(&polling.span, message);
            diagnostics.problem(problem.remedy(methods.meant_endpoint(endpoint)));
        }
    }

    fn warn_of_replicas(
        &self,
        description: &ExecutorDescription,
        run: &LocalRun,
        diagnostics: &mut Diagnostics,
    ) {
        if description.keeps_state && run.replicas.get() > 1 {
            let written = self.effective.options.replicas.as_ref();
            let message = "each replica keeps only what was sent to it, so that one alone does not find everything";
            let problem = Problem::new(self.span_of(written.map(|it| &it.span)), message);
            diagnostics.warn(problem.remedy("write `shards` instead of `replicas`"));
        }
    }

    /// The span of an option, or of what names the executor if its config has the option.
    fn span_of<'s>(&'s self, written: Option<&'s SourceSpan>) -> &'s SourceSpan {
        let uses = self.entry.options.uses.as_ref().map(|uses| &uses.span);
        written.or(uses).unwrap_or(&self.entry.span)
    }
}

/// The endpoints and methods of an executor. A method is named after its first endpoint: that of `/encode` is `encode`.
struct Methods<'m> {
    executor: &'m str,
    /// The executor's own.
    endpoints: &'m [String],
    /// Those that files add.
    bound: Vec<&'m String>,
}

impl Methods<'_> {
    fn has_method(&self, method: &str) -> bool {
        self.methods()
            .any(|it| it == method.trim_start_matches('/'))
    }

    /// An executor with a default method has any endpoint.
    fn has_endpoint(&self, endpoint: &str) -> bool {
        let mut all = self.all_endpoints();
        all.any(|it| it == endpoint || it == Endpoint::DEFAULT)
    }

    fn meant_method(&self, written: &str) -> String {
        let methods: Vec<&str> = self.methods().collect();
        meant(written.trim_start_matches('/'), &methods, "methods")
    }

    fn meant_endpoint(&self, written: &str) -> String {
        let endpoints: Vec<&str> = self.all_endpoints().collect();
        meant(written, &endpoints, "endpoints")
    }

    fn methods(&self) -> impl Iterator<Item = &str> {
        self.endpoints.iter().map(|it| it.trim_start_matches('/'))
    }

    fn all_endpoints(&self) -> impl Iterator<Item = &str> {
        let own = self.endpoints.iter();
        own.chain(self.bound.iter().copied()).map(String::as_str)
    }
}

/// The word that was meant, or all that there are.
fn meant(written: &str, known: &[&str], what: &str) -> String {
    match closest(written, known.iter().copied()) {
        Some(meant) => format!("did you mean `{meant}`?"),
        None => {
            let known: Vec<String> = known.iter().map(|it| format!("`{it}`")).collect();
            format!("its {what} are {}", known.join(", "))
        }
    }
}
