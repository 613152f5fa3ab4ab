//! Which file of a crate imports which other: read from paths that start at `crate`, `super`, `self` or a child
//! module.
//!
//! A path counts for the file that defines the item, not for a file that only re-exports it. For the same
//! reason a re-export is an import only where its own file uses the name too.

use std::collections::{BTreeMap, BTreeSet};

use crate::tidy::source::Token;
use crate::tidy::tree::{File, Tree};

/// Longest chain of re-exports that is followed; they may lead in circles.
const RE_EXPORTS_MAX: usize = 16;

/// The files of one crate that are compiled into programs.
#[derive(Debug, Default)]
pub(super) struct Crate<'t> {
    modules: BTreeMap<Path, Module<'t>>,
}

/// A module's path from the crate's root.
type Path = Vec<String>;

#[derive(Debug)]
struct Module<'t> {
    file: &'t File,
    uses: Vec<Use>,
    /// Other paths in the code, from the crate's root.
    paths: Vec<Path>,
    /// Names that are defined or used anywhere in the file, besides its imports.
    names: BTreeSet<&'t str>,
}

/// One name that a file imports.
#[derive(Debug)]
struct Use {
    /// From the crate's root.
    path: Path,
    /// The name in this file; `*` for all.
    name: String,
    is_re_export: bool,
}

/// Every crate of the tree, by its folder.
pub(super) fn crates(tree: &Tree) -> BTreeMap<&str, Crate<'_>> {
    let mut crates: BTreeMap<&str, Crate<'_>> = BTreeMap::new();
    for file in tree.sources().filter(|file| !file.is_test()) {
        if let Some((folder, within)) = file.path.split_once("/src/") {
            let path = module_path(within);
            let of_folder = crates.entry(folder).or_default();
            of_folder.modules.insert(path, Module::empty(file));
        }
    }
    for of_folder in crates.values_mut() {
        of_folder.read();
    }
    crates
}

/// `pool/names.rs` is `pool::names`; the roots are `lib.rs`, and `main.rs` as `main`.
fn module_path(within: &str) -> Path {
    let path = within.trim_end_matches(".rs");
    let path = path.strip_suffix("/mod").unwrap_or(path);
    let is_root = path == "lib" || path == "mod";
    let parts = path.split('/').filter(|_| !is_root);
    parts.map(str::to_owned).collect()
}

impl<'t> Crate<'t> {
    fn read(&mut self) {
        // A program without a library has its modules below `main.rs`.
        if !self.modules.contains_key(&Path::new())
            && let Some(main) = self.modules.remove(&vec!["main".to_owned()])
        {
            self.modules.insert(Path::new(), main);
        }
        let known: BTreeSet<Path> = self.modules.keys().cloned().collect();
        for (path, module) in &mut self.modules {
            let reader = Reader {
                module: path,
                known: &known,
            };
            reader.read(module);
        }
    }

    /// For each file, the files that it imports.
    pub(super) fn imports(&self) -> BTreeMap<&'t str, BTreeSet<&'t str>> {
        let of_module = |module: &Module<'t>| {
            let uses = module.uses.iter().filter(|it| module.needs(it));
            let paths = uses.map(|it| &it.path).chain(&module.paths);
            let files = paths.map(|path| self.definition(path, 0));
            files
                .flatten()
                .filter(|file| *file != module.file.path)
                .collect()
        };
        let modules = self.modules.values();
        modules
            .map(|module| (module.file.path.as_str(), of_module(module)))
            .collect()
    }

    /// The file that defines the item at this path.
    fn definition(&self, path: &[String], re_exports: usize) -> Option<&'t str> {
        let mut depth = 0;
        while depth < path.len() && self.modules.contains_key(&path[..=depth]) {
            depth += 1;
        }
        let module = self.modules.get(&path[..depth])?;
        let Some(name) = path.get(depth) else {
            return Some(&module.file.path);
        };
        let imported = module.uses.iter().find_map(|it| {
            let rest = if it.name == "*" {
                &path[depth..]
            } else {
                &path[depth + 1..]
            };
            let target = [it.path.as_slice(), rest].concat();
            let leads_on = it.name == *name || (it.name == "*" && self.defines(&it.path, name));
            leads_on.then_some(target)
        });
        match imported {
            Some(target) if re_exports < RE_EXPORTS_MAX => self.definition(&target, re_exports + 1),
            _ => Some(&module.file.path),
        }
    }

    fn defines(&self, module: &[String], name: &str) -> bool {
        let module = self.modules.get(module);
        module.is_some_and(|module| module.names.contains(name))
    }
}

