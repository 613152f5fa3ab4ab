//! Chooses the version of DocArray in which documents are sent.

use flow_core::DocArrayVersion;

use super::hints::releases;
use crate::output;

/// The version that the user asks for, or else the one that the executors read. Warns if these differ.
pub(super) fn choose(
    asked: Option<DocArrayVersion>,
    read: Option<DocArrayVersion>,
) -> DocArrayVersion {
    if let (Some(asked), Some(read)) = (asked, read)
        && asked != read
    {
        output::error_line(&format!(
            "flow: documents are sent as `--docarray` says, but the executors read those of {}",
            releases(read)
        ));
    }
    asked.or(read).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_the_one_asked_for_or_the_one_that_is_read() {
        let (v1, v2) = (DocArrayVersion::V1, DocArrayVersion::V2);
        assert_eq!(choose(None, None), v1);
        assert_eq!(choose(None, Some(v2)), v2);
        assert_eq!(choose(Some(v1), Some(v2)), v1);
        assert_eq!(choose(Some(v2), None), v2);
    }
}
