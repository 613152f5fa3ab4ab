//! Folders of the machine that a container is to see: made where they are not there, and held against whom
//! the container runs as.
//!
//! An image without root runs as a user that this machine does not know, and its owner's folders are not
//! for that user to write. Our images run as any user, so they run as the one that starts the flow. Other images, and
//! root's folders, are an error that says what helps and harms nothing.

use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, chown};
use std::path::{Path, PathBuf};

use flow_spec::Volume;
use rustix::process::{getegid, geteuid};

use crate::image::{Contained, Maker, WORKSPACE};

/// Why a container does not get a folder.
#[derive(Debug, thiserror::Error)]
pub enum BadVolume {
    /// It is not there and cannot be made, or cannot be looked at.
    #[error("the folder `{}`, which the container is to see, cannot be made", folder.display())]
    Unmade {
        /// The folder.
        folder: PathBuf,
        /// Why.
        source: io::Error,
    },
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
        /// Whom it runs as.
        user: String,
        /// The folder.
        folder: PathBuf,
        /// Where the container sees it.
        inside: PathBuf,
    },
}

/// A user and a group by their numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct User {
    id: u32,
    group: u32,
}

impl User {
    /// Whom the image, or the flow file, names; none: root, or a name that only the image knows.
    fn parse(text: &str) -> Option<Self> {
        let (id, group) = text.split_once(':').unwrap_or((text, "0"));
        let user = Self {
            id: id.parse().ok()?,
            group: group.parse().ok()?,
        };
        (user.id != 0).then_some(user)
    }

    fn this() -> Self {
        Self {
            id: geteuid().as_raw(),
            group: getegid().as_raw(),
        }
    }

    /// Whether the folder's own bits let him make files in it.
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

/// Makes a container's folders ready for whom its image runs as. Gives the user it is to run as instead,
/// if that is another.
pub(crate) fn prepare(
    contained: &Contained,
    maker: Maker,
    image_user: &str,
) -> Result<Option<String>, BadVolume> {
    let engine = &contained.container.engine;
    let written = engine.get("User").and_then(serde_json::Value::as_str);
    let user = User::parse(written.unwrap_or(image_user));
    let (this, may_change) = (User::this(), written.is_none() && maker == Maker::Flow);
    let mut instead = None;
    for (folder, inside) in writable(contained) {
        make(folder, user)?;
        let Some(user) = user.filter(|_| instead.is_none()) else {
            continue;
        };
        if is_writable(folder, user)? {
            continue;
        }
        if may_change && this.id != 0 && is_writable(folder, this)? {
            instead = Some(format!("{}:{}", this.id, this.group));
            continue;
        }
        return Err(BadVolume::NotWritable {
            image: contained.image.clone(),
            user: format!("{}:{}", user.id, user.group),
            folder: folder.to_owned(),
            inside: inside.to_owned(),
        });
    }
    for volume in folders(contained).filter(|it| it.read_only) {
        make(Path::new(&volume.host), None)?;
    }
    Ok(instead)
}

/// Folders of the machine. Volumes of the engine are its own affair: a new one belongs to the image's user.
fn folders(contained: &Contained) -> impl Iterator<Item = &Volume> {
    let volumes = contained.container.volumes.iter();
    volumes.filter(|volume| !volume.is_named)
}

/// Folders that the container may write, and where it sees them.
fn writable(contained: &Contained) -> impl Iterator<Item = (&Path, &Path)> {
    let folders = folders(contained).filter(|volume| !volume.read_only);
    let folders = folders.map(|volume| (Path::new(&volume.host), Path::new(&volume.inside)));
    let workspace = contained.mounted_workspace().into_iter();
    folders.chain(workspace.map(|folder| (folder, Path::new(WORKSPACE))))
}

/// Makes a folder that is not there, as Jina does; it is the container's user's, where we may give it away.
fn make(folder: &Path, user: Option<User>) -> Result<(), BadVolume> {
    let unmade = |source| BadVolume::Unmade {
        folder: folder.to_owned(),
        source,
    };
    if folder.exists() {
        return Ok(());
    }
    fs::create_dir_all(folder).map_err(unmade)?;
    match user.filter(|_| User::this().id == 0) {
        Some(user) => chown(folder, Some(user.id), Some(user.group)).map_err(unmade),
        None => Ok(()),
    }
}

fn is_writable(folder: &Path, user: User) -> Result<bool, BadVolume> {
    let found = fs::metadata(folder).map_err(|source| BadVolume::Unmade {
        folder: folder.to_owned(),
        source,
    })?;
    let owner = User {
        id: found.uid(),
        group: found.gid(),
    };
    // A single file is mounted for its content; what may be done to it is its own affair.
    Ok(!found.is_dir() || user.may_write(owner, found.mode()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_two_numbers_and_root_needs_no_care() {
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
    fn who_may_write_is_read_from_the_folders_bits() {
        let (user, owner) = (User { id: 7, group: 7 }, User { id: 5, group: 5 });
        assert!(!user.may_write(owner, 0o755));
        assert!(user.may_write(owner, 0o757));
        assert!(user.may_write(User { id: 7, group: 5 }, 0o700));
        assert!(user.may_write(User { id: 5, group: 7 }, 0o570));
        assert!(!user.may_write(owner, 0o752), "to write is not to enter");
    }
}
