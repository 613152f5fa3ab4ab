//! Parses queries from JSON. Each error has its position in the query.

use regex::{Regex, RegexBuilder};
use serde_json::{Map, Value};

use super::condition::{BadQuery, Compare, Operand, Order, Path, Test};
use crate::closest;

/// Maximum nesting of conditions; each level takes stack when it is parsed and when it is evaluated.
const DEPTH_MAX: usize = 64;

/// Memory that a compiled expression may take.
const REGEX_SIZE_MAX: usize = 1 << 20;

const COMBINE: [&str; 3] = ["$and", "$or", "$not"];
const COMPARE: [&str; 11] = [
    "$eq", "$neq", "$gt", "$gte", "$lt", "$lte", "$in", "$nin", "$regex", "$size", "$exists",
];

/// A position in the query.
#[derive(Clone, Copy)]
struct At<'a> {
    outer: Option<&'a At<'a>>,
    step: Step<'a>,
    depth: usize,
}

#[derive(Clone, Copy)]
enum Step<'a> {
    Query,
    Key(&'a str),
    Item(usize),
}

impl<'a> At<'a> {
    fn step(&'a self, step: Step<'a>) -> Result<Self, BadQuery> {
        if self.depth == DEPTH_MAX {
            return Err(self.bad(format!(
                "more than {DEPTH_MAX} conditions inside each other"
            )));
        }
        Ok(Self {
            outer: Some(self),
            step,
            depth: self.depth + 1,
        })
    }

    fn path(&self) -> String {
        let outer = self.outer.map(Self::path).unwrap_or_default();
        match self.step {
            Step::Query => outer,
            Step::Key(key) if outer.is_empty() => key.to_owned(),
            Step::Key(key) => format!("{outer}.{key}"),
            Step::Item(place) => format!("{outer}[{place}]"),
        }
    }

    fn bad(&self, message: impl Into<String>) -> BadQuery {
        BadQuery {
            path: self.path(),
            message: message.into(),
            suggestion: None,
        }
    }
}

/// What the entries of a map apply to: documents, or one of their fields.
type Entry<'e> = &'e dyn Fn(&At<'_>, &str, &Value) -> Result<Test, BadQuery>;

pub(super) fn query(json: &Value) -> Result<Test, BadQuery> {
    let at = At {
        outer: None,
        step: Step::Query,
        depth: 0,
    };
    all(&at, json, &condition)
}

/// A map of conditions, or a list of such maps, which must all be true.
fn all(at: &At<'_>, json: &Value, entry: Entry<'_>) -> Result<Test, BadQuery> {
    let mut tests = each(at, json, entry)?;
    Ok(match tests.pop() {
        Some(only) if tests.is_empty() => only,
        last => Test::All(tests.into_iter().chain(last).collect()),
    })
}

fn each(at: &At<'_>, json: &Value, entry: Entry<'_>) -> Result<Vec<Test>, BadQuery> {
    match json {
        Value::Object(map) => entries(at, map, entry),
        Value::Array(items) => {
            let item = |(place, item)| all(&at.step(Step::Item(place))?, item, entry);
            items.iter().enumerate().map(item).collect()
        }
        _ => Err(at.bad(format!(
            "expected conditions, a map or a list of maps, found `{json}`"
        ))),
    }
}

fn entries(at: &At<'_>, map: &Map<String, Value>, entry: Entry<'_>) -> Result<Vec<Test>, BadQuery> {
    let read = |(key, value): (&String, _)| {
        let at = at.step(Step::Key(key))?;
        match key.as_str() {
            "$and" => all(&at, value, entry),
            "$or" => each(&at, value, entry).map(Test::Any),
            "$not" => Ok(Test::Not(Box::new(all(&at, value, entry)?))),
            _ => entry(&at, key, value),
        }
    };
    map.iter().map(read).collect()
}

/// `field: {…}`
fn condition(at: &At<'_>, key: &str, value: &Value) -> Result<Test, BadQuery> {
    if COMPARE.contains(&key) {
        return Err(at.bad(format!(
            "`{key}` compares a field: write `field: {{{key}: …}}`"
        )));
    }
    if key.starts_with('$') {
        return Err(unknown(at, key, &COMBINE));
    }
    let path = path(at, key)?;
    match value {
        Value::Object(operators) if !operators.is_empty() => {
            let compare = |at: &At<'_>, key: &str, value: &Value| {
                Ok(Test::Field(path.clone(), compare(at, key, value)?))
            };
            all(at, value, &compare)
        }
        _ => Err(at.bad(format!(
            "expected operators, such as `{{$eq: …}}`, found `{value}`"
        ))),
    }
}

