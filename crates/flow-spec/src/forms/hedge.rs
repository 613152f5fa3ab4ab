//! When a request is also sent to another replica: `95%` of calls, or after a time.

use std::num::NonZeroU8;

use super::form::{Shape, ValueForm};
use super::scalar::{reject, scalar};
use super::time::time;
use crate::diagnostics::Diagnostics;
use crate::values::Hedge;
use crate::yaml::{Scalar, YamlNode};

pub(crate) const HEDGE: ValueForm<Hedge> = ValueForm::new(Shape::Hedge, hedge);

const WANTED: &str = "a time (`50ms`), or a percentage of calls from `50%` to `99%`";

fn hedge(node: &YamlNode, diagnostics: &mut Diagnostics) -> Option<Hedge> {
    let written = scalar(node).and_then(|it: &Scalar| it.text.trim().strip_suffix('%'));
    if let Some(percent) = written {
        let percent = percent.trim().parse().ok();
        let percent = percent.filter(|percent: &NonZeroU8| (50..100).contains(&percent.get()));
        let percent = percent.map(Hedge::Percentile);
        return percent.or_else(|| reject(node, WANTED, diagnostics));
    }
    match time(node, diagnostics)? {
        Some(after) if !after.is_zero() => Some(Hedge::After(after)),
        _ => reject(node, WANTED, diagnostics),
    }
}
