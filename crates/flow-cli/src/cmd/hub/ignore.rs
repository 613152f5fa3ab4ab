//! The patterns of `.dockerignore`, with Docker's rules.
//!
//! Each line is a pattern of a path in the folder. `*` and `?` stop at a slash, `**` does not. A folder includes everything in
//! it, `!` makes an exception, and the last pattern that matches decides.

/// The patterns of a `.dockerignore`.
#[derive(Debug, Default)]
pub(super) struct Ignore {
    rules: Vec<Rule>,
}

#[derive(Debug)]
struct Rule {
    is_exception: bool,
    parts: Vec<String>,
}

impl Ignore {
    pub(super) fn parse(text: &str) -> Self {
        let lines = text.lines().map(str::trim);
        let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
        Self {
            rules: lines.map(Rule::parse).collect(),
        }
    }

    /// Whether a file is excluded.
    pub(super) fn excludes(&self, path: &[&str]) -> bool {
        let is_match =
            |rule: &&Rule| (1..=path.len()).any(|end| matches(&rule.parts, &path[..end]));
        let last = self.rules.iter().rev().find(is_match);
        last.is_some_and(|rule| !rule.is_exception)
    }

    /// Whether a folder is excluded with everything below it.
    pub(super) fn excludes_folder(&self, path: &[&str]) -> bool {
        let has_exception = |rule: &Rule| rule.is_exception && rule.may_be_below(path);
        self.excludes(path) && !self.rules.iter().any(has_exception)
    }
}

impl Rule {
    fn parse(line: &str) -> Self {
        let (is_exception, pattern) = match line.strip_prefix('!') {
            Some(pattern) => (true, pattern.trim()),
            None => (false, line),
        };
        let parts = pattern.split('/').filter(|it| !it.is_empty() && *it != ".");
        Self {
            is_exception,
            parts: parts.map(str::to_owned).collect(),
        }
    }

    /// Whether a path below `folder` can match.
    fn may_be_below(&self, folder: &[&str]) -> bool {
        let mut pairs = self.parts.iter().zip(folder);
        let any_depth = self.parts.iter().any(|it| it == "**");
        any_depth
            || (self.parts.len() > folder.len()
                && pairs.all(|(part, name)| matches_name(part, name)))
    }
}

fn matches(parts: &[String], path: &[&str]) -> bool {
    match (parts, path) {
        ([], []) => true,
        ([any, rest @ ..], _) if any == "**" => {
            (0..=path.len()).any(|skipped| matches(rest, &path[skipped..]))
        }
        ([part, parts @ ..], [name, path @ ..]) => matches_name(part, name) && matches(parts, path),
        _ => false,
    }
}

/// Whether a name of a path matches a part of a pattern.
fn matches_name(pattern: &str, name: &str) -> bool {
    let mut letters = pattern.chars();
    match letters.next() {
        None => name.is_empty(),
        Some('*') => {
            let rest = letters.as_str();
            let mut ends = name.char_indices().map(|(at, _)| at).chain([name.len()]);
            ends.any(|at| matches_name(rest, &name[at..]))
        }
        Some(letter) => {
            let mut others = name.chars();
            let first = others.next();
            let is_same = first.is_some_and(|first| letter == '?' || letter == first);
            is_same && matches_name(letters.as_str(), others.as_str())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left(text: &str, path: &str) -> bool {
        let path: Vec<&str> = path.split('/').collect();
        Ignore::parse(text).excludes(&path)
    }

    #[test]
    fn the_last_line_that_fits_decides() {
        let only = "*\n!target/release/mine\n";
        assert!(left(only, "src/lib.rs"));
        assert!(left(only, "target/release/other"));
        assert!(!left(only, "target/release/mine"));
        assert!(left("!a\na", "a"));
        assert!(!left("", "a"));
    }

    #[test]
    fn a_folder_matches_everything_in_it_and_stars_stop_at_slashes() {
        assert!(left(".venv", ".venv/bin/python"));
        assert!(left("/a/", "a/b"));
        assert!(left("*.pyc", "a.pyc"));
        assert!(!left("*.pyc", "b/a.pyc"));
        assert!(left("**/*.pyc", "a.pyc"));
        assert!(left("**/*.pyc", "b/c/a.pyc"));
        assert!(left("a?c", "abc"));
        assert!(!left("# a", "a"));
    }

    #[test]
    fn a_folder_is_searched_if_something_in_it_may_match() {
        let ignore = Ignore::parse("*\n!target/*/mine\n");
        assert!(!ignore.excludes_folder(&["target"]));
        assert!(!ignore.excludes_folder(&["target", "release"]));
        assert!(ignore.excludes_folder(&["target", "release", "deps"]));
        assert!(ignore.excludes_folder(&["src"]));
        assert!(!Ignore::parse("*\n!**/x").excludes_folder(&["src"]));
    }
}
