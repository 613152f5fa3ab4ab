//! A Debian package (`.deb`), written without Debian's tools and without root.
//!
//! It is an `ar` archive of three files: the format's version, `control.tar.gz` about the package, and `data.tar.gz` with its files.

use md5::{Digest, Md5};

use super::archive::{File, Files, ar, gzip, tar_gz};
use super::contents::{Contents, VERSION};
use super::sbom::date;

/// The name of the package, which is that of the Python package, too.
pub(super) const NAME: &str = "flow-serve";

/// Where the package's documents are installed.
const DOCUMENTS: &str = "usr/share/doc/flow-serve";

/// Where the completions for bash, zsh and fish are installed.
const COMPLETIONS: [&str; 3] = [
    "usr/share/bash-completion/completions/flow",
    "usr/share/zsh/vendor-completions/_flow",
    "usr/share/fish/vendor_completions.d/flow.fish",
];

const MAINTAINER: &str = "The authors of flow <flow-rs@users.noreply.github.com>";

const COPYRIGHT: &str = include_str!("debian/copyright");

/// What Debian's checker `lintian` would report, and why that is right.
const OVERRIDES: &str = include_str!("debian/lintian-overrides");

const UNIT: &str = include_str!("debian/flow@.service");

/// A flow file that the service `flow@encode` serves. Changes to it survive an upgrade.
const CONFIGURED: &str = "encode.yml";

/// The package for one architecture.
#[derive(Debug)]
pub(super) struct Package<'a> {
    pub(super) contents: &'a Contents,
    /// Debian's name of the architecture.
    pub(super) architecture: &'a str,
    pub(super) depends: &'a [String],
    /// The time of all files, in seconds since 1970.
    pub(super) time: u64,
}

impl Package<'_> {
    pub(super) fn file_name(&self) -> String {
        format!("{NAME}_{VERSION}_{}.deb", self.architecture)
    }

    pub(super) fn write(&self) -> std::io::Result<Vec<u8>> {
        let files = self.files()?;
        let control = tar_gz(&self.control_files(&files), "./", self.time)?;
        let data = tar_gz(&files, "./", self.time)?;
        let members: [(&str, &[u8]); 3] = [
            ("debian-binary", b"2.0\n"),
            ("control.tar.gz", &control),
            ("data.tar.gz", &data),
        ];
        Ok(ar(&members, self.time))
    }

    /// The files by the paths where they are installed.
    fn files(&self) -> std::io::Result<Files> {
        let mut files = self.documents()?;
        let mut add = |path: &str, file: File| files.insert(path.to_owned(), file);
        add("usr/bin/flow", File::program(self.contents.program.clone()));
        add("usr/lib/systemd/system/flow@.service", File::data(UNIT));
        add(
            &format!("usr/share/lintian/overrides/{NAME}"),
            File::data(OVERRIDES),
        );
        for (path, script) in COMPLETIONS.iter().zip(&self.contents.completions) {
            add(path, File::data(script.as_str()));
        }
        for (name, page) in &self.contents.pages {
            let page = File::data(gzip(page)?);
            add(&format!("usr/share/man/man1/{name}.gz"), page);
        }
        for (name, flow) in &self.contents.flows {
            let flow = File::data(flow.as_slice());
            if name == CONFIGURED {
                add(&format!("etc/flow/{name}"), flow.clone());
            }
            add(&format!("{DOCUMENTS}/examples/{name}"), flow);
        }
        Ok(files)
    }

    /// What is for reading only.
    fn documents(&self) -> std::io::Result<Files> {
        let changelog = debian_changelog(self.time);
        let documents: [(&str, &[u8]); 5] = [
            ("README.md", &self.contents.readme),
            ("CHANGELOG.md", &self.contents.changelog),
            (
                "THIRD-PARTY-LICENSES.txt",
                self.contents.third_party.as_bytes(),
            ),
            ("flow.cdx.json", self.contents.sbom.as_bytes()),
            ("changelog", changelog.as_bytes()),
        ];
        let mut files = Files::new();
        for (name, bytes) in documents {
            let path = format!("{DOCUMENTS}/{name}.gz");
            files.insert(path, File::data(gzip(bytes)?));
        }
        files.insert(format!("{DOCUMENTS}/copyright"), File::data(COPYRIGHT));
        Ok(files)
    }

    fn control_files(&self, files: &Files) -> Files {
        let mut sums = String::new();
        let mut configured = String::new();
        let mut bytes = 0;
        for (path, file) in files {
            bytes += file.bytes.len();
            if path.starts_with("etc/") {
                configured.push_str(&format!("/{path}\n"));
            }
            // Not for safety: Debian's tools find files with it that were damaged on disk.
            let sum = Md5::digest(&file.bytes);
            sums.push_str(&format!("{sum:x}  {path}\n"));
        }
        [
            ("control", self.control(bytes)),
            ("conffiles", configured),
            ("md5sums", sums),
        ]
        .map(|(name, text)| (name.to_owned(), File::data(text)))
        .into()
    }

    /// What Debian's tools show of the package, and what it needs.
    fn control(&self, bytes: usize) -> String {
        let Self {
            architecture,
            depends,
            ..
        } = self;
        let kilobytes = bytes.div_ceil(1024);
        let depends = match depends {
            [] => String::new(),
            depends => format!("Depends: {}\n", depends.join(", ")),
        };
        format!(
            "Package: {NAME}\nVersion: {VERSION}\nArchitecture: {architecture}\nMaintainer: {MAINTAINER}\n\
             Installed-Size: {kilobytes}\n{depends}Suggests: python3\nSection: net\nPriority: optional\n\
             Homepage: https://github.com/flow-rs/flow\n\
             Description: serves pipelines of machine-learning executors\n \
             One YAML file describes the steps of a pipeline, such as splitting texts,\n \
             turning them into vectors and searching an index. The program starts a\n \
             process for each step and gives clients one address for gRPC, HTTP and\n \
             WebSocket. It reads the flow files of Jina and speaks its protocol.\n \
             .\n \
             The service flow@NAME serves the file /etc/flow/NAME.yml.\n"
        )
    }
}

