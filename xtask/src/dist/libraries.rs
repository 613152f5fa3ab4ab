//! The shared libraries that a program needs, and the Debian packages that contain them.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, bail};

use crate::shell;

/// Debian's packages that the program needs, as a package's field `Depends` has them.
pub(super) fn packages(program: &Path) -> anyhow::Result<Vec<String>> {
    let mut readelf = Command::new("readelf");
    readelf
        .args(["--wide", "--dynamic", "--version-info"])
        .arg(program);
    let text = shell::output(readelf.env("LC_ALL", "C"))
        .context("`readelf` of binutils lists the libraries that the program needs")?;
    packages_of(&text)
}

fn packages_of(readelf: &str) -> anyhow::Result<Vec<String>> {
    let mut packages = Vec::new();
    for library in readelf.lines().filter_map(needed) {
        let package = match library {
            "libc.so.6" | "libm.so.6" => format!("libc6 (>= {})", glibc(readelf)?),
            _ if library.starts_with("ld-linux") => continue,
            "libgcc_s.so.1" => "libgcc-s1 (>= 4.2)".to_owned(),
            _ => bail!("the program needs `{library}`, which no package is known for"),
        };
        if !packages.contains(&package) {
            packages.push(package);
        }
    }
    packages.sort();
    Ok(packages)
}

/// The library of a line such as ` 0x1 (NEEDED)  Shared library: [libc.so.6]`.
fn needed(line: &str) -> Option<&str> {
    let (_, library) = line.split_once("(NEEDED)")?;
    let (_, library) = library.split_once('[')?;
    Some(library.split_once(']')?.0)
}

/// The oldest glibc that has all functions that the program calls.
fn glibc(readelf: &str) -> anyhow::Result<String> {
    let versions = readelf.split("GLIBC_").skip(1).filter_map(version);
    let (major, minor) = versions
        .max()
        .context("the program names no version of glibc")?;
    Ok(format!("{major}.{minor}"))
}

/// The two numbers at the beginning of a text.
fn version(text: &str) -> Option<(u32, u32)> {
    let end = text.find(|it: char| !it.is_ascii_digit() && it != '.');
    let mut numbers = text[..end.unwrap_or(text.len())].split('.').map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const READELF: &str = "
 0x0000000000000001 (NEEDED)             Shared library: [libgcc_s.so.1]
 0x0000000000000001 (NEEDED)             Shared library: [libm.so.6]
 0x0000000000000001 (NEEDED)             Shared library: [libc.so.6]
 0x0000000000000001 (NEEDED)             Shared library: [ld-linux-x86-64.so.2]
  0x00b0:   Name: GLIBC_2.9  Flags: none  Version: 19
  0x00c0:   Name: GLIBC_2.34  Flags: none  Version: 12
  0x00d0:   Name: GLIBC_2.2.5  Flags: none  Version: 2
";

    #[test]
    fn libraries_become_packages_with_the_newest_version_that_is_called() {
        let packages = packages_of(READELF).unwrap();
        assert_eq!(packages, ["libc6 (>= 2.34)", "libgcc-s1 (>= 4.2)"]);
    }

    #[test]
    fn a_static_program_needs_nothing() {
        assert_eq!(
            packages_of("There is no dynamic section in this file.").unwrap(),
            [""; 0]
        );
    }

    #[test]
    fn a_library_without_a_known_package_is_named() {
        let error =
            packages_of(" 0x1 (NEEDED) Shared library: [libpython3.11.so.1.0]").unwrap_err();
        assert!(
            error.to_string().contains("`libpython3.11.so.1.0`"),
            "{error}"
        );
    }
}
