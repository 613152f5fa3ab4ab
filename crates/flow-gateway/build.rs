//! Takes the files of Swagger UI that the page at `/docs` needs from their archive, and compresses each with gzip.
#![allow(
    clippy::disallowed_methods,
    reason = "cargo passes paths to build scripts in environment variables"
)]

use std::error::Error;
use std::fs::File;
use std::io::Cursor;
use std::path::PathBuf;
use std::{env, io};

use flate2::{Compression, GzBuilder};
use utoipa_swagger_ui_vendored::SWAGGER_UI_VENDORED;
use zip::ZipArchive;

type Archive = ZipArchive<Cursor<&'static [u8]>>;

/// The files, as they are named in the folder `dist` of the archive.
const FILES: [&str; 3] = [
    "swagger-ui-bundle.js",
    "swagger-ui.css",
    "favicon-32x32.png",
];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let mut archive: Archive = ZipArchive::new(Cursor::new(SWAGGER_UI_VENDORED))?;
    for name in FILES {
        let path = path_in(&archive, &format!("/dist/{name}"))
            .ok_or("the archive of Swagger UI lacks a file")?;
        let target = File::create(out.join(format!("{name}.gz")))?;
        // Without the time and the name of the file, so that equal files make an equal program.
        let mut compressed = GzBuilder::new().mtime(0).write(target, Compression::best());
        io::copy(&mut archive.by_name(&path)?, &mut compressed)?;
        compressed.finish()?;
    }
    Ok(())
}

/// The path in an archive that ends like this.
fn path_in(archive: &Archive, end: &str) -> Option<String> {
    let mut paths = archive.file_names().filter_map(Result::ok);
    let path = paths.find(|path| path.ends_with(end))?;
    Some(path.into_owned())
}