fn path(at: &At<'_>, text: &str) -> Result<Path, BadQuery> {
    let steps: Vec<String> = text.split("__").map(str::to_owned).collect();
    if steps.iter().any(String::is_empty) {
        return Err(at.bad(format!(
            "`{text}` is not a path: write names joined by `__`, such as `tags__lang`"
        )));
    }
    // Names of tags may contain a dot, names of fields do not.
    if steps[0].contains('.') {
        return Err(BadQuery {
            suggestion: Some(text.replace('.', "__")),
            ..at.bad(format!("`{}` is not a field", steps[0]))
        });
    }
    Ok(Path(steps))
}

fn compare(at: &At<'_>, operator: &str, value: &Value) -> Result<Compare, BadQuery> {
    Ok(match operator {
        "$eq" => Compare::Equal(operand(at, value)?),
        "$neq" => Compare::NotEqual(operand(at, value)?),
        "$gt" => Compare::Order(Order::Greater, ordered(at, value)?),
        "$gte" => Compare::Order(Order::GreaterOrEqual, ordered(at, value)?),
        "$lt" => Compare::Order(Order::Less, ordered(at, value)?),
        "$lte" => Compare::Order(Order::LessOrEqual, ordered(at, value)?),
        "$in" => Compare::In(holder(at, value)?),
        "$nin" => Compare::NotIn(holder(at, value)?),
        "$regex" => Compare::Regex(regex(at, value)?),
        "$size" => Compare::Size(size(at, value)?),
        "$exists" => Compare::Exists(flag(at, value)?),
        _ => return Err(unknown(at, operator, &COMPARE)),
    })
}

fn unknown(at: &At<'_>, word: &str, likely: &[&str]) -> BadQuery {
    let known = likely.iter().chain(&COMPARE).chain(&COMBINE).copied();
    let suggestion = match word {
        // The name in databases, which would otherwise be taken for a misspelt `$in`.
        "$ne" => Some("$neq"),
        _ => closest(&format!("${}", word.trim_start_matches('$')), known),
    };
    BadQuery {
        suggestion: suggestion.map(str::to_owned),
        ..at.bad(format!("`{word}` is not an operator"))
    }
}

/// A value, or `{path}` for another field of the document.
fn operand(at: &At<'_>, value: &Value) -> Result<Operand, BadQuery> {
    let Value::String(text) = value else {
        return Ok(Operand::Value(value.clone()));
    };
    let Some(inside) = text.strip_prefix('{') else {
        return Ok(Operand::Value(value.clone()));
    };
    let name = inside.strip_suffix('}').map(str::trim);
    let is_name = |name: &&str| name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    match name.filter(is_name) {
        Some(name) => path(at, name).map(Operand::Field),
        None => Err(at.bad(format!(
            "`{text}` begins like another field, which is written `{{tags__title}}`"
        ))),
    }
}

fn ordered(at: &At<'_>, value: &Value) -> Result<Operand, BadQuery> {
    match value {
        Value::Null | Value::Object(_) => {
            Err(at.bad(format!("expected a number or a text, found `{value}`")))
        }
        _ => operand(at, value),
    }
}

fn holder(at: &At<'_>, value: &Value) -> Result<Operand, BadQuery> {
    match value {
        Value::Array(_) | Value::String(_) => operand(at, value),
        _ => Err(at.bad(format!("expected a list, found `{value}`"))),
    }
}

fn regex(at: &At<'_>, value: &Value) -> Result<Regex, BadQuery> {
    let Value::String(text) = value else {
        return Err(at.bad(format!("expected a regular expression, found `{value}`")));
    };
    let built = RegexBuilder::new(text).size_limit(REGEX_SIZE_MAX).build();
    built.map_err(|error| {
        // The library prints the expression and marks the position; its last line is the reason.
        let error = error.to_string();
        let reason = error.lines().last().unwrap_or_default();
        let reason = reason.trim_start_matches("error: ").to_lowercase();
        let reason = reason.trim_end_matches('.');
        at.bad(format!(
            "`{text}` is not a valid regular expression: {reason}"
        ))
    })
}

fn size(at: &At<'_>, value: &Value) -> Result<u64, BadQuery> {
    let size = value.as_u64();
    size.ok_or_else(|| at.bad(format!("expected a whole number from 0, found `{value}`")))
}

fn flag(at: &At<'_>, value: &Value) -> Result<bool, BadQuery> {
    let flag = value.as_bool();
    flag.ok_or_else(|| at.bad(format!("expected `true` or `false`, found `{value}`")))
}
