//! `unsafe`: few places, and each with its reason.

use crate::tidy::finding::Finding;
use crate::tidy::source::lines_with;
use crate::tidy::tree::{File, Tree};

/// Arithmetic on machine registers, and a benchmark whose peers have no other interface.
const ALLOWED: &[&str] = &[
    "crates/flow-amx-emulator/",
    "crates/flow-cuda/",
    "crates/flow-cuda-emulator/",
    "crates/flow-kernels/",
    "tests/load/products/",
];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    tree.sources().flat_map(check_file).collect()
}

fn check_file(file: &File) -> Vec<Finding> {
    let Ok(source) = &file.source else {
        return Vec::new();
    };
    let allowed = ALLOWED.iter().any(|place| file.path.starts_with(place));
    let lines = lines_with(&source.code, "unsafe");
    let findings = lines.into_iter().filter_map(|line| {
        if !allowed {
            Some(file.finding(
                line,
                "`unsafe` belongs in flow-kernels, flow-cuda and their emulators only",
            ))
        } else if !has_reason(&file.text, line) {
            Some(file.finding(line, "`unsafe` without a SAFETY paragraph above it"))
        } else {
            None
        }
    });
    findings.collect()
}

/// Whether the comments and attributes right above a line, or the line itself, give the reason.
fn has_reason(text: &str, line: usize) -> bool {
    let lines: Vec<&str> = text.lines().take(line).collect();
    let Some((own, above)) = lines.split_last() else {
        return false;
    };
    let above = above.iter().rev().map(|line| line.trim_start());
    let mut above = above.take_while(|line| line.starts_with("//") || line.starts_with("#["));
    is_reason(own) || above.any(is_reason)
}

fn is_reason(line: &str) -> bool {
    line.contains("// SAFETY: ") || line.contains("/// # Safety")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn expect(path: &str, code: &str, findings: usize) {
        assert_eq!(
            check(&Tree::of(&[(path, code)])).len(),
            findings,
            "{path}:\n{code}"
        );
    }

    #[test]
    fn unsafe_stays_where_it_belongs() {
        let code = "fn f() {\n    // SAFETY: nothing is done\n    unsafe {}\n}";
        expect("crates/flow-kernels/src/amx.rs", code, 0);
        expect("crates/flow-models/src/weights.rs", code, 1);
        expect("crates/flow-net/src/pool.rs", code, 1);
    }

    #[test]
    fn each_unsafe_has_its_reason_above_it() {
        let path = "crates/flow-kernels/src/amx.rs";
        expect(path, "fn f() {\n    unsafe {}\n}", 1);
        expect(
            path,
            "// SAFETY: too far away\n\nfn f() {\n    unsafe {}\n}",
            1,
        );
        expect(
            path,
            "// SAFETY: of many\n// lines\n#[inline]\nunsafe fn f() {}",
            0,
        );
        expect(
            path,
            "/// Multiplies.\n///\n/// # Safety\n/// AVX2 is there.\nunsafe fn f() {}",
            0,
        );
        expect(path, "#![deny(unsafe_code)]\n// unsafe\nfn f() {}", 0);
    }
}
