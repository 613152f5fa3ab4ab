//! Which files of a folder an image is built from: all but those that `.dockerignore` leaves out.
//!
//! As Docker reads it: each line is a pattern of a path from the folder, `*` and `?` stop at a slash and `**` does
//! not, a folder stands for all that is in it, `!` takes back, and the last line that fits decides.

/// The patterns of a `.dockerignore`.
#[derive(Debug, Default)]
pub(super) struct Ignore {
    rules: Vec<Rule>,
}

#[derive(Debug)]
struct Rule {
    takes_back: bool,
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

    /// Whether a file is left out.
    pub(super) fn leaves_out(&self, path: &[&str]) -> bool {
        let fitting = |rule: &&Rule| (1..=path.len()).any(|end| fits(&rule.parts, &path[..end]));
        let last = self.rules.iter().rev().find(fitting);
        last.is_some_and(|rule| !rule.takes_back)
    }

    /// Whether nothing below a folder can be wanted.
    pub(super) fn leaves_out_folder(&self, path: &[&str]) -> bool {
        let may_take_back = |rule: &Rule| rule.takes_back && rule.may_be_below(path);
        self.leaves_out(path) && !self.rules.iter().any(may_take_back)
    }
}

impl Rule {
    fn parse(line: &str) -> Self {
        let (takes_back, pattern) = match line.strip_prefix('!') {
            Some(pattern) => (true, pattern.trim()),
            None => (false, line),
        };
        let parts = pattern.split('/').filter(|it| !it.is_empty() && *it != ".");
        Self {
            takes_back,
            parts: parts.map(str::to_owned).collect(),
        }
    }

    /// Whether a path below `folder` can fit.
    fn may_be_below(&self, folder: &[&str]) -> bool {
        let mut pairs = self.parts.iter().zip(folder);
        let any_depth = self.parts.iter().any(|it| it == "**");
        any_depth || (self.parts.len() > folder.len() && pairs.all(|(part, name)| word(part, name)))
    }
}

fn fits(parts: &[String], path: &[&str]) -> bool {
    match (parts, path) {
        ([], []) => true,
        ([any, rest @ ..], _) if any == "**" => {
            (0..=path.len()).any(|skipped| fits(rest, &path[skipped..]))
        }
        ([part, parts @ ..], [name, path @ ..]) => word(part, name) && fits(parts, path),
        _ => false,
    }
}

/// One name of a path against one part of a pattern.
fn word(pattern: &str, name: &str) -> bool {
    let mut letters = pattern.chars();
    match letters.next() {
        None => name.is_empty(),
        Some('*') => {
            let rest = letters.as_str();
            let mut ends = name.char_indices().map(|(at, _)| at).chain([name.len()]);
            ends.any(|at| word(rest, &name[at..]))
        }
        Some(letter) => {
            let mut others = name.chars();
            let first = others.next();
            let is_same = first.is_some_and(|first| letter == '?' || letter == first);
            is_same && word(letters.as_str(), others.as_str())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left(text: &str, path: &str) -> bool {
        let path: Vec<&str> = path.split('/').collect();
        Ignore::parse(text).leaves_out(&path)
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
    fn a_folder_stands_for_all_in_it_and_stars_stop_at_slashes() {
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
    fn a_folder_is_looked_into_if_something_in_it_may_be_wanted() {
        let ignore = Ignore::parse("*\n!target/*/mine\n");
        assert!(!ignore.leaves_out_folder(&["target"]));
        assert!(!ignore.leaves_out_folder(&["target", "release"]));
        assert!(ignore.leaves_out_folder(&["target", "release", "deps"]));
        assert!(ignore.leaves_out_folder(&["src"]));
        assert!(!Ignore::parse("*\n!**/x").leaves_out_folder(&["src"]));
    }
}
