//! The smallest executor: it returns every document unchanged.

#![warn(missing_docs)]

use flow_executor::{
    CallError, Document, Endpoints, Executor, LoadContext, LoadError, Parameters, ShortCalls,
};
use serde::Deserialize;

/// Returns documents unchanged; see its `README.md`.
#[derive(Debug)]
pub struct Echo;

/// Echo has no options; any option is an error.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct With {}

impl Executor for Echo {
    type With = With;

    fn load(_: With, _: &LoadContext) -> Result<Self, LoadError> {
        Ok(Self)
    }

    fn endpoints() -> Endpoints<Self> {
        Endpoints::new().default_batch(Self::echo)
    }

    fn short_calls(&self) -> ShortCalls<Self> {
        // It copies nothing, so that it returns at once whatever a request contains.
        ShortCalls::where_read().of_any_size()
    }
}

impl Echo {
    fn echo(&mut self, _: &mut [Document], _: &Parameters) -> Result<(), CallError> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use flow_executor::testing;
    use serde_json::json;

    use super::*;

    #[test]
    fn documents_are_returned_unchanged() {
        let echo = testing::load::<Echo>(&json!({})).unwrap();
        let docs = [Document::from_text("a"), Document::from_text("b")];
        let back = echo
            .call("/anything", docs.iter().cloned().collect())
            .unwrap();
        assert_eq!(&*back, docs.as_slice());
    }

    #[test]
    fn an_option_is_an_error() {
        assert!(testing::load::<Echo>(&json!({"device": "cpu"})).is_err());
    }
}
