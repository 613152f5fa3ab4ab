//! The option `cache`: whether vectors are stored, where, and how many.

use std::fmt;
use std::path::{Path, PathBuf};

use flow_core::ByteSize;
use flow_models::CacheOptions;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

/// Size of the store in memory, unless the flow file says otherwise: 160,000 vectors of 384 values.
const SIZE: ByteSize = ByteSize::mebibytes(256);

/// Size of the store on disk, unless the flow file says otherwise.
const DISK_SIZE: ByteSize = ByteSize::mebibytes(1 << 10);

/// The option: `true`, a size in memory, or a mapping.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CacheConfig(Option<Stores>);

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Stores {
    size: ByteSize,
    path: Option<PathBuf>,
    disk_size: ByteSize,
}

impl Default for Stores {
    fn default() -> Self {
        Self {
            size: SIZE,
            path: None,
            disk_size: DISK_SIZE,
        }
    }
}

impl CacheConfig {
    /// The options of the cache, where relative paths begin at `folder`. `None` if vectors are not stored.
    pub(crate) fn options(&self, folder: &Path) -> Option<CacheOptions> {
        let stores = self.0.as_ref()?;
        Some(CacheOptions {
            size: stores.size,
            path: stores.path.as_ref().map(|path| folder.join(path)),
            disk_size: stores.disk_size,
        })
    }

    /// Maximum bytes of the store in memory.
    pub(crate) fn memory(&self) -> u64 {
        self.0.as_ref().map_or(0, |stores| stores.size.bytes())
    }
}

impl<'de> Deserialize<'de> for CacheConfig {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(CacheVisitor)
    }
}

struct CacheVisitor;

impl<'de> Visitor<'de> for CacheVisitor {
    type Value = CacheConfig;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "`true`, a size such as `512MiB`, or a mapping with `size`, `path` and `disk_size`",
        )
    }

    fn visit_unit<E: Error>(self) -> Result<CacheConfig, E> {
        Ok(CacheConfig::default())
    }

    fn visit_bool<E: Error>(self, is_on: bool) -> Result<CacheConfig, E> {
        Ok(CacheConfig(is_on.then(Stores::default)))
    }

    fn visit_u64<E: Error>(self, bytes: u64) -> Result<CacheConfig, E> {
        Ok(in_memory(bytes.into()))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<CacheConfig, E> {
        text.parse().map(in_memory).map_err(E::custom)
    }

    fn visit_map<M: MapAccess<'de>>(self, map: M) -> Result<CacheConfig, M::Error> {
        let stores = Stores::deserialize(MapAccessDeserializer::new(map))?;
        Ok(CacheConfig(Some(stores)))
    }
}

fn in_memory(size: ByteSize) -> CacheConfig {
    CacheConfig(Some(Stores {
        size,
        ..Stores::default()
    }))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn options(value: Value) -> Option<CacheOptions> {
        let config: CacheConfig = serde_json::from_value(value).unwrap();
        config.options(Path::new("/cache"))
    }

    #[test]
    fn vectors_are_stored_if_the_flow_file_says_so() {
        assert_eq!(CacheConfig::default().options(Path::new("/")), None);
        assert_eq!(options(json!(false)), None);
        assert_eq!(options(json!(null)), None);
        let default = CacheOptions {
            size: SIZE,
            path: None,
            disk_size: DISK_SIZE,
        };
        assert_eq!(options(json!(true)), Some(default.clone()));
        assert_eq!(options(json!({})), Some(default.clone()));
        let size = ByteSize::mebibytes(1);
        for one in [json!("1MiB"), json!(1 << 20), json!({"size": "1MiB"})] {
            assert_eq!(
                options(one),
                Some(CacheOptions {
                    size,
                    ..default.clone()
                })
            );
        }
    }

    #[test]
    fn the_store_on_disk_has_a_path_and_a_size() {
        let path = |value| options(json!({"path": value, "disk_size": "2MiB"})).unwrap();
        assert_eq!(path("vectors").path, Some("/cache/vectors".into()));
        assert_eq!(path("/data/vectors").path, Some("/data/vectors".into()));
        assert_eq!(path("v").disk_size, ByteSize::mebibytes(2));
    }

    #[test]
    fn other_values_are_refused_with_what_is_expected() {
        for bad in [json!("much"), json!(-1), json!([1])] {
            let error = serde_json::from_value::<CacheConfig>(bad).unwrap_err();
            assert!(error.to_string().contains("512MiB"), "{error}");
        }
        let unknown = serde_json::from_value::<CacheConfig>(json!({"sise": 1})).unwrap_err();
        assert!(unknown.to_string().contains("`sise`"), "{unknown}");
    }
}
