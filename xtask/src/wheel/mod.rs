//! `cargo xtask wheel`: the Python package `flow-serve` as a wheel, with the program `flow` in it.
//!
//! maturin makes it, in a virtual environment of its own. The program is a script of the wheel: `pip install` puts it
//! beside the interpreter.

mod check;

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::Context;
use clap::ValueEnum;

use crate::repository::root;
use crate::{dist, setup, shell};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Cargo profile: `release` for fast programs, `dev` for fast builds.
    #[arg(long, value_enum, default_value_t = Profile::Release)]
    profile: Profile,

    /// Folder for the wheel.
    #[arg(long, default_value = "target/wheels")]
    out: PathBuf,

    /// Check the wheel's platform tag with auditwheel, install it in a new virtual environment, and use it there.
    #[arg(long)]
    check: bool,

    /// Make the source distribution as well; with `--check`, also build a wheel of it.
    #[arg(long)]
    sdist: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Profile {
    Release,
    Dev,
}

impl Profile {
    /// The name of cargo's folder.
    fn folder(self) -> &'static str {
        match self {
            Self::Release => "release",
            Self::Dev => "debug",
        }
    }

    fn flag(self) -> Option<&'static str> {
        (self == Self::Release).then_some("--release")
    }
}

/// Where maturin looks for files of the wheel that are not in the package; `pyproject.toml` names it.
const DATA: &str = "crates/flow-py/data";

/// The folder of documents in [`DATA`]. Without its first part, it is that of the environment.
const DOCUMENTS: &str = "data/share/doc/flow-serve";

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let maturin = setup::wheel_tool("maturin")?;
    shell::run(
        shell::cargo()
            .args(["build", "--package", "flow-cli", "--bin", "flow"])
            .args(args.profile.flag()),
    )?;
    put_program(args.profile)?;
    dist::write_licences("flow-py", &root().join(DATA).join(DOCUMENTS))?;
    let maturin = |task: &str| {
        let mut command = Command::new(&maturin);
        command.current_dir(root());
        command.args([task, "--manifest-path", "crates/flow-py/Cargo.toml"]);
        command.arg("--out").arg(&args.out);
        command
    };
    shell::run(maturin("build").args(args.profile.flag()))?;
    let out = root().join(&args.out);
    if args.check {
        check::check(&check::newest(&out, "whl")?)?;
    }
    if args.sdist {
        shell::run(&mut maturin("sdist"))?;
        if args.check {
            check::check_source(&check::newest(&out, "gz")?)?;
        }
    }
    Ok(())
}

/// Copies the program to where maturin takes it from.
fn put_program(profile: Profile) -> anyhow::Result<()> {
    let own = std::env::current_exe().context("cannot find the path of xtask itself")?;
    let target = own
        .ancestors()
        .nth(2)
        .context("xtask lies in no target folder")?;
    let program = target.join(profile.folder()).join("flow");
    let scripts = root().join(DATA).join("scripts");
    fs::create_dir_all(&scripts)?;
    fs::copy(&program, scripts.join("flow"))
        .with_context(|| format!("cannot copy `{}`", program.display()))?;
    Ok(())
}
