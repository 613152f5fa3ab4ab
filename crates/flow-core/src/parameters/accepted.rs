//! Finds the parameters of a request that no executor accepts, which are mostly misspelt.
//!
//! A request's parameters go to all executors of a flow, and each reads those that it knows. So an
//! executor alone cannot tell a misspelt name from one that is meant for another executor; code that knows
//! all executors that the request reaches can. The rule:
//!
//! - A parameter for one executor (`index__top_k`, or `index: {top_k: 5}`) has to be one that it accepts.
//! - Any other parameter has to be one that some executor of the request accepts.
//! - Executors that do not say what they accept may accept anything.
//! - A parameter for an executor that is not in the flow passes, because clients send the same
//!   parameters to several flows; unless its name is so close to a known one that it looks like a slip.
//!
//! Pure: names in, a verdict out.

use std::collections::BTreeSet;

use prost_types::Struct;
use prost_types::value::Kind;

use super::{RESULTS, SEPARATOR};
use crate::closest;

/// The parameters that an endpoint accepts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Accepted(BTreeSet<String>);

/// What a request meets at one executor of a flow.
#[derive(Debug, Clone, Copy)]
pub enum Accepts<'a> {
    /// The executor does not say what it accepts.
    Anything,
    /// These parameters.
    Only(&'a Accepted),
    /// The request passes the executor by.
    NotCalled,
}

/// A parameter that no executor accepts.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnknownParameter {
    /// No executor accepts a parameter of this name.
    #[error("`{endpoint}` accepts no parameter `{name}`{hint}")]
    Name {
        /// What the request asks for.
        endpoint: String,
        /// The parameter's name.
        name: String,
        /// What was probably meant, or what there is.
        hint: String,
        /// The executor that the parameter is for; `None` if it is for all of them.
        executor: Option<String>,
    },
    /// The parameter is for an executor that the flow does not have.
    #[error(
        "parameter `{name}` is for an executor `{executor}` that is not here; did you mean `{meant}`?"
    )]
    Executor {
        /// The executor's name as it was written.
        executor: String,
        /// The whole parameter.
        name: String,
        /// The same with the name of an executor that there is.
        meant: String,
    },
}

impl Accepted {
    /// Whether a parameter of this name is accepted.
    #[must_use]
    pub fn contains(&self, name: &str) -> bool {
        self.0.contains(name)
    }

    /// The names in alphabetical order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }

    /// The accepted parameter that `name` was probably meant to be.
    #[must_use]
    pub fn closest(&self, name: &str) -> Option<&str> {
        closest(name, self.names())
    }

    fn hint(&self, name: &str) -> String {
        match self.closest(name) {
            Some(meant) => format!("; did you mean `{meant}`?"),
            None if self.0.is_empty() => "; it accepts none".to_owned(),
            None => {
                let names: Vec<&str> = self.names().collect();
                format!("; it accepts: {}", names.join(", "))
            }
        }
    }
}

impl<N: Into<String>> FromIterator<N> for Accepted {
    fn from_iter<I: IntoIterator<Item = N>>(names: I) -> Self {
        Self(names.into_iter().map(Into::into).collect())
    }
}

impl<N: Into<String>> Extend<N> for Accepted {
    fn extend<I: IntoIterator<Item = N>>(&mut self, names: I) {
        self.0.extend(names.into_iter().map(Into::into));
    }
}

impl UnknownParameter {
    /// The executor that the parameter is for, if it is for one alone.
    #[must_use]
    pub fn executor(&self) -> Option<&str> {
        match self {
            Self::Name { executor, .. } => executor.as_deref(),
            Self::Executor { .. } => None,
        }
    }
}

