//! `cargo xtask faults`: what clients see while networks, machines and resources fail, and when it is over.
//!
//! The program `faults` of the tests (`tests/src/bin/faults/`) makes load and faults on machines that are network namespaces.
//! [`table`] makes a table of what it wrote, and this file builds, runs, and puts the table into the book.

mod table;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};

use crate::bench::Report;
use crate::repository::root;
use crate::shell;
use crate::test::PACKAGES;

/// The page with the table, between the lines [`BEGIN`] and [`END`].
const PAGE: &str = "docs/src/faults.md";
const BEGIN: &str = "<!-- The table: cargo xtask faults --write -->\n";
const END: &str = "<!-- The end of the table -->";

/// Programs without which there are no machines or no faults.
const PROGRAMS: &[&str] = &[
    "unshare", "nsenter", "mount", "ip", "prlimit", "python3", "id",
];

/// What a run leaves.
const FILES: [&str; 4] = ["faults.csv", "requests.csv", "gateway.log", "faults.md"];

/// Cables between machines are made of it.
const TUN: &str = "/dev/net/tun";

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Inject only faults whose name or place contains this text.
    #[arg(long)]
    only: Option<String>,

    /// Write the table into the book.
    #[arg(long, conflicts_with = "only")]
    write: bool,

    /// Folder for the results; by default a new one in tests/load/runs/.
    #[arg(long)]
    out: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    if let Some(reason) = lack()? {
        bail!("faults cannot be made here: {reason}");
    }
    let mut build = shell::cargo();
    build.arg("build").args(PACKAGES);
    // The same selection as that of the tests: another one would build all dependencies once more.
    shell::run(build.args(["--bins", "--tests", "--lib"]))?;
    let out = match &args.out {
        Some(folder) => folder.clone(),
        None => Report::open()?.folder().join("faults"),
    };
    fs::create_dir_all(&out)?;
    for file in FILES {
        // A run that ends early must not be taken for the one before it.
        drop(fs::remove_file(out.join(file)));
    }
    make_faults(&out, args.only.as_deref())?;
    let read = |name: &str| fs::read_to_string(out.join(name)).context(format!("no `{name}`"));
    let table = table::table(&read("faults.csv")?, &read("requests.csv")?)?;
    fs::write(out.join("faults.md"), &table)?;
    println!("{table}");
    if args.write {
        let page = root().join(PAGE);
        let text = fs::read_to_string(&page)?;
        let text = replaced(&text, &table).with_context(|| format!("`{PAGE}` has no place"))?;
        fs::write(page, text)?;
    }
    Ok(())
}

/// What this machine lacks.
fn lack() -> anyhow::Result<Option<String>> {
    for program in PROGRAMS {
        let mut look = Command::new("sh");
        if shell::output(look.args(["-c", &format!("command -v {program}")])).is_err() {
            return Ok(Some(format!("there is no program `{program}`")));
        }
    }
    if shell::output(Command::new("id").arg("-u"))?.trim() != "0" {
        return Ok(Some("network namespaces need root".to_owned()));
    }
    let lacks_tun = !Path::new(TUN).exists();
    Ok(
        lacks_tun
            .then(|| format!("there is no `{TUN}`, of which cables between machines are made")),
    )
}

/// Runs the program of the tests in namespaces of its own. They end with it, and so does all that is in them.
fn make_faults(out: &Path, only: Option<&str>) -> anyhow::Result<()> {
    let target = std::env::var_os("CARGO_TARGET_DIR");
    let target = target.map_or_else(|| root().join("target"), PathBuf::from);
    let mut command = Command::new("unshare");
    command
        .current_dir(root())
        .env("FLOW_BIN", target.join("debug/flow"))
        .args(["--net", "--mount", "--pid", "--mount-proc"])
        .args(["--fork", "--kill-child"])
        .arg(target.join("debug/faults"))
        .arg(std::path::absolute(out)?)
        .args(only);
    shell::run(&mut command)
}

/// The page with another table. `None` if it has no place for one.
fn replaced(page: &str, table: &str) -> Option<String> {
    let (head, rest) = page.split_once(BEGIN)?;
    let (_, tail) = rest.split_once(END)?;
    Some(format!("{head}{BEGIN}\n{table}\n{END}{tail}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_a_place_for_the_table() {
        let page = fs::read_to_string(root().join(PAGE)).unwrap();
        let page = replaced(&page, "new\n").unwrap();
        assert!(page.contains(&format!("{BEGIN}\nnew\n\n{END}")), "{page}");
    }
}
