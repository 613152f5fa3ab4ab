//! Spans of values in a file, and the problems that are found there.

use std::fmt;
use std::sync::Arc;

use flow_core::without_passwords;

/// A line and a column of a text, both counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// The line.
    pub line: usize,
    /// The column in characters.
    pub column: usize,
}

impl Position {
    /// The first character of a text.
    pub const START: Self = Self { line: 1, column: 1 };
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// Where a value is written: its file, its position in the text, and its path in the document.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourceSpan {
    /// The file, if it is another one than the flow file itself.
    pub file: Option<Arc<str>>,
    /// The position of the value's first character.
    pub position: Position,
    /// The path in the document, such as `executors.ranker.needs[1]`; empty for the document itself.
    pub path: String,
}

impl SourceSpan {
    /// A span in the flow file itself.
    pub(crate) fn new(position: Position, path: impl Into<String>) -> Self {
        Self {
            file: None,
            position,
            path: path.into(),
        }
    }

    /// Line and column, after the file's name if it is another file.
    fn location(&self) -> String {
        match &self.file {
            Some(file) => format!("{file}:{}", self.position),
            None => self.position.to_string(),
        }
    }
}

/// A value with its span. Two of them are equal if their values are, wherever they are written.
#[derive(Debug, Clone)]
pub(crate) struct Spanned<T> {
    pub(crate) value: T,
    pub(crate) span: SourceSpan,
}

impl<T: PartialEq> PartialEq for Spanned<T> {
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value
    }
}

/// One thing to repair in a file, or, as a warning, to look at.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// Where it is.
    pub span: SourceSpan,
    /// What was expected, and what is written.
    pub message: String,
    /// What to do about it, if that is known.
    pub remedy: Option<String>,
}

impl Problem {
    /// The message may quote what is written, and hides the passwords of URLs.
    pub(crate) fn new(span: &SourceSpan, message: impl Into<String>) -> Self {
        Self {
            span: span.clone(),
            message: without_passwords(&message.into()),
            remedy: None,
        }
    }

    pub(crate) fn remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }

    /// Adds "did you mean" if a known word is close to the one that is written.
    pub(crate) fn suggest(self, word: Option<&str>) -> Self {
        match word {
            Some(word) => self.remedy(format!("did you mean `{word}`?")),
            None => self,
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        match &self.remedy {
            Some(remedy) => write!(f, "; {remedy}"),
            None => Ok(()),
        }
    }
}

/// Problems in the order of the file. They are shown one per line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Problems(Vec<Problem>);

impl Problems {
    /// Sorts problems by their spans and removes duplicates.
    pub(crate) fn sorted(mut problems: Vec<Problem>) -> Self {
        problems.sort();
        problems.dedup();
        Self(problems)
    }
}

impl std::ops::Deref for Problems {
    type Target = [Problem];

    fn deref(&self) -> &[Problem] {
        &self.0
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let location_len = widest(self.iter().map(|it| it.span.location().len()));
        let path_len = widest(self.iter().map(|it| it.span.path.len()));
        for (number, problem) in self.iter().enumerate() {
            let line_end = if number == 0 { "" } else { "\n" };
            let (location, path) = (problem.span.location(), &problem.span.path);
            write!(
                f,
                "{line_end}  {location:location_len$}  {path:path_len$}  {problem}"
            )?;
        }
        Ok(())
    }
}

fn widest(lengths: impl Iterator<Item = usize>) -> usize {
    // One long path must not push all the others off the screen.
    const WIDTH_MAX: usize = 40;
    lengths.max().unwrap_or(0).min(WIDTH_MAX)
}

/// Problems and warnings that were found so far.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Diagnostics {
    pub(crate) problems: Vec<Problem>,
    pub(crate) warnings: Vec<Problem>,
    pub(crate) unknown_keys: Vec<UnknownKey>,
}

/// A key that its mapping does not have. It is a problem, or only a warning where the file is read leniently.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UnknownKey {
    pub(crate) span: SourceSpan,
    pub(crate) key: String,
    /// What the mapping's keys are, such as `an option of an executor`.
    pub(crate) expected: &'static str,
    /// The known key that is closest.
    pub(crate) closest: Option<&'static str>,
}

impl Diagnostics {
    pub(crate) fn problem(&mut self, problem: Problem) {
        self.problems.push(problem);
    }

    pub(crate) fn warn(&mut self, warning: Problem) {
        self.warnings.push(warning);
    }

    /// Adds what was found in another file.
    pub(crate) fn extend_from_file(&mut self, other: Self, file: &Arc<str>) {
        let in_file = |mut problem: Problem| {
            problem.span.file = Some(Arc::clone(file));
            problem
        };
        self.problems
            .extend(other.problems.into_iter().map(in_file));
        self.warnings
            .extend(other.warnings.into_iter().map(in_file));
        let unknown = other.unknown_keys.into_iter().map(|mut key| {
            key.span.file = Some(Arc::clone(file));
            key
        });
        self.unknown_keys.extend(unknown);
    }
}
