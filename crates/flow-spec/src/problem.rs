//! A fault in a flow file, and how a list of them reads.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

/// Where in a text something stands, both counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// Line, the first is 1.
    pub line: usize,
    /// Column in characters, the first is 1.
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

/// Where in a document something stands.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// The file, if it is another than the one that was asked for.
    pub file: Option<Arc<str>>,
    /// Where in the text.
    pub position: Position,
    /// Path in the document, such as `executors.ranker.needs[1]`; empty for the document itself.
    pub path: String,
}

impl Place {
    /// A place in the file that was asked for.
    pub(crate) fn new(position: Position, path: impl Into<String>) -> Self {
        Self {
            file: None,
            position,
            path: path.into(),
        }
    }

    /// Line and column, after the file's name if it is another one.
    fn whereabouts(&self) -> String {
        match &self.file {
            Some(file) => format!("{file}:{}", self.position),
            None => self.position.to_string(),
        }
    }
}

/// One thing to repair in a file, or, as a warning, to look at.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// Where it stands.
    pub place: Place,
    /// What was expected, and what came.
    pub message: String,
    /// What to do about it, where that can be guessed.
    pub remedy: Option<String>,
}

impl Problem {
    pub(crate) fn new(place: &Place, message: impl Into<String>) -> Self {
        Self {
            place: place.clone(),
            message: message.into(),
            remedy: None,
        }
    }

    pub(crate) fn remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }

    /// Adds "did you mean" where one of the known words is close to what was written.
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

/// Problems in the order of the file, each on a line of its own when shown.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Problems(Vec<Problem>);

impl Problems {
    /// Orders problems by where they stand and leaves out what is said twice.
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
        let position_len = widest(self.iter().map(|it| it.place.whereabouts().len()));
        let path_len = widest(self.iter().map(|it| it.place.path.len()));
        for (number, problem) in self.iter().enumerate() {
            let line_end = if number == 0 { "" } else { "\n" };
            let (position, path) = (problem.place.whereabouts(), &problem.place.path);
            write!(
                f,
                "{line_end}  {position:position_len$}  {path:path_len$}  {problem}"
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

/// What was found so far while a file is read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Findings {
    pub(crate) problems: Vec<Problem>,
    pub(crate) warnings: Vec<Problem>,
}

impl Findings {
    pub(crate) fn problem(&mut self, problem: Problem) {
        self.problems.push(problem);
    }

    pub(crate) fn warn(&mut self, warning: Problem) {
        self.warnings.push(warning);
    }

    /// Takes what was found in another file.
    pub(crate) fn extend_from_file(&mut self, other: Self, file: &Arc<str>) {
        let placed = |mut problem: Problem| {
            problem.place.file = Some(Arc::clone(file));
            problem
        };
        self.problems.extend(other.problems.into_iter().map(placed));
        self.warnings.extend(other.warnings.into_iter().map(placed));
    }
}

/// Why a text is not YAML.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {}, column {}: {message}", .position.line, .position.column)]
pub struct SyntaxError {
    /// Where it went wrong.
    pub position: Position,
    /// What went wrong.
    pub message: String,
}

/// Why a file did not become a [`Flow`](crate::Flow) or an [`ExecutorConfig`](crate::ExecutorConfig).
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    /// It is not YAML at all.
    #[error("`{}` is not valid YAML", .path.display())]
    Syntax {
        /// The file.
        path: PathBuf,
        /// Where and why.
        #[source]
        source: SyntaxError,
    },
    /// All of its problems: nobody should repair a file one run at a time.
    #[error("`{}` has {}\n{problems}", .path.display(), counted(.problems.len()))]
    Invalid {
        /// The file.
        path: PathBuf,
        /// What to repair.
        problems: Problems,
    },
}

fn counted(problems: usize) -> String {
    if problems == 1 {
        "1 problem".to_owned()
    } else {
        format!("{problems} problems")
    }
}
