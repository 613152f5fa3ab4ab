//! What processes inherit of the launcher's environment. Pure.
//!
//! Flow's own programs get only the variables that they read, so that not every process has the user's secrets, such as
//! credentials of a cloud. Executors of users inherit everything unless the flow file says otherwise, because those of Jina read
//! their configuration there.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;

use flow_spec::InheritEnv;

/// The launcher's environment. `Debug` shows no values, which may be secrets.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Environment(BTreeMap<OsString, OsString>);

/// Variables that every process inherits. A name that ends with `*` matches every name that begins so.
const SHARED: &[&str] = &[
    // Who and where.
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "TERM",
    "NO_COLOR",
    "TMPDIR",
    "TEMP",
    "TMP",
    "XDG_*",
    // Language and time.
    "LANG",
    "LANGUAGE",
    "LC_*",
    "TZ",
    "TZDIR",
    // The network.
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "no_proxy",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    // How programs are loaded, and how they use processors, GPUs and memory.
    "LD_LIBRARY_PATH",
    "LD_PRELOAD",
    "GLIBC_TUNABLES",
    "MALLOC_*",
    "CUDA_*",
    "NVIDIA_*",
    "HIP_VISIBLE_DEVICES",
    "ROCR_VISIBLE_DEVICES",
    "OMP_*",
    "GOMP_*",
    "KMP_*",
    "MKL_*",
    "OPENBLAS_*",
    "RAYON_NUM_THREADS",
    "TOKENIZERS_PARALLELISM",
    "PYTHON*",
    "VIRTUAL_ENV",
    "CONDA_PREFIX",
    "CONDA_DEFAULT_ENV",
    // Logs and telemetry.
    "RUST_BACKTRACE",
    "RUST_LIB_BACKTRACE",
    "RUST_LOG",
    "OTEL_*",
    // Where models are.
    "HF_HOME",
    "HF_HUB_*",
    "HF_ENDPOINT",
    "HF_TOKEN_PATH",
    "HUGGINGFACE_HUB_CACHE",
    "TRANSFORMERS_*",
    "TORCH_HOME",
    // Settings of flow and of Jina.
    "FLOW_*",
    "JINA_*",
];

/// Variables that [`SHARED`] would include and that hold secrets.
const SECRETS: &[&str] = &[
    "FLOW_API_KEY",
    "FLOW_USES_WITH",
    "JINA_API_KEY",
    "JINA_AUTH_TOKEN",
];

/// What a process inherits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Inherited {
    /// The whole environment.
    All,
    /// What every process inherits, and these: names, or beginnings with a `*`.
    Shared(Vec<String>),
}

impl Inherited {
    /// What the flow file says or, if it says nothing, the default of the program.
    pub(crate) fn of(written: Option<&InheritEnv>, default: Self) -> Self {
        match (written, default) {
            (None, default) => default,
            (Some(InheritEnv::All), _) => Self::All,
            // What a built-in executor reads in any case, and what is written.
            (Some(InheritEnv::Listed(names)), Self::Shared(own)) => {
                Self::Shared(own.into_iter().chain(names.iter().cloned()).collect())
            }
            (Some(InheritEnv::Listed(names)), Self::All) => Self::Shared(names.clone()),
        }
    }

    fn includes(&self, name: &OsStr) -> bool {
        let Self::Shared(others) = self else {
            return true;
        };
        // Every name of the lists is UTF-8.
        let Some(name) = name.to_str() else {
            return false;
        };
        let is_shared = SHARED.iter().any(|it| matches(it, name));
        let is_named = others.iter().any(|it| matches(it, name));
        is_named || (is_shared && !SECRETS.contains(&name))
    }
}

impl Environment {
    /// The variables of the launcher that a process inherits.
    pub(crate) fn inherited(
        &self,
        inherited: &Inherited,
    ) -> impl Iterator<Item = (&OsString, &OsString)> {
        let variables = self.0.iter();
        variables.filter(move |(name, _)| inherited.includes(name))
    }
}

impl FromIterator<(OsString, OsString)> for Environment {
    fn from_iter<I: IntoIterator<Item = (OsString, OsString)>>(variables: I) -> Self {
        Self(variables.into_iter().collect())
    }
}

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

fn matches(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => name == pattern,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: &str = "AWS_SECRET_ACCESS_KEY FLOW_API_KEY FLOW_LOG FLOW_USES_WITH HF_TOKEN JINA_API_KEY JINA_LOG_LEVEL LC_ALL PATH";

    #[test]
    fn the_book_lists_what_processes_inherit() {
        let page = include_str!("../../../../docs/src/security.md");
        for name in SHARED.iter().chain(SECRETS) {
            // The variables of proxies, which the page names in capital letters.
            let name = match name.ends_with("_proxy") {
                true => name.to_uppercase(),
                false => (*name).to_owned(),
            };
            assert!(page.contains(&format!("`{name}`")), "`{name}` is missing");
        }
    }

    #[track_caller]
    fn check(inherited: &Inherited, expected: &str) {
        let names = ALL.split(' ').map(|name| (name.into(), "x".into()));
        let environment: Environment = names.collect();
        let found = environment.inherited(inherited);
        let found: Vec<_> = found.map(|(name, _)| name.to_str().unwrap()).collect();
        assert_eq!(found.join(" "), expected);
    }

    #[test]
    fn a_process_inherits_what_is_shared_and_what_it_names() {
        check(&Inherited::All, ALL);
        let shared =
            |names: &[&str]| Inherited::Shared(names.iter().map(|&it| it.to_owned()).collect());
        check(&shared(&[]), "FLOW_LOG JINA_LOG_LEVEL LC_ALL PATH");
        check(
            &shared(&["HF_TOKEN"]),
            "FLOW_LOG HF_TOKEN JINA_LOG_LEVEL LC_ALL PATH",
        );
        let named = shared(&["AWS_*", "FLOW_API_KEY"]);
        check(
            &named,
            "AWS_SECRET_ACCESS_KEY FLOW_API_KEY FLOW_LOG JINA_LOG_LEVEL LC_ALL PATH",
        );
    }

    #[test]
    fn the_flow_file_adds_and_removes_inherited_variables() {
        let listed =
            |names: &[&str]| InheritEnv::Listed(names.iter().map(|&it| it.to_owned()).collect());
        let token = || Inherited::Shared(vec!["HF_TOKEN".to_owned()]);
        assert_eq!(Inherited::of(None, token()), token());
        assert_eq!(
            Inherited::of(Some(&InheritEnv::All), token()),
            Inherited::All
        );
        assert_eq!(Inherited::of(Some(&listed(&[])), token()), token());
        assert_eq!(
            Inherited::of(Some(&listed(&["A"])), Inherited::All),
            Inherited::Shared(vec!["A".to_owned()])
        );
    }

    #[test]
    fn values_are_not_shown() {
        let environment: Environment = [("A".into(), "hunter2".into())].into_iter().collect();
        assert_eq!(format!("{environment:?}"), r#"{"A"}"#);
    }
}
