//! Whether the executors are there that a request is for: those that its target selects, and those that its parameters
//! name.

use flow_core::closest;
use flow_core::parameters::Accepted;
use regex::Regex;
use serde_json::{Map, Value};

/// Separates a node's name from its own parameter: `enc__top_k`.
const SEPARATOR: &str = "__";

/// A request is for an executor that the flow does not have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnknownExecutor {
    /// The expression of its target selects none.
    #[error("`{expression}` matches no executor; {hint}")]
    Target {
        /// The regular expression.
        expression: String,
        /// What was probably meant, or which executors there are.
        hint: String,
    },
    /// A parameter names it.
    #[error(
        "parameter `{parameter}` is for an executor `{executor}`, which the flow does not have; {hint}"
    )]
    Parameter {
        /// The parameter's name.
        parameter: String,
        /// The executor's name.
        executor: String,
        /// What was probably meant, or which executors there are.
        hint: String,
    },
}

/// Checks that an expression matches the beginning of an executor's name. The gateway reports one that is not valid.
pub(crate) fn check_target(expression: &str, executors: &[&str]) -> Result<(), UnknownExecutor> {
    let Ok(regex) = Regex::new(&format!("^(?:{expression})")) else {
        return Ok(());
    };
    if executors.iter().any(|name| regex.is_match(name)) {
        return Ok(());
    }
    Err(UnknownExecutor::Target {
        expression: expression.to_owned(),
        hint: hint(expression, executors),
    })
}

/// Checks that the executors exist which parameters are for: `enc__top_k: 5`, or `enc: {top_k: 5}`. `accepted` holds the
/// parameters that executors accept, if all of them say so: a mapping may be the value of one.
pub(crate) fn check_parameters(
    parameters: &Map<String, Value>,
    accepted: Option<&Accepted>,
    executors: &[&str],
) -> Result<(), UnknownExecutor> {
    let is_unknown = |executor: &str, value: &Value, is_prefix: bool| {
        if executors.contains(&executor) {
            return false;
        }
        let is_slip = closest(executor, executors.iter().copied()).is_some();
        let nobody_accepts = accepted.is_some_and(|it| !it.contains(executor));
        let may_be_value = accepted.is_some_and(|it| it.contains(executor));
        is_prefix || (value.is_object() && !may_be_value && (is_slip || nobody_accepts))
    };
    for (parameter, value) in parameters {
        let prefix = parameter.split_once(SEPARATOR);
        let prefix = prefix.map(|(name, _)| name).filter(|it| !it.is_empty());
        let executor = prefix.unwrap_or(parameter);
        if is_unknown(executor, value, prefix.is_some()) {
            return Err(UnknownExecutor::Parameter {
                parameter: parameter.clone(),
                executor: executor.to_owned(),
                hint: hint(executor, executors),
            });
        }
    }
    Ok(())
}

fn hint(written: &str, executors: &[&str]) -> String {
    match closest(written, executors.iter().copied()) {
        Some(meant) => format!("did you mean `{meant}`?"),
        None => {
            let names: Vec<String> = executors.iter().map(|it| format!("`{it}`")).collect();
            format!("there are {}", names.join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const EXECUTORS: [&str; 2] = ["encoder", "index"];

    #[test]
    fn a_target_matches_an_executor() {
        let check = |expression: &str, expected: Option<&str>| {
            let checked = check_target(expression, &EXECUTORS);
            let error = checked.err().map(|it| it.to_string());
            assert_eq!(error.as_deref(), expected, "{expression}");
        };
        check("enc", None);
        check("a|ind", None);
        check("", None);
        check("(", None);
        let none = "`nosuch` matches no executor; there are `encoder`, `index`";
        check("nosuch", Some(none));
        let slip = "`indx` matches no executor; did you mean `index`?";
        check("indx", Some(slip));
    }

    #[track_caller]
    fn check(parameters: &Value, accepted: Option<&[&str]>, expected: Option<&str>) {
        let accepted: Option<Accepted> = accepted.map(|it| it.iter().copied().collect());
        let checked = check_parameters(
            parameters.as_object().unwrap(),
            accepted.as_ref(),
            &EXECUTORS,
        );
        let error = checked.err().map(|it| it.to_string());
        assert_eq!(error.as_deref(), expected, "{parameters}");
    }

    #[test]
    fn a_parameter_for_one_executor_names_one_that_there_is() {
        let accepted = &["top_k", "filter"][..];
        check(&json!({"top_k": 1, "any": 2}), Some(accepted), None);
        check(&json!({"index__top_k": 1}), Some(accepted), None);
        check(&json!({"index": {"top_k": 1}}), Some(accepted), None);
        check(&json!({"__private": 1}), Some(accepted), None);
        let text = |parameter: &str, executor: &str, hint: &str| {
            format!(
                "parameter `{parameter}` is for an executor `{executor}`, which the flow does not have; {hint}"
            )
        };
        let slip = text("indx", "indx", "did you mean `index`?");
        check(&json!({"indx": {"top_k": 1}}), Some(accepted), Some(&slip));
        check(&json!({"indx": {"top_k": 1}}), None, Some(&slip));
        let slip = text("indx__top_k", "indx", "did you mean `index`?");
        check(&json!({"indx__top_k": 1}), None, Some(&slip));
        let other = text("ranker", "ranker", "there are `encoder`, `index`");
        check(&json!({"ranker": {"a": 1}}), Some(accepted), Some(&other));
    }

    #[test]
    fn a_mapping_may_be_the_value_of_a_parameter() {
        let filter = json!({"filter": {"page": 1}});
        check(&filter, Some(&["filter"]), None);
        // An executor that does not say what it accepts may accept it.
        check(&filter, None, None);
    }
}