impl<'t> Module<'t> {
    fn empty(file: &'t File) -> Self {
        Self {
            file,
            uses: Vec::new(),
            paths: Vec::new(),
            names: BTreeSet::new(),
        }
    }

    /// Whether the import is for this file, and not only for those that import it from here.
    fn needs(&self, import: &Use) -> bool {
        !import.is_re_export || self.names.contains(import.name.as_str())
    }
}

/// Reads the paths of one file.
struct Reader<'r> {
    module: &'r Path,
    known: &'r BTreeSet<Path>,
}

impl Reader<'_> {
    fn read(&self, module: &mut Module<'_>) {
        let code = module.file.code();
        let mut at = 0;
        while at < code.len() {
            if code[at].text == "use" {
                at = self.read_use(module, code, at);
            } else {
                at = self.read_path(module, code, at);
            }
        }
    }

    /// Reads a `use` statement and returns where it ends.
    fn read_use<'t>(&self, module: &mut Module<'t>, code: &'t [Token], at: usize) -> usize {
        let end = code[at..].iter().position(|token| token.text == ";");
        let end = at + end.unwrap_or(code.len() - at);
        let is_re_export = is_public(&code[..at]);
        let words: Vec<&str> = code[at + 1..end]
            .iter()
            .map(|token| token.text.as_str())
            .collect();
        let mut leaves = Vec::new();
        flatten(&words, &[], &mut leaves);
        for (path, name) in leaves {
            if let Some(path) = self.absolute(&path) {
                module.uses.push(Use {
                    path,
                    name: name.to_owned(),
                    is_re_export,
                });
            }
        }
        end + 1
    }

    /// Reads a path, if one starts here, and returns where it ends.
    fn read_path<'t>(&self, module: &mut Module<'t>, code: &'t [Token], at: usize) -> usize {
        let mut path = vec![code[at].text.as_str()];
        let mut end = at + 1;
        while end + 1 < code.len() && code[end].text == "::" && is_name(&code[end + 1].text) {
            path.push(&code[end + 1].text);
            end += 2;
        }
        if is_name(path[0]) {
            module.names.insert(path[0]);
        }
        if path.len() > 1
            && let Some(path) = self.absolute(&path)
        {
            module.paths.push(path);
        }
        end
    }

    /// The path from the crate's root; none if it leads out of the crate.
    fn absolute(&self, path: &[&str]) -> Option<Path> {
        let mut base = self.module.clone();
        let mut rest = path;
        match *path.first()? {
            "crate" => {
                base.clear();
                rest = &path[1..];
            }
            "self" => rest = &path[1..],
            "super" => {}
            child => {
                base.push(child.to_owned());
                return self.known.contains(&base).then(|| {
                    base.extend(path[1..].iter().map(|&it| it.to_owned()));
                    base
                });
            }
        }
        while let ["super", more @ ..] = rest {
            base.pop();
            rest = more;
        }
        base.extend(rest.iter().map(|&it| it.to_owned()));
        Some(base)
    }
}

/// Whether a `use` after this code is a re-export: `pub`, or `pub(crate)` and its like.
fn is_public(before: &[Token]) -> bool {
    let words: Vec<&str> = before
        .iter()
        .rev()
        .take(4)
        .map(|it| it.text.as_str())
        .collect();
    matches!(words.as_slice(), ["pub", ..] | [")", _, "(", "pub"])
}

