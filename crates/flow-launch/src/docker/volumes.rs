//! Prepares the folders of this machine that a container mounts: creates missing ones, and checks that the container's
//! user may write to them.
//!
//! An image without root runs as a user that this machine does not know, and that may not write to the folders of this
//! machine's users. flow's own images run as any user, so they run as the one that starts the flow. For other images, and
//! for root's folders, this is an error that names harmless remedies.

use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, chown};
use std::path::{Path, PathBuf};

use flow_spec::Volume;
use rustix::process::{getegid, geteuid};

use crate::spec::container::{ContainerInvocation, ImageKind, WORKSPACE};

/// Why a container cannot get a folder.
#[derive(Debug, thiserror::Error)]
pub enum VolumeError {
    /// The folder does not exist and cannot be created, or cannot be read.
    #[error("cannot create the folder `{}`, which the container mounts", folder.display())]
    Create {
        /// The folder.
        folder: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The thread that prepares it has failed.
    #[error("cannot prepare the folders that the container mounts")]
    Interrupted(#[source] tokio::task::JoinError),
    /// The container's user may not write there.
    #[error(
        "`{image}` runs as user {user}, who may not write to `{}` (add `:ro` if the executor only reads there; or \
         mount a volume of the engine, `{{type: volume, source: NAME, target: {}}}`; or another folder, that this \
         user may write to)",
        folder.display(), inside.display()
    )]
    NotWritable {
        /// The image.
        image: String,
        /// The user that it runs as.
        user: String,
        /// The folder.
        folder: PathBuf,
        /// Its path in the container.
        inside: PathBuf,
    },
}

/// The ids of a user and a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct User {
    id: u32,
    group: u32,
}

impl User {
    /// The user that the image or the flow file names; `None` for root, and for a name that only the image knows.
    fn parse(text: &str) -> Option<Self> {
        let (id, group) = text.split_once(':').unwrap_or((text, "0"));
        let user = Self {
            id: id.parse().ok()?,
            group: group.parse().ok()?,
        };
        (user.id != 0).then_some(user)
    }

    fn current() -> Self {
        Self {
            id: geteuid().as_raw(),
            group: getegid().as_raw(),
        }
    }

    /// Whether the mode of a folder lets this user create files in it.
    fn may_write(self, owner: Self, mode: u32) -> bool {
        const WRITE_AND_ENTER: u32 = 0o3;
        let shift = match () {
            () if self.id == 0 => return true,
            () if self.id == owner.id => 6,
            () if self.group == owner.group => 3,
            () => 0,
        };
        (mode >> shift) & WRITE_AND_ENTER == WRITE_AND_ENTER
    }
}

/// Prepares the folders of a container for the user that its image runs as. Returns another user for it to run as, if
/// that is needed. Blocks: a folder may be on a network file system.
pub(crate) fn prepare(
    container: &ContainerInvocation,
    kind: ImageKind,
    image_user: &str,
) -> Result<Option<String>, VolumeError> {
    let written = container.container.options.text("user");
    let user = User::parse(written.unwrap_or(image_user));
    let (current, may_change) = (
        User::current(),
        written.is_none() && kind == ImageKind::Flow,
    );
    let mut instead = None;
    for (folder, inside) in writable(container) {
        create(folder, user)?;
        let Some(user) = user.filter(|_| instead.is_none()) else {
            continue;
        };
        if is_writable(folder, user)? {
            continue;
        }
        if may_change && current.id != 0 && is_writable(folder, current)? {
            instead = Some(format!("{}:{}", current.id, current.group));
            continue;
        }
        return Err(VolumeError::NotWritable {
            image: container.image.clone(),
            user: format!("{}:{}", user.id, user.group),
            folder: folder.to_owned(),
            inside: inside.to_owned(),
        });
    }
    for volume in folders(container).filter(|it| it.read_only) {
        create(Path::new(&volume.host), None)?;
    }
    Ok(instead)
}

/// Folders of this machine. The engine manages its own volumes: a new one belongs to the image's user.
fn folders(container: &ContainerInvocation) -> impl Iterator<Item = &Volume> {
    let volumes = container.container.volumes.iter();
    volumes.filter(|volume| !volume.is_named)
}

/// Folders that the container may write to, and their paths in the container.
fn writable(container: &ContainerInvocation) -> impl Iterator<Item = (&Path, &Path)> {
    let folders = folders(container).filter(|volume| !volume.read_only);
    let folders = folders.map(|volume| (Path::new(&volume.host), Path::new(&volume.inside)));
    let workspace = container.mounted_workspace().into_iter();
    folders.chain(workspace.map(|folder| (folder, Path::new(WORKSPACE))))
}

/// Creates a missing folder, as Jina does. It belongs to the container's user where this process may decide that.
fn create(folder: &Path, user: Option<User>) -> Result<(), VolumeError> {
    let failed = |source| VolumeError::Create {
        folder: folder.to_owned(),
        source,
    };
    if folder.exists() {
        return Ok(());
    }
    fs::create_dir_all(folder).map_err(failed)?;
    match user.filter(|_| User::current().id == 0) {
        Some(user) => chown(folder, Some(user.id), Some(user.group)).map_err(failed),
        None => Ok(()),
    }
}

fn is_writable(folder: &Path, user: User) -> Result<bool, VolumeError> {
    let found = fs::metadata(folder).map_err(|source| VolumeError::Create {
        folder: folder.to_owned(),
        source,
    })?;
    let owner = User {
        id: found.uid(),
        group: found.gid(),
    };
    // A single file is mounted for its content; its mode is not checked.
    Ok(!found.is_dir() || user.may_write(owner, found.mode()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_two_ids_and_root_needs_no_check() {
        let check = |text: &str, expected: Option<(u32, u32)>| {
            let found = User::parse(text).map(|it| (it.id, it.group));
            assert_eq!(found, expected, "{text}");
        };
        check("65532:65532", Some((65532, 65532)));
        check("1000", Some((1000, 0)));
        check("", None);
        check("0:0", None);
        check("jina", None);
    }

    #[test]
    fn the_mode_of_a_folder_decides_who_may_write() {
        let (user, owner) = (User { id: 7, group: 7 }, User { id: 5, group: 5 });
        assert!(!user.may_write(owner, 0o755));
        assert!(user.may_write(owner, 0o757));
        assert!(user.may_write(User { id: 7, group: 5 }, 0o700));
        assert!(user.may_write(User { id: 5, group: 7 }, 0o570));
        assert!(!user.may_write(owner, 0o752), "to write is not to enter");
    }
}
