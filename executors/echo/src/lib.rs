//! The smallest executor there is: every document goes back as it came.

use flow_executor::{CallError, Document, Endpoints, Executor, LoadContext, LoadError, Parameters};
use serde::Deserialize;

/// Gives documents back untouched; see its `README.md`.
#[derive(Debug)]
pub struct Echo;

/// Echo takes no settings, and says so if it is given one.
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
    fn documents_come_back_as_they_went() {
        let echo = testing::load::<Echo>(&json!({})).unwrap();
        let docs = [Document::from_text("a"), Document::from_text("b")];
        let back = echo
            .call("/anything", docs.iter().cloned().collect())
            .unwrap();
        assert_eq!(&*back, docs.as_slice());
    }

    #[test]
    fn a_setting_it_does_not_have_is_an_error() {
        assert!(testing::load::<Echo>(&json!({"device": "cpu"})).is_err());
    }
}