/// The single paths of a `use` tree, each with the name that it has afterwards.
fn flatten<'w>(words: &[&'w str], before: &[&'w str], into: &mut Vec<(Vec<&'w str>, &'w str)>) {
    match words {
        [] => {}
        ["{", inner @ .., "}"] => {
            for part in split(inner) {
                flatten(part, before, into);
            }
        }
        ["*"] => into.push((before.to_vec(), "*")),
        ["self"] if !before.is_empty() => {
            into.push((before.to_vec(), before[before.len() - 1]));
        }
        [name] => into.push(([before, &[*name]].concat(), name)),
        [name, "as", alias] => into.push(([before, &[*name]].concat(), alias)),
        ["::", rest @ ..] => flatten(rest, before, into),
        [name, "::", rest @ ..] => flatten(rest, &[before, &[*name]].concat(), into),
        _ => {}
    }
}

/// The parts between commas that are not inside braces.
fn split<'s, 'w>(words: &'s [&'w str]) -> Vec<&'s [&'w str]> {
    let mut depth = 0;
    words
        .split(|word| {
            match *word {
                "{" => depth += 1,
                "}" => depth -= 1,
                _ => {}
            }
            depth == 0 && *word == ","
        })
        .collect()
}

fn is_name(text: &str) -> bool {
    text.starts_with(|it: char| it.is_alphabetic() || it == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `crates/a/src/<from>` imports, of these files.
    #[track_caller]
    fn check(files: &[(&str, &str)], from: &str, expected: &[&str]) {
        let files: Vec<(String, &str)> = files
            .iter()
            .map(|(path, text)| (format!("crates/a/src/{path}"), *text))
            .collect();
        let files: Vec<(&str, &str)> = files
            .iter()
            .map(|(path, text)| (path.as_str(), *text))
            .collect();
        let tree = Tree::of(&files);
        let imports = crates(&tree)["crates/a"].imports();
        let found = &imports[format!("crates/a/src/{from}").as_str()];
        let found: Vec<&str> = found
            .iter()
            .map(|path| path.trim_start_matches("crates/a/src/"))
            .collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn imports_and_paths_in_code_count() {
        let b = ("b.rs", "");
        check(&[("a.rs", "use crate::b::B;"), b], "a.rs", &["b.rs"]);
        check(&[("a.rs", "use crate::{b, c::D};"), b], "a.rs", &["b.rs"]);
        check(&[("a.rs", "use super::b;"), b], "a.rs", &["b.rs"]);
        check(
            &[("a.rs", "fn f() { crate::b::g() }"), b],
            "a.rs",
            &["b.rs"],
        );
        check(&[("a.rs", "use tokio::b::B;"), b], "a.rs", &[]);
        check(
            &[("a.rs", "#[cfg(test)] mod t { use crate::b::B; }"), b],
            "a.rs",
            &[],
        );
    }

    #[test]
    fn children_are_modules_of_their_parent() {
        let files = [
            ("a.rs", "mod b; fn f() { b::g() }"),
            ("a/b.rs", "use super::A;"),
        ];
        check(&files, "a.rs", &["a/b.rs"]);
        check(&files, "a/b.rs", &["a.rs"]);
    }

    #[test]
    fn a_re_export_leads_to_the_definition() {
        let files = [
            ("lib.rs", "mod a; mod b; pub use a::A;"),
            ("a.rs", "struct A; pub use inner::B;"),
            ("a/inner.rs", "struct B;"),
            ("b.rs", "use crate::A; use crate::a::B;"),
        ];
        check(&files, "b.rs", &["a.rs", "a/inner.rs"]);
        check(&files, "lib.rs", &[]);
        check(&files, "a.rs", &[]);
    }

    #[test]
    fn a_re_export_that_its_file_uses_is_an_import() {
        let files = [("a.rs", "pub use b::B; fn f(b: B) {}"), ("a/b.rs", "")];
        check(&files, "a.rs", &["a/b.rs"]);
    }

    #[test]
    fn everything_of_a_module_leads_to_its_definitions() {
        let files = [
            ("a.rs", "pub use b::*; pub use c::*;"),
            ("a/b.rs", "struct B;"),
            ("a/c.rs", "struct C;"),
            ("d.rs", "use crate::a::C;"),
        ];
        check(&files, "d.rs", &["a/c.rs"]);
    }
}