/// A changelog in Debian's format. What changed is in our own.
fn debian_changelog(time: u64) -> String {
    format!(
        "{NAME} ({VERSION}) stable; urgency=medium\n\n  * The changes are in CHANGELOG.md.gz.\n\n -- {MAINTAINER}  {}\n",
        mail_date(time)
    )
}

/// A time as e-mails write it, such as `Mon, 23 Nov 2026 08:55:25 +0000`.
fn mail_date(time: u64) -> String {
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ];
    let (days, second) = (time / 86_400, time % 86_400);
    let (year, month, day) = date(days);
    let weekday = DAYS[(days % 7) as usize];
    let month = MONTHS[(month - 1) as usize];
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{weekday}, {day:02} {month} {year} {hour:02}:{minute:02}:{second:02} +0000")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contents() -> Contents {
        Contents {
            program: b"\x7fELF".to_vec(),
            pages: vec![("flow.1".to_owned(), b"NAME\n".to_vec())],
            completions: ["bash", "zsh", "fish"].map(str::to_owned),
            flows: vec![("encode.yml".to_owned(), b"jtype: Flow\n".to_vec())],
            readme: Vec::new(),
            changelog: Vec::new(),
            licence: Vec::new(),
            third_party: String::new(),
            sbom: String::new(),
        }
    }

    fn with_package(check: impl FnOnce(&Package<'_>)) {
        check(&Package {
            contents: &contents(),
            architecture: "arm64",
            depends: &["libc6 (>= 2.34)".to_owned()],
            time: 1_795_424_125,
        });
    }

    #[test]
    fn the_package_says_what_it_is_and_what_it_needs() {
        with_package(|package| {
            assert_eq!(
                package.file_name(),
                format!("flow-serve_{VERSION}_arm64.deb")
            );
            let control = package.control(2049);
            for line in [
                "Package: flow-serve\n",
                "Architecture: arm64\n",
                "Installed-Size: 3\n",
                "Depends: libc6 (>= 2.34)\n",
            ] {
                assert!(control.contains(line), "{line}: {control}");
            }
        });
    }

    #[test]
    fn only_the_flow_file_in_etc_is_configuration_and_all_files_have_sums() {
        with_package(|package| {
            let files = package.files().unwrap();
            let control = package.control_files(&files);
            assert_eq!(control["conffiles"].bytes, b"/etc/flow/encode.yml\n");
            let sums = String::from_utf8(control["md5sums"].bytes.clone()).unwrap();
            assert_eq!(sums.lines().count(), files.len());
            // By `printf bash | md5sum`.
            let line =
                "d574d4bb40c84861791a694a999cce69  usr/share/bash-completion/completions/flow\n";
            assert!(sums.contains(line), "{sums}");
        });
    }

    #[test]
    fn dates_are_written_as_in_mails() {
        assert_eq!(mail_date(0), "Thu, 01 Jan 1970 00:00:00 +0000");
        assert_eq!(mail_date(1_795_424_125), "Mon, 23 Nov 2026 08:55:25 +0000");
    }
}
