//! The MetaCaches of a host's databases.

use engine::{InstanceConfig, MetaCacheConfig, StopSignal};
use solution::{InstanceSpec, MetaCacheSpec};
use world::World;

use crate::folders::make_folders;

/// Path of the MetaCache of a database.
pub fn meta_cache_path(spec: &MetaCacheSpec, database: &str) -> String {
    format!("{}/{database}.mcdb", spec.dir)
}

/// Volumes of an instance's MetaCaches, each with the signal that takes it away from one database.
pub(crate) type CacheVolumes = Vec<(String, StopSignal)>;

/// Gives the databases of an instance their MetaCaches.
pub(crate) async fn add_meta_caches(
    world: &World,
    spec: &InstanceSpec,
    config: &mut InstanceConfig,
) -> CacheVolumes {
    let mut volumes = CacheVolumes::new();
    for (spec, database) in spec.databases.iter().zip(&mut config.databases) {
        let Some(cache) = &spec.meta_cache else { continue };
        // Without its folder the cache is offline, and the database does without it.
        let _ = make_folders(world, &cache.dir).await;
        let taken_away = StopSignal::new();
        volumes.push((cache.volume.clone(), taken_away.clone()));
        let path = meta_cache_path(cache, &spec.name);
        database.meta_cache = Some(MetaCacheConfig { path, bytes: cache.bytes, taken_away });
    }
    volumes
}
