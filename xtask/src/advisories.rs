//! `cargo xtask advisories`: checks the crates in `Cargo.lock` for known vulnerabilities, with cargo-deny.
//!
//! The advisories come from RustSec's database. If it cannot be fetched, the command uses a copy in the repository and prints
//! the copy's date.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, bail};
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;

use crate::repository::{root, target};
use crate::shell;

/// The database that cargo-deny fetches by default.
const DATABASE: &str = "https://github.com/RustSec/advisory-db";

/// What of the database is kept: advisories, and under which licences they are.
const KEPT: &[&str] = &["crates", "rust", "support.toml", "LICENSE.txt", "LICENSES"];

/// Time for fetching the database, after which the copy is used.
const FETCH_MAX: Duration = Duration::from_secs(120);

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Check with the copy in the repository, without a network.
    #[arg(long)]
    offline: bool,

    /// Replace the copy in the repository by the newest state of the database, without checking anything.
    #[arg(long, conflicts_with = "offline")]
    update: bool,

    /// The git repository that `--update` copies.
    #[arg(long, default_value = DATABASE, requires = "update")]
    from: String,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    if args.update {
        return update(&args.from);
    }
    if !args.offline {
        match fetch() {
            Ok(()) => return check(&root().join("deny.toml"), None),
            Err(error) => eprintln!("RustSec's database could not be fetched: {error:#}"),
        }
    }
    let database = unpack()?;
    let date = shell::output(git(&database).args(["log", "-1", "--format=%cs, %cr"]))?;
    eprintln!(
        "SKIPPED newer advisories: the copy in the repository is used, which is of {}",
        date.trim()
    );
    check(&offline_config()?, Some(&database))
}

/// Fetches the newest database.
fn fetch() -> anyhow::Result<()> {
    let mut command = Command::new("timeout");
    command.arg(FETCH_MAX.as_secs().to_string());
    command.args(["cargo", "deny", "fetch", "db"]);
    shell::output(command.current_dir(root())).map(drop)
}

/// Fails if an advisory violates the configuration, and lists unmaintained crates at any depth. With `database`, git reads the
/// advisories from that folder.
fn check(config: &Path, database: Option<&Path>) -> anyhow::Result<()> {
    let deny = |config: &Path, options: &[&str]| {
        let mut command = shell::cargo();
        command.args(["deny", "--config"]).arg(config);
        command.arg("check").args(options);
        if database.is_none() {
            // It has been fetched.
            command.arg("--disable-fetch");
        }
        command.arg("advisories");
        if let Some(database) = database {
            command.env("GIT_CONFIG_COUNT", "1");
            command.env(
                "GIT_CONFIG_KEY_0",
                format!("url.file://{}.insteadOf", database.display()),
            );
            command.env("GIT_CONFIG_VALUE_0", DATABASE);
        }
        shell::run(&mut command)
    };
    deny(config, &[])?;
    let all = with_all_unmaintained(config)?;
    deny(&all, &["--warn", "unmaintained", "--hide-inclusion-graph"])
}

