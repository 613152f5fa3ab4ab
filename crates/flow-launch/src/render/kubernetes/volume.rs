//! The volumes of a pod, and where it mounts them.

use k8s_openapi::api::core::v1::{
    ConfigMapVolumeSource, EmptyDirVolumeSource, PersistentVolumeClaim, PersistentVolumeClaimSpec,
    PersistentVolumeClaimVolumeSource, Volume, VolumeMount, VolumeResourceRequirements,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::config::placement_name;
use super::secret::GatewaySecrets;
use super::{Cache, Flow, GATEWAY, PART_OF, key, role};
use crate::render::parts::{CACHE, Units, WORKSPACE, Workload};

/// The volume of a workspace, in the claims and in the pod.
const WORKSPACE_VOLUME: &str = "workspace";
/// The volume of downloaded models, in the claims and in the pod.
const CACHE_VOLUME: &str = "cache";
/// Where the gateway reads its placement.
pub(super) const PLACEMENT_FILE: &str = "/etc/flow/placement.json";
const PLACEMENT_FOLDER: &str = "/etc/flow";

/// What a folder holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Folder {
    /// Empty at first; deleted with the pod.
    Empty,
    /// The gateway's placement.
    Placement,
    /// Kept for this pod of a StatefulSet, which adds the volume itself.
    Claimed,
    /// Kept, and shared by all pods of the flow.
    Shared,
}

impl Flow<'_> {
    /// Whether its pods have their own volumes, which outlive them.
    pub(super) fn is_stateful(&self, unit: &Workload) -> bool {
        let folders = self.folders(unit);
        folders.iter().any(|(_, _, it)| *it == Folder::Claimed)
    }

    /// The volumes that each pod of a StatefulSet owns.
    pub(super) fn claims(&self, unit: &Workload) -> Vec<PersistentVolumeClaim> {
        let folders = self.folders(unit).into_iter();
        let claimed = folders.filter(|(_, _, folder)| *folder == Folder::Claimed);
        let claim = |(name, _, _): (&str, _, _)| {
            let size = match name {
                CACHE_VOLUME => &self.wanted.cache_size,
                _ => &self.wanted.storage,
            };
            let metadata = ObjectMeta {
                name: Some(name.to_owned()),
                ..ObjectMeta::default()
            };
            self.claim(metadata, "ReadWriteOnce", size)
        };
        claimed.map(claim).collect()
    }

    /// The shared volume for models; `None` if each pod has its own, or downloads none.
    pub(super) fn shared_cache(&self, units: &Units) -> Option<PersistentVolumeClaim> {
        let is_wanted = self.wanted.cache == Cache::Shared;
        let is_used = units.executors().any(|unit| unit.needs.downloads_models);
        (is_wanted && is_used).then(|| {
            let metadata = ObjectMeta {
                name: Some(self.shared_cache_name()),
                namespace: Some(self.wanted.namespace.clone()),
                labels: Some([(PART_OF.to_owned(), self.label.clone())].into()),
                ..ObjectMeta::default()
            };
            self.claim(metadata, "ReadWriteMany", &self.wanted.cache_size)
        })
    }

    /// With its own volume, a pod starts only after its predecessor has released the volume.
    pub(super) fn cache_remark(&self, unit: &Workload) -> Option<String> {
        let is_own = unit.needs.downloads_models && self.wanted.cache == Cache::PerPod;
        let fewest = self.autoscale(unit).map_or(unit.replicas, |it| it.min);
        (is_own && fewest == 1).then(|| {
            format!(
                "`{}` keeps its model in a volume that only one pod at a time can use, so it serves nothing while its only pod is replaced: use two replicas, an image with the model and `--cache none`, or `--cache shared` where the cluster has ReadWriteMany volumes",
                unit.name
            )
        })
    }

    /// Without a volume, only an image with the model saves the download. Flow's own image, `own`, has none.
    pub(super) fn download_remark(&self, unit: &Workload, own: &str) -> Option<String> {
        let downloads = unit.needs.downloads_models && self.wanted.cache == Cache::None;
        (downloads && unit.image == own).then(|| {
            let name = &unit.name;
            let key = key(unit);
            format!(
                "each pod of `{name}` downloads its model when it starts, because `--cache none` has no volume for it: name an image that holds the model with `--image {key}=IMAGE`"
            )
        })
    }

    pub(super) fn mounts(&self, unit: &Workload) -> Vec<VolumeMount> {
        let mount = |(name, path, folder): (&str, &str, Folder)| VolumeMount {
            name: name.to_owned(),
            mount_path: path.to_owned(),
            read_only: (folder == Folder::Placement).then_some(true),
            ..VolumeMount::default()
        };
        let folders = self.folders(unit).into_iter().map(mount);
        let secrets = self.secrets_of(unit).into_iter();
        let own = self.container_volumes(unit).into_iter();
        let own = own.map(|(_, mount)| mount);
        let secrets = secrets.flat_map(GatewaySecrets::mounts);
        folders.chain(secrets).chain(own).collect()
    }

    pub(super) fn volumes(&self, unit: &Workload) -> Vec<Volume> {
        let folders = self.folders(unit).into_iter();
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
                Folder::Shared => Some(Volume {
                    persistent_volume_claim: Some(PersistentVolumeClaimVolumeSource {
                        claim_name: self.shared_cache_name(),
                        read_only: None,
                    }),
                    ..own
                }),
                Folder::Claimed => None,
            }
        };
        let volumes = folders.filter_map(volume);
        let secrets = self.secrets_of(unit).into_iter();
        let own = self.container_volumes(unit).into_iter();
        let own = own.map(|(volume, _)| volume);
        let secrets = secrets.flat_map(GatewaySecrets::volumes);
        volumes.chain(secrets).chain(own).collect()
    }

    fn folders(&self, unit: &Workload) -> Vec<(&'static str, &'static str, Folder)> {
        let mut all = vec![("tmp", "/tmp", Folder::Empty)];
        if role(unit) == GATEWAY {
            all.push(("placement", PLACEMENT_FOLDER, Folder::Placement));
        }
        if unit.needs.downloads_models {
            let kept = match self.wanted.cache {
                Cache::PerPod => Folder::Claimed,
                Cache::Shared => Folder::Shared,
                Cache::None => Folder::Empty,
            };
            all.push((CACHE_VOLUME, CACHE, kept));
        }
        if unit.keeps_files {
            all.push((WORKSPACE_VOLUME, WORKSPACE, Folder::Claimed));
        }
        all
    }

    /// The Secrets that a unit mounts; `None` for executors.
    fn secrets_of(&self, unit: &Workload) -> Option<&GatewaySecrets> {
        (role(unit) == GATEWAY).then_some(&self.secrets)
    }

    fn shared_cache_name(&self) -> String {
        format!("{}-cache", self.label)
    }

    fn claim(&self, metadata: ObjectMeta, access: &str, size: &str) -> PersistentVolumeClaim {
        let size = [("storage".to_owned(), Quantity(size.to_owned()))];
        PersistentVolumeClaim {
            metadata,
            spec: Some(PersistentVolumeClaimSpec {
                access_modes: Some(vec![access.to_owned()]),
                storage_class_name: self.wanted.storage_class.clone(),
                resources: Some(VolumeResourceRequirements {
                    requests: Some(size.into()),
                    limits: None,
                }),
                ..PersistentVolumeClaimSpec::default()
            }),
            status: None,
        }
    }
}
