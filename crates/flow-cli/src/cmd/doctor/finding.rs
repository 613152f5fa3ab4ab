//! Findings, and how they are reported.

use serde::Serialize;
use serde_json::{Value, json};

use crate::table::Table;

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Level {
    /// As it should be, or not needed.
    Ok,
    /// It may slow flows down, or stop them later.
    Warning,
    /// It keeps flows, or this one, from running.
    Problem,
}

/// One thing that was examined.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Finding {
    pub(super) subject: String,
    pub(super) level: Level,
    pub(super) text: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) remedy: Option<String>,
}

impl Finding {
    pub(super) fn ok(subject: impl Into<String>, text: impl Into<String>) -> Self {
        Self {
            subject: subject.into(),
            level: Level::Ok,
            text: text.into(),
            remedy: None,
        }
    }

    pub(super) fn warning(
        subject: impl Into<String>,
        text: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self {
            level: Level::Warning,
            remedy: Some(remedy.into()),
            ..Self::ok(subject, text)
        }
    }

    pub(super) fn problem(
        subject: impl Into<String>,
        text: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self {
            level: Level::Problem,
            ..Self::warning(subject, text, remedy)
        }
    }
}

impl Level {
    fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Problem => "problem",
        }
    }
}

/// A row for each finding, its remedy after the text.
pub(super) fn table(findings: &[Finding]) -> Table {
    let row = |it: &Finding| {
        let remedy = it.remedy.as_ref().map(|remedy| format!("; {remedy}"));
        let text = format!("{}{}", it.text, remedy.unwrap_or_default());
        vec![it.level.word().to_owned(), it.subject.clone(), text]
    };
    Table {
        head: None,
        rows: findings.iter().map(row).collect(),
    }
}

/// The numbers of problems and warnings.
pub(super) fn summary(findings: &[Finding]) -> String {
    let count = |level| findings.iter().filter(|it| it.level == level).count();
    let counted = |count: usize, what: &str| match count {
        0 => format!("no {what}s"),
        1 => format!("1 {what}"),
        _ => format!("{count} {what}s"),
    };
    let problems = counted(count(Level::Problem), "problem");
    format!("{problems}, {}", counted(count(Level::Warning), "warning"))
}

pub(super) fn to_json(findings: &[Finding]) -> Value {
    let count = |level| findings.iter().filter(|it| it.level == level).count();
    json!({
        "problems": count(Level::Problem),
        "warnings": count(Level::Warning),
        "findings": findings,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::Painter;

    #[test]
    fn a_finding_is_a_row_with_its_remedy() {
        let findings = [
            Finding::ok("memory", "8 GiB"),
            Finding::problem("port", "is taken", "stop it"),
            Finding::warning("clock", "slow", "choose another"),
        ];
        let text = table(&findings).text(Painter::off(), None);
        let lines: Vec<&str> = text.lines().collect();
        let expected = [
            "  ok        memory   8 GiB",
            "  problem   port     is taken; stop it",
            "  warning   clock    slow; choose another",
        ];
        assert_eq!(lines, expected);
        assert_eq!(summary(&findings), "1 problem, 1 warning");
        assert_eq!(summary(&findings[..1]), "no problems, no warnings");
        let json = to_json(&findings);
        assert_eq!(
            (&json["problems"], &json["warnings"]),
            (&1.into(), &1.into())
        );
        assert_eq!(json["findings"][1]["level"], "problem");
        assert_eq!(json["findings"][1]["remedy"], "stop it");
    }
}