/// A copy of the configuration that finds unmaintained crates at any depth.
fn with_all_unmaintained(config: &Path) -> anyhow::Result<PathBuf> {
    let (own, all) = (r#"unmaintained = "workspace""#, r#"unmaintained = "all""#);
    written(
        "deny-unmaintained.toml",
        &replaced(&read(config)?, own, all)?,
    )
}

/// A copy of `deny.toml` that keeps its database apart from the one that was fetched from the network.
fn offline_config() -> anyhow::Result<PathBuf> {
    let section = "[advisories]\n";
    let path = folder().join("fetched");
    let with_path = format!("{section}db-path = {path:?}\n");
    let config = read(&root().join("deny.toml"))?;
    written("deny.toml", &replaced(&config, section, &with_path)?)
}

fn replaced(text: &str, old: &str, new: &str) -> anyhow::Result<String> {
    let line = old.trim_end();
    anyhow::ensure!(
        text.matches(old).count() == 1,
        "`deny.toml` must have one line `{line}`"
    );
    Ok(text.replace(old, new))
}

/// Unpacks the copy as a git repository, which cargo-deny expects. Its only commit has the date of the copy.
fn unpack() -> anyhow::Result<PathBuf> {
    let database = folder().join("copy");
    remove(&database)?;
    let copy = copy();
    let open = || {
        let file =
            File::open(&copy).with_context(|| format!("cannot read `{}`", copy.display()))?;
        Ok::<_, anyhow::Error>(tar::Archive::new(GzDecoder::new(file)))
    };
    let mut newest = 0;
    for entry in open()?.entries()? {
        newest = newest.max(entry?.header().mtime()?);
    }
    open()?
        .unpack(&database)
        .with_context(|| format!("cannot unpack `{}`", copy.display()))?;
    shell::output(git(&database).args(["init", "--quiet", "--initial-branch", "main"]))?;
    shell::output(git(&database).args(["add", "--all", "--force"]))?;
    let date = format!("{newest} +0000");
    let mut commit = git(&database);
    commit.env("GIT_COMMITTER_DATE", &date);
    commit.env("GIT_AUTHOR_DATE", &date);
    // The settings and hooks of the user do not count.
    commit.env("GIT_CONFIG_GLOBAL", "/dev/null");
    for setting in [
        "user.name=RustSec",
        "user.email=",
        "core.hooksPath=/dev/null",
    ] {
        commit.args(["-c", setting]);
    }
    shell::output(commit.args(["commit", "--quiet", "--message", "The advisories"]))?;
    Ok(database)
}

fn remove(folder: &Path) -> anyhow::Result<()> {
    match folder.exists() {
        true => fs::remove_dir_all(folder)
            .with_context(|| format!("cannot remove `{}`", folder.display())),
        false => Ok(()),
    }
}

/// Replaces the copy by the newest state of the database.
fn update(from: &str) -> anyhow::Result<()> {
    let upstream = folder().join("upstream");
    remove(&upstream)?;
    let mut clone = Command::new("git");
    clone
        .args(["clone", "--quiet", "--depth", "1", from])
        .arg(&upstream);
    shell::run(&mut clone)?;
    let mut archive = git(&upstream);
    let archive = archive.args(["archive", "--format=tar", "HEAD"]).args(KEPT);
    let archive = archive.output().context("cannot start `git`")?;
    if !archive.status.success() {
        bail!(
            "`git archive` failed: {}",
            String::from_utf8_lossy(&archive.stderr)
        );
    }
    // Replaced as a whole, when it is complete.
    let new = folder().join("new.tar.gz");
    let file = File::create(&new).with_context(|| format!("cannot write `{}`", new.display()))?;
    let mut file = GzEncoder::new(file, Compression::best());
    std::io::copy(&mut archive.stdout.as_slice(), &mut file)?;
    file.finish()?;
    fs::copy(&new, copy()).with_context(|| format!("cannot write `{}`", copy().display()))?;
    Ok(())
}

fn git(repository: &Path) -> Command {
    let mut git = Command::new("git");
    git.arg("-C").arg(repository);
    git
}

/// The copy of the database.
fn copy() -> PathBuf {
    root().join("xtask/advisories.tar.gz")
}

/// Where everything that this command makes lies.
fn folder() -> PathBuf {
    target("advisories")
}

fn read(path: &Path) -> anyhow::Result<String> {
    fs::read_to_string(path).with_context(|| format!("cannot read `{}`", path.display()))
}

fn written(name: &str, text: &str) -> anyhow::Result<PathBuf> {
    fs::create_dir_all(folder())
        .with_context(|| format!("cannot make `{}`", folder().display()))?;
    let path = folder().join(name);
    fs::write(&path, text).with_context(|| format!("cannot write `{}`", path.display()))?;
    Ok(path)
}
