//! The prompts of models: texts that a model puts before others, chosen by name.

use serde_json::{Map, Value};

use super::api_error::ApiError;
use super::models::ServedModel;
use crate::shortened::shortened;

/// The parameter of an encoder that names a prompt.
const PROMPT_NAME: &str = "prompt_name";

/// Longest unknown name that an error repeats, in bytes.
const NAME_LEN_MAX: usize = 100;

/// What texts are in a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TextRole {
    Query,
    Document,
}

impl TextRole {
    /// The names of prompts for such texts, as sentence-transformers looks for them.
    fn prompts(self) -> &'static [&'static str] {
        match self {
            Self::Query => &["query"],
            Self::Document => &["document", "passage", "corpus"],
        }
    }
}

/// Asks the model for the prompt of this name.
pub(crate) fn choose(
    parameters: &mut Map<String, Value>,
    model: &ServedModel,
    name: &str,
) -> Result<(), ApiError> {
    // An executor that reports nothing of its model may know the name.
    let known = model.info.as_ref().map(|info| &info.prompts);
    if let Some(known) = known
        && !known.iter().any(|it| it == name)
    {
        let names: Vec<String> = known.iter().map(|it| format!("`{it}`")).collect();
        let there = match names.is_empty() {
            true => "it has none".to_owned(),
            false => format!("it has {}", names.join(", ")),
        };
        let name = shortened(name, NAME_LEN_MAX);
        let message = format!("the model has no prompt `{name}`; {there}");
        return Err(ApiError::invalid(PROMPT_NAME, message));
    }
    parameters.insert(PROMPT_NAME.to_owned(), name.into());
    Ok(())
}

/// Asks the model for its prompt for texts of a role. Returns whether it reports one.
pub(crate) fn choose_for_role(
    parameters: &mut Map<String, Value>,
    model: &ServedModel,
    role: TextRole,
) -> bool {
    choose_first(parameters, model, role.prompts())
}

/// Asks the model for the first of these prompts that it reports. Returns whether it reports one.
pub(crate) fn choose_first(
    parameters: &mut Map<String, Value>,
    model: &ServedModel,
    names: &[&str],
) -> bool {
    let found = first_of(model, names);
    if let Some(name) = found {
        parameters.insert(PROMPT_NAME.to_owned(), name.into());
    }
    found.is_some()
}

/// Whether the model reports a prompt for texts of a role.
pub(crate) fn has_prompt_for(model: &ServedModel, role: TextRole) -> bool {
    first_of(model, role.prompts()).is_some()
}

fn first_of<'n>(model: &ServedModel, names: &[&'n str]) -> Option<&'n str> {
    let known = model.info.as_ref().map_or(&[][..], |info| &info.prompts);
    let mut names = names.iter().copied();
    names.find(|name| known.iter().any(|it| it == name))
}

#[cfg(test)]
mod tests {
    use flow_core::{DocArrayVersion, ModelInfo};
    use serde_json::json;

    use super::*;

    fn model(prompts: Option<&[&str]>) -> ServedModel {
        let info = prompts.map(|prompts| ModelInfo {
            prompts: prompts.iter().map(|&it| it.to_owned()).collect(),
            ..ModelInfo::default()
        });
        ServedModel {
            id: "m".to_owned(),
            executor: "encoder".to_owned(),
            endpoint: "/encode".to_owned(),
            info,
            version: DocArrayVersion::default(),
        }
    }

    #[test]
    fn a_prompt_is_one_of_the_models() {
        let choose = |prompts, name| {
            let mut parameters = Map::new();
            choose(&mut parameters, &model(prompts), name).map(|()| Value::Object(parameters))
        };
        let chosen = json!({"prompt_name": "query"});
        assert_eq!(choose(Some(&["query"]), "query"), Ok(chosen.clone()));
        assert_eq!(choose(None, "query"), Ok(chosen));
        let error = choose(Some(&["query"]), "passage").unwrap_err();
        assert_eq!(error.field, Some("prompt_name"));
        assert!(error.message.contains("it has `query`"), "{error:?}");
        let error = choose(Some(&[]), "query").unwrap_err();
        assert!(error.message.contains("it has none"), "{error:?}");
    }

    #[test]
    fn a_role_chooses_the_prompt_that_a_model_has_for_it() {
        let choose = |prompts: &[&str], role| {
            let mut parameters = Map::new();
            let found = choose_for_role(&mut parameters, &model(Some(prompts)), role);
            assert_eq!(found, !parameters.is_empty());
            parameters
                .remove(PROMPT_NAME)
                .map(|it| it.as_str().unwrap().to_owned())
        };
        let both = ["passage", "query"];
        assert_eq!(choose(&both, TextRole::Query).as_deref(), Some("query"));
        assert_eq!(
            choose(&both, TextRole::Document).as_deref(),
            Some("passage")
        );
        assert_eq!(choose(&["sts"], TextRole::Query), None);
        assert_eq!(choose(&[], TextRole::Document), None);
    }
}
