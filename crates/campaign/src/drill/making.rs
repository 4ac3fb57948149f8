//! Making the copies of a drill's databases, and their places empty.

use std::rc::Rc;

use engine::{Counters, Progress, StopSignal};
use replica::{Founding, Replica};
use workload::codec::DatabaseCodec;
use world::World;

use super::site::{CopyPlace, Site};
use crate::CampaignError;
use crate::host::database_path;
use crate::init::make_folders;

/// Makes all copies of a database: the first one on its host, the others from what it began with. `worlds` are those of the
/// site's hosts.
///
/// # Errors
/// Failed I/O.
pub async fn found(site: &Site, database: usize, worlds: &[World]) -> Result<(), CampaignError> {
    let mut founding: Option<Founding> = None;
    for place in &site.databases[database].places {
        let world = &worlds[place.host];
        let config = create(site, database, place, world).await?;
        match &founding {
            None => founding = Some(Replica::found(world, &config).await?),
            Some(founding) => Replica::join(world, &config, founding).await?,
        }
    }
    Ok(())
}

/// Prepares a host for which nobody can look at the others: it makes the copies that are the first of their databases, and
/// the places of the others, which are seeded from the first. What an earlier drill has left there goes.
///
/// # Errors
/// Failed I/O.
pub async fn found_first(site: &Site, host: usize, world: &World) -> Result<(), CampaignError> {
    for database in 0..site.databases.len() {
        let Some(place) = site.place(database, host) else { continue };
        make_folders(world, &place.dir).await?;
        make_folders(world, &place.log_dir).await?;
        empty(world, place).await?;
        if site.databases[database].places[0].host == host {
            let config = create(site, database, place, world).await?;
            Replica::found(world, &config).await?;
        }
    }
    Ok(())
}

/// Removes all files of a copy.
pub(super) async fn empty(world: &World, place: &CopyPlace) -> Result<(), CampaignError> {
    for folder in [&place.dir, &place.log_dir] {
        for entry in world.list(folder).await? {
            world.remove(&format!("{folder}/{}", entry.name)).await?;
        }
        world.sync_dir(folder).await?;
    }
    Ok(())
}

async fn create(
    site: &Site,
    database: usize,
    place: &CopyPlace,
    world: &World,
) -> Result<engine::InstanceConfig, CampaignError> {
    make_folders(world, &place.dir).await?;
    make_folders(world, &place.log_dir).await?;
    let (counters, progress, stop) = (Counters::default(), Progress::default(), StopSignal::new());
    let image = site.databases[database].image.clone();
    let codec = Rc::new(DatabaseCodec::new(image.clone()));
    let path = database_path(&place.dir, &site.databases[database].name);
    engine::create_database(world, &path, image, codec, &counters, &progress, &stop).await?;
    Ok(site.instance_config(database, place, &counters, &Counters::default()))
}
