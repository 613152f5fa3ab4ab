//! The files of an export before they are text: manifests for `kubectl`, or templates of a chart.

use std::path::PathBuf;

use serde_json::Value;

use crate::render::export::RenderedFile;
use crate::render::yaml;

/// An export before its objects are text.
#[derive(Debug)]
pub(super) struct ManifestSet {
    /// The flow's name, as a label.
    pub(super) label: String,
    pub(super) manifests: Vec<Manifest>,
    pub(super) remarks: Vec<String>,
}

/// A file with objects.
#[derive(Debug)]
pub(super) struct Manifest {
    /// Below the folder of the export.
    pub(super) path: PathBuf,
    pub(super) objects: Vec<Value>,
}

impl Manifest {
    pub(super) fn new(path: impl Into<PathBuf>, objects: Vec<Value>) -> Self {
        Self {
            path: path.into(),
            objects,
        }
    }

    /// The file as text. `source` is the flow file, and `command` what was asked for.
    pub(super) fn render(&self, source: &str, command: &str) -> RenderedFile {
        let header = format!("# Made from {source} by `flow export {command}`.\n");
        let documents: Vec<String> = self.objects.iter().map(yaml::document).collect();
        RenderedFile {
            path: self.path.clone(),
            text: header + &documents.join("---\n"),
        }
    }
}
