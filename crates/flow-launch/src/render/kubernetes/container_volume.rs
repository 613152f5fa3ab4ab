//! The volumes that the flow file asks for: shared memory, and folders of the machine where a pod runs.

use flow_spec::Volume as Mounted;
use k8s_openapi::api::core::v1::{EmptyDirVolumeSource, HostPathVolumeSource, Volume, VolumeMount};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::docker_options::PodOptions;
use super::{Flow, key};
use crate::render::parts::Workload;

/// Where programs look for shared memory.
const SHARED_MEMORY: &str = "/dev/shm";

impl Flow<'_> {
    /// Each volume, and where the container sees it.
    pub(super) fn container_volumes(&self, unit: &Workload) -> Vec<(Volume, VolumeMount)> {
        let size = PodOptions::of(&unit.options).shared_memory;
        let memory = size.map(shared_memory);
        let has_folders = self.wanted.host_folders.contains(&key(unit));
        let folders = unit.folders.iter().filter(|_| has_folders);
        let folders = folders.filter(|it| !it.is_named).enumerate().map(folder);
        memory.into_iter().chain(folders).collect()
    }
}

fn shared_memory(size: String) -> (Volume, VolumeMount) {
    let volume = Volume {
        empty_dir: Some(EmptyDirVolumeSource {
            medium: Some("Memory".to_owned()),
            size_limit: Some(Quantity(size)),
        }),
        ..named("shared-memory".to_owned())
    };
    let mount = mount(&volume, SHARED_MEMORY, None);
    (volume, mount)
}

fn folder((index, folder): (usize, &Mounted)) -> (Volume, VolumeMount) {
    let volume = Volume {
        host_path: Some(HostPathVolumeSource {
            path: folder.host.clone(),
            // A pod on a machine without the folder says so, instead of starting with an empty one.
            type_: Some("Directory".to_owned()),
        }),
        ..named(format!("folder-{index}"))
    };
    let mount = mount(&volume, &folder.inside, folder.read_only.then_some(true));
    (volume, mount)
}

fn named(name: String) -> Volume {
    Volume {
        name,
        ..Volume::default()
    }
}

fn mount(volume: &Volume, path: &str, read_only: Option<bool>) -> VolumeMount {
    VolumeMount {
        name: volume.name.clone(),
        mount_path: path.to_owned(),
        read_only,
        ..VolumeMount::default()
    }
}
