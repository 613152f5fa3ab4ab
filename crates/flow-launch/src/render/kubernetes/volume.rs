//! The folders of a pod that are not its image's.

use k8s_openapi::api::core::v1::{
    ConfigMapVolumeSource, EmptyDirVolumeSource, Volume, VolumeMount,
};

use super::config::placement_name;
use super::{GATEWAY, role};
use crate::render::parts::{CACHE, Unit, WORKSPACE};

/// The volume of a workspace, in the claims and in the pod.
pub(super) const WORKSPACE_VOLUME: &str = "workspace";
/// Where the gateway reads its placement.
pub(super) const PLACEMENT_FILE: &str = "/etc/flow/placement.json";
const PLACEMENT_FOLDER: &str = "/etc/flow";

/// What a folder holds.
enum Folder {
    /// Nothing at first, and it ends with the pod.
    Empty,
    /// The gateway's placement.
    Placement,
    /// What stays: a StatefulSet adds this volume to its pods by itself.
    Claimed,
}

fn folders(unit: &Unit) -> Vec<(&'static str, &'static str, Folder)> {
    let mut all = vec![("tmp", "/tmp", Folder::Empty)];
    if role(unit) == GATEWAY {
        all.push(("placement", PLACEMENT_FOLDER, Folder::Placement));
    } else if unit.is_flow {
        all.push(("cache", CACHE, Folder::Empty));
    }
    if unit.keeps_files {
        all.push((WORKSPACE_VOLUME, WORKSPACE, Folder::Claimed));
    }
    all
}

pub(super) fn mounts(unit: &Unit) -> Vec<VolumeMount> {
    let mount = |(name, path, folder): (&str, &str, Folder)| VolumeMount {
        name: name.to_owned(),
        mount_path: path.to_owned(),
        read_only: matches!(folder, Folder::Placement).then_some(true),
        ..VolumeMount::default()
    };
    folders(unit).into_iter().map(mount).collect()
}

pub(super) fn volumes(unit: &Unit) -> Vec<Volume> {
    let volume = |(name, _, folder): (&str, _, Folder)| {
        let own = Volume {
            name: name.to_owned(),
            ..Volume::default()
        };
        match folder {
            Folder::Empty => Some(Volume {
                empty_dir: Some(EmptyDirVolumeSource::default()),
                ..own
            }),
            Folder::Placement => Some(Volume {
                config_map: Some(ConfigMapVolumeSource {
                    name: placement_name(unit),
                    ..ConfigMapVolumeSource::default()
                }),
                ..own
            }),
            Folder::Claimed => None,
        }
    };
    folders(unit).into_iter().filter_map(volume).collect()
}
