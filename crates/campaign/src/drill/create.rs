//! Making the copies of a drill's databases, and their places empty.

use std::rc::Rc;

use engine::{Counters, Progress, StopSignal};
use replica::{Replica, SeedFiles};
use workload::codec::DatabaseCodec;
use world::World;

use super::topology::{CopyPlace, Topology};
use crate::CampaignError;
use crate::folders::make_folders;
use crate::host::database_path;

/// Creates all copies of a database: the first one on its host, the others from its initial contents. `worlds`: those
/// of the topology's hosts.
///
/// # Errors
/// Failed I/O.
pub async fn create_copies(
    topology: &Topology,
    database: usize,
    worlds: &[World],
) -> Result<(), CampaignError> {
    let mut seed: Option<SeedFiles> = None;
    for place in &topology.databases[database].places {
        let world = &worlds[place.host];
        let config = create(topology, database, place, world).await?;
        match &seed {
            None => seed = Some(Replica::create(world, &config).await?),
            Some(seed) => Replica::seed(world, &config, seed).await?,
        }
    }
    Ok(())
}

/// Prepares a host that cannot access the others: it creates the copies that are the first of their databases, and
/// folders for the others, which are seeded. Removes what an earlier drill left there.
///
/// # Errors
/// Failed I/O.
pub async fn create_first_copies(
    topology: &Topology,
    host: usize,
    world: &World,
) -> Result<(), CampaignError> {
    for database in 0..topology.databases.len() {
        let Some(place) = topology.place(database, host) else { continue };
        make_folders(world, &place.dir).await?;
        make_folders(world, &place.log_dir).await?;
        empty(world, topology, database, place).await?;
        if topology.databases[database].places[0].host == host {
            let config = create(topology, database, place, world).await?;
            Replica::create(world, &config).await?;
        }
    }
    Ok(())
}

/// Removes all files that a copy created; other files stay.
pub(super) async fn empty(
    world: &World,
    topology: &Topology,
    database: usize,
    place: &CopyPlace,
) -> Result<(), CampaignError> {
    let config = topology.instance_config(database, place, &Counters::default(), &Counters::default());
    for folder in [&place.dir, &place.log_dir] {
        for entry in world.list(folder).await? {
            if !Replica::makes_file(&config, &entry.name) {
                continue;
            }
            world.remove(&format!("{folder}/{}", entry.name)).await?;
        }
        world.sync_dir(folder).await?;
    }
    Ok(())
}

async fn create(
    topology: &Topology,
    database: usize,
    place: &CopyPlace,
    world: &World,
) -> Result<engine::InstanceConfig, CampaignError> {
    make_folders(world, &place.dir).await?;
    make_folders(world, &place.log_dir).await?;
    let (counters, progress, stop) = (Counters::default(), Progress::default(), StopSignal::new());
    let template = topology.databases[database].template.clone();
    let codec = Rc::new(DatabaseCodec::new(template.clone()));
    let path = database_path(&place.dir, &topology.databases[database].name);
    engine::create_database(world, &path, template, codec, &counters, &progress, &stop).await?;
    Ok(topology.instance_config(database, place, &counters, &Counters::default()))
}

#[cfg(test)]
mod tests {
    use world::OpenMode;
    use world::sim::{SimConfig, Simulation};

    use super::*;
    use crate::drill::fixture::planned;
    use testkit::solutions::SMALL_DRILL;

    #[test]
    fn only_the_files_of_a_copy_are_removed() {
        let topology = planned(SMALL_DRILL).topology;
        let simulation = Simulation::new(1, SimConfig::default());
        let world = simulation.host("h1");
        simulation.volume("h1", "/v", 1 << 30);
        let place = topology.place(0, 0).expect("it has a copy there");
        let of_copy = [
            "DB1.edb",
            "DB1.jfm",
            "DB1.jfm.new",
            "E00.log",
            "E00tmp.log",
            "E000000001A.log",
            "E00res00001.jrs",
            "E00.chk",
        ];
        let of_others = ["thesis.edb", "E00.log.old", "E00000012.log", "DB1.edb.gz", "notes"];
        let left = simulation.run_until(async {
            make_folders(&world, &place.dir).await.expect("there is room");
            for name in of_copy.iter().chain(&of_others).chain(&["copy.meta", "copy.meta.new"]) {
                let path = format!("{}/{name}", place.dir);
                world.open(&path, OpenMode::CreateNew).await.expect("it is new");
            }
            empty(&world, &topology, 0, place).await.expect("they can be removed");
            world.list(&place.dir).await.expect("it is there")
        });
        let mut left: Vec<String> = left.into_iter().map(|entry| entry.name).collect();
        left.sort();
        let mut expected = of_others.map(str::to_owned);
        expected.sort();
        assert_eq!(left, expected);
    }
}
