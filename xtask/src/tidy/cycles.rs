//! Files of a crate do not import each other in circles.
//!
//! A circle means that none of its files can be read, tested or moved without the others.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::tidy::finding::Finding;
use crate::tidy::imports;
use crate::tidy::tree::Tree;

/// Crates that still have circular imports. Take a crate out of the list when it has none.
const NOT_YET: &[&str] = &[];

pub(super) type Imports<'t> = BTreeMap<&'t str, BTreeSet<&'t str>>;

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let crates = imports::crates(tree);
    let crates = crates
        .iter()
        .map(|(folder, files)| (*folder, files.imports()));
    crates
        .filter_map(|(folder, imports)| check_crate(folder, &imports, NOT_YET.contains(&folder)))
        .collect()
}

fn check_crate(folder: &str, imports: &Imports<'_>, is_exempt: bool) -> Option<Finding> {
    let finding = |path: &str, what: String| Finding {
        path: path.to_owned(),
        line: 1,
        what,
    };
    match largest_circle(imports) {
        Some((circle, size)) if !is_exempt => {
            let shown: Vec<&str> = circle.iter().map(|path| short(folder, path)).collect();
            let what = format!(
                "{size} files import each other in circles: {} → {}",
                shown.join(" → "),
                shown[0]
            );
            Some(finding(circle[0], what))
        }
        None if is_exempt => {
            let what = format!("`{folder}` has no circular imports now: remove it from NOT_YET");
            Some(finding("xtask/src/tidy/cycles.rs", what))
        }
        _ => None,
    }
}

fn short<'p>(folder: &str, path: &'p str) -> &'p str {
    path.trim_start_matches(folder).trim_start_matches("/src/")
}

/// A shortest circle among the largest group of files that all reach each other, and the group's size.
pub(super) fn largest_circle<'t>(imports: &Imports<'t>) -> Option<(Vec<&'t str>, usize)> {
    let reachable: BTreeMap<&str, BTreeSet<&str>> = imports
        .keys()
        .map(|file| (*file, reachable(imports, file)))
        .collect();
    let group = |file: &&'t str| {
        let reached = reachable[file].iter();
        reached
            .filter(|other| reachable[*other].contains(file))
            .count()
    };
    let file = imports
        .keys()
        .copied()
        .rev()
        .max_by_key(|file| group(file))?;
    let size = group(&file);
    (size > 0).then(|| (shortest_circle(imports, file), size))
}

/// Every file that the given one imports, directly or through others.
fn reachable<'t>(imports: &Imports<'t>, file: &str) -> BTreeSet<&'t str> {
    let mut reached = BTreeSet::new();
    let mut open: Vec<&str> = imports[file].iter().copied().collect();
    while let Some(next) = open.pop() {
        if reached.insert(next) {
            open.extend(imports.get(next).into_iter().flatten());
        }
    }
    reached
}

/// A shortest way from the file back to itself; there is one.
fn shortest_circle<'t>(imports: &Imports<'t>, file: &'t str) -> Vec<&'t str> {
    let mut ways = VecDeque::from([vec![file]]);
    let mut seen = BTreeSet::new();
    while let Some(way) = ways.pop_front() {
        let last = way[way.len() - 1];
        for &next in imports.get(last).into_iter().flatten() {
            if next == file {
                return way;
            }
            if seen.insert(next) {
                ways.push_back([way.as_slice(), &[next]].concat());
            }
        }
    }
    vec![file]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn expect(files: &[(&str, &str)], is_exempt: bool, expected: Option<&str>) {
        let tree = Tree::of(files);
        let imports = imports::crates(&tree)["crates/a"].imports();
        let found = check_crate("crates/a", &imports, is_exempt);
        assert_eq!(found.map(|it| it.what).as_deref(), expected);
    }

    const CIRCLE: &[(&str, &str)] = &[
        ("crates/a/src/lib.rs", "mod a; mod b; mod c;"),
        ("crates/a/src/a.rs", "use crate::b::B;"),
        ("crates/a/src/b.rs", "use crate::c::C;"),
        ("crates/a/src/c.rs", "use crate::a::A;"),
    ];

    #[test]
    fn a_circle_is_reported_with_its_files() {
        let what = "3 files import each other in circles: a.rs → b.rs → c.rs → a.rs";
        expect(CIRCLE, false, Some(what));
        expect(CIRCLE, true, None);
    }

    #[test]
    fn a_chain_is_not_a_circle() {
        let chain = &CIRCLE[..3];
        expect(chain, false, None);
        let what = "`crates/a` has no circular imports now: remove it from NOT_YET";
        expect(chain, true, Some(what));
    }
}