/// Checks a request's parameters against the executors of a flow, each with its name.
///
/// # Errors
///
/// The first parameter that no executor accepts.
pub fn check(
    parameters: &Struct,
    executors: &[(&str, Accepts<'_>)],
    endpoint: &str,
) -> Result<(), UnknownParameter> {
    let is_called = |(_, accepts): &(&str, Accepts<'_>)| !matches!(accepts, Accepts::NotCalled);
    if !executors.iter().any(is_called) {
        return Ok(());
    }
    let flow = Flow {
        executors,
        common: common(executors),
        endpoint,
    };
    for (name, value) in &parameters.fields {
        flow.check(name, value.kind.as_ref())?;
    }
    Ok(())
}

/// What all executors accept together; `None` if one of them does not report it.
fn common(executors: &[(&str, Accepts<'_>)]) -> Option<Accepted> {
    let mut all = Accepted::default();
    for (_, accepts) in executors {
        match accepts {
            Accepts::Anything => return None,
            Accepts::Only(accepted) => all.extend(accepted.names()),
            Accepts::NotCalled => {}
        }
    }
    Some(all)
}

struct Flow<'a> {
    executors: &'a [(&'a str, Accepts<'a>)],
    /// What a parameter without an executor's name may be called.
    common: Option<Accepted>,
    endpoint: &'a str,
}

impl Flow<'_> {
    fn check(&self, name: &str, value: Option<&Kind>) -> Result<(), UnknownParameter> {
        if name == RESULTS {
            return Ok(());
        }
        match (name.split_once(SEPARATOR), value) {
            (Some((executor, own)), _) if !executor.is_empty() => {
                self.check_addressed(executor, own)
            }
            (_, Some(Kind::StructValue(map))) => self.check_map(name, map),
            _ => self.check_common(name),
        }
    }

    /// `executor__name`.
    fn check_addressed(&self, executor: &str, name: &str) -> Result<(), UnknownParameter> {
        if self.has(executor) {
            return self.check_own(executor, name);
        }
        let whole = format!("{executor}{SEPARATOR}{name}");
        self.check_slip(executor, &whole, |meant| {
            format!("{meant}{SEPARATOR}{name}")
        })
    }

    /// Refuses a parameter for an executor whose name looks like a slip. An executor with another name may be one of
    /// another flow.
    fn check_slip(
        &self,
        executor: &str,
        name: &str,
        corrected: impl Fn(&str) -> String,
    ) -> Result<(), UnknownParameter> {
        match closest(executor, self.names()) {
            None => Ok(()),
            Some(meant) => Err(UnknownParameter::Executor {
                executor: executor.to_owned(),
                name: name.to_owned(),
                meant: corrected(meant),
            }),
        }
    }

    /// `executor: {name: …}`, or a parameter whose value is a map.
    fn check_map(&self, name: &str, map: &Struct) -> Result<(), UnknownParameter> {
        if self.has(name) {
            return map
                .fields
                .keys()
                .try_for_each(|own| self.check_own(name, own));
        }
        let slip = |accepted: &Accepted| accepted.closest(name).is_some();
        match &self.common {
            Some(accepted) if accepted.contains(name) => Ok(()),
            Some(accepted) if slip(accepted) => self.check_common(name),
            Some(_) => self.check_slip(name, name, |meant| meant.to_owned()),
            // It may be the value of a parameter, or for an executor of another flow.
            None => Ok(()),
        }
    }

    fn check_common(&self, name: &str) -> Result<(), UnknownParameter> {
        match &self.common {
            Some(accepted) => self.check_name(name, accepted, None),
            None => Ok(()),
        }
    }

    fn check_own(&self, executor: &str, name: &str) -> Result<(), UnknownParameter> {
        let of_name = self.executors.iter().find(|(it, _)| *it == executor);
        match of_name {
            Some((_, Accepts::Only(accepted))) => self.check_name(name, accepted, Some(executor)),
            _ => Ok(()),
        }
    }

    fn check_name(
        &self,
        name: &str,
        accepted: &Accepted,
        executor: Option<&str>,
    ) -> Result<(), UnknownParameter> {
        if accepted.contains(name) {
            return Ok(());
        }
        Err(UnknownParameter::Name {
            endpoint: self.endpoint.to_owned(),
            name: name.to_owned(),
            hint: accepted.hint(name),
            executor: executor.map(str::to_owned),
        })
    }

    fn has(&self, executor: &str) -> bool {
        self.names().any(|name| name == executor)
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        self.executors.iter().map(|(name, _)| *name)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::to_struct;

    fn accepted(names: &[&str]) -> Accepted {
        names.iter().copied().collect()
    }

    /// The error about parameters in a flow of an encoder, an index, and an executor that is not called.
    #[track_caller]
    fn check(sent: &Value, expected: Option<&str>) {
        let (encoder, index) = (accepted(&["batch_size"]), accepted(&["top_k", "filter"]));
        let executors = [
            ("encoder", Accepts::Only(&encoder)),
            ("index", Accepts::Only(&index)),
            ("segmenter", Accepts::NotCalled),
        ];
        check_in(&executors, sent, expected);
    }

    #[track_caller]
    fn check_in(executors: &[(&str, Accepts<'_>)], sent: &Value, expected: Option<&str>) {
        let sent = to_struct(sent.as_object().unwrap());
        let said = super::check(&sent, executors, "/search");
        let said = said.err().map(|error| error.to_string());
        assert_eq!(said.as_deref(), expected);
    }

    #[test]
    fn a_parameter_of_one_executor_is_ignored_by_the_others() {
        check(&json!({}), None);
        check(&json!({"top_k": 5, "batch_size": 1}), None);
        check(&json!({"__results__": {"index": {}}}), None);
    }

    #[test]
    fn a_parameter_that_no_executor_accepts_is_named_with_what_was_meant() {
        check(
            &json!({"topk": 5}),
            Some("`/search` accepts no parameter `topk`; did you mean `top_k`?"),
        );
        check(
            &json!({"colour": "red"}),
            Some("`/search` accepts no parameter `colour`; it accepts: batch_size, filter, top_k"),
        );
        let none = accepted(&[]);
        check_in(
            &[("index", Accepts::Only(&none))],
            &json!({"top_k": 5}),
            Some("`/search` accepts no parameter `top_k`; it accepts none"),
        );
    }

    #[test]
    fn a_parameter_for_one_executor_has_to_be_its_own() {
        check(&json!({"index__top_k": 5}), None);
        check(&json!({"index": {"top_k": 5}}), None);
        let said = "`/search` accepts no parameter `topk`; did you mean `top_k`?";
        check(&json!({"index__topk": 5}), Some(said));
        check(&json!({"index": {"topk": 5}}), Some(said));
        check(
            &json!({"encoder__top_k": 5}),
            Some("`/search` accepts no parameter `top_k`; it accepts: batch_size"),
        );
    }

    #[test]
    fn an_error_about_one_executor_s_parameter_names_the_executor() {
        let index = accepted(&["top_k"]);
        let executors = [("index", Accepts::Only(&index))];
        let executor = |sent: Value| {
            let sent = to_struct(sent.as_object().unwrap());
            let error = super::check(&sent, &executors, "/search").unwrap_err();
            error.executor().map(str::to_owned)
        };
        assert_eq!(
            executor(json!({"index__topk": 5})).as_deref(),
            Some("index")
        );
        assert_eq!(executor(json!({"topk": 5})), None);
    }

    #[test]
    fn executors_that_the_request_does_not_reach_are_not_asked() {
        check(&json!({"segmenter__anything": 5}), None);
        check_in(&[("a", Accepts::NotCalled)], &json!({"topk": 5}), None);
    }

    #[test]
    fn executors_that_do_not_say_what_they_accept_may_accept_anything() {
        let index = accepted(&["top_k"]);
        let executors = [("own", Accepts::Anything), ("index", Accepts::Only(&index))];
        check_in(
            &executors,
            &json!({"topk": 5, "own__x": 1, "own": {"x": 1}}),
            None,
        );
        check_in(
            &executors,
            &json!({"index__topk": 5}),
            Some("`/search` accepts no parameter `topk`; did you mean `top_k`?"),
        );
    }

    #[test]
    fn parameters_for_executors_of_other_flows_pass_unless_they_look_like_slips() {
        check(&json!({"ranker__top_k": 5}), None);
        check(&json!({"ranker": {"top_k": 5}}), None);
        check(
            &json!({"indx__top_k": 5}),
            Some(
                "parameter `indx__top_k` is for an executor `indx` that is not here; \
                 did you mean `index__top_k`?",
            ),
        );
        check(
            &json!({"indx": {"top_k": 5}}),
            Some(
                "parameter `indx` is for an executor `indx` that is not here; did you mean `index`?",
            ),
        );
        check(
            &json!({"fliter": {"page": 5}}),
            Some("`/search` accepts no parameter `fliter`; did you mean `filter`?"),
        );
        check(&json!({"filter": {"page": 5}}), None);
    }
}
