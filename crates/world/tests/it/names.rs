//! Names: as POSIX has them, and durable by directory.

use proptest::prelude::*;
use world::sim::{FaultKind, OpKind};
use world::{Duration, ErrorKind};

use super::*;

async fn listed(world: &World, path: &str) -> Vec<String> {
    world.list(path).await.expect("lists").into_iter().map(|entry| entry.name).collect()
}

#[test]
fn a_name_is_durable_only_after_a_sync_of_its_directory() {
    for (synced, left) in [(false, vec![]), (true, vec!["x"])] {
        let (sim, world) = with_power_cut(1, PowerCut::lose_all());
        sim.run_until(async {
            let file = create(&world, "/d/x").await;
            write(&file, 0, block(1)).await;
            file.sync().await.expect("syncs");
            if synced {
                world.sync_dir("/d").await.expect("syncs");
            }
        });
        let world = sim.restart("a");
        assert_eq!(sim.run_until(listed(&world, "/d")), left);
    }
}

#[test]
fn a_directory_sync_covers_only_names_that_were_there_when_it_was_issued() {
    let faults = Faults { power_cut: PowerCut::lose_all(), ..Faults::default() };
    let (sim, world) = with_config(1, SimConfig { faults, storage: slow_storage(1), ..SimConfig::default() });
    sim.run_until(async {
        create(&world, "/d/x").await;
        let own = world.clone();
        let syncing = world.spawn(async move { own.sync_dir("/d").await });
        world.sleep(Duration::from_nanos(1)).await;
        create(&world, "/d/y").await;
        syncing.await.expect("syncs");
    });
    let world = sim.restart("a");
    assert_eq!(sim.run_until(listed(&world, "/d")), ["x"]);
}

#[test]
fn a_removed_name_may_come_back_until_its_directory_is_synced() {
    let (sim, world) = with_power_cut(1, PowerCut::lose_all());
    sim.run_until(async {
        durable_file(&world, "/d/x", 4096, 1).await;
        world.remove("/d/x").await.expect("removes");
        assert_eq!(listed(&world, "/d").await, Vec::<String>::new());
    });
    let world = sim.restart("a");
    assert_eq!(sim.run_until(listed(&world, "/d")), ["x"]);
    assert_eq!(sim.fault_counts().of(FaultKind::LostName), 1);
}

#[test]
fn a_rename_over_a_file_is_atomic() {
    let mut seen = std::collections::BTreeSet::new();
    for seed in 0..40 {
        let (sim, world) = with_power_cut(seed, PowerCut::default());
        sim.run_until(async {
            durable_file(&world, "/d/now", 4096, 1).await;
            durable_file(&world, "/d/new", 4096, 2).await;
            world.rename("/d/new", "/d/now").await.expect("renames");
        });
        let world = sim.restart("a");
        seen.insert(sim.run_until(async {
            (listed(&world, "/d").await, read(&reopen(&world, "/d/now").await, 0, 4096).await[0])
        }));
    }
    let old = (vec!["new".to_string(), "now".to_string()], 1);
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), [old, (vec!["now".to_string()], 2)]);
}

#[test]
fn a_sync_of_one_directory_leaves_the_names_of_another_pending() {
    let (sim, world) = with_power_cut(1, PowerCut::lose_all());
    sim.run_until(async {
        for dir in ["/d/p", "/d/q"] {
            world.create_dir(dir).await.expect("creates");
        }
        world.sync_dir("/d").await.expect("syncs");
        create(&world, "/d/p/x").await;
        create(&world, "/d/q/y").await;
        world.sync_dir("/d/p").await.expect("syncs");
    });
    let world = sim.restart("a");
    sim.run_until(async {
        assert_eq!(listed(&world, "/d/p").await, ["x"]);
        assert_eq!(listed(&world, "/d/q").await, Vec::<String>::new());
    });
}

#[test]
fn a_directory_that_was_not_synced_takes_what_is_in_it_along() {
    let (sim, world) = with_power_cut(1, PowerCut::lose_all());
    sim.run_until(async {
        world.create_dir("/d/p").await.expect("creates");
        create(&world, "/d/p/x").await;
        world.sync_dir("/d/p").await.expect("syncs");
    });
    let world = sim.restart("a");
    assert_eq!(sim.run_until(listed(&world, "/d")), Vec::<String>::new());
}

#[test]
fn a_rename_between_directories_is_whole_after_a_sync_of_either() {
    let power_cuts = [PowerCut::lose_all(), PowerCut::keep_all()];
    for (synced, power_cut) in
        ["/d/p", "/d/q"].into_iter().flat_map(|dir| power_cuts.clone().map(|cut| (dir, cut)))
    {
        let (sim, world) = with_power_cut(1, power_cut);
        sim.run_until(async {
            for dir in ["/d/p", "/d/q"] {
                world.create_dir(dir).await.expect("creates");
            }
            world.sync_dir("/d").await.expect("syncs");
            create(&world, "/d/p/x").await;
            world.rename("/d/p/x", "/d/q/x").await.expect("renames");
            world.sync_dir(synced).await.expect("syncs");
        });
        let world = sim.restart("a");
        sim.run_until(async {
            assert_eq!(listed(&world, "/d/p").await, Vec::<String>::new());
            assert_eq!(listed(&world, "/d/q").await, ["x"]);
        });
    }
}

#[test]
fn after_a_failed_directory_sync_its_names_may_be_lost_for_good() {
    let mut seen = std::collections::BTreeSet::new();
    for seed in 0..40 {
        let fail_nth = Some((OpKind::SyncDir, 1));
        let (sim, world) =
            with_faults(seed, Faults { fail_nth, power_cut: PowerCut::lose_all(), ..Faults::default() });
        sim.run_until(async {
            create(&world, "/d/x").await;
            world.sync_dir("/d").await.expect_err("fails");
            world.sync_dir("/d").await.expect("syncs, and says nothing about what was lost");
        });
        let world = sim.restart("a");
        seen.insert(sim.run_until(listed(&world, "/d")).len());
    }
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), [0, 1]);
}

#[test]
fn names_behave_as_posix_has_them() {
    let (sim, world) = with_faults(1, Faults::default());
    sim.run_until(async {
        let kind = |result: world::Result<()>| result.expect_err("is refused").kind;
        assert_eq!(kind(world.create_dir("/d/no/p").await), ErrorKind::NotFound);
        assert_eq!(kind(world.create_dir("/d").await), ErrorKind::AlreadyExists);
        assert_eq!(kind(world.remove("/d/no").await), ErrorKind::NotFound);
        assert_eq!(kind(world.rename("/d/no", "/d/x").await), ErrorKind::NotFound);
        assert_eq!(kind(world.sync_dir("/d/no").await), ErrorKind::NotFound);
        assert_eq!(world.list("/d/no").await.expect_err("is refused").kind, ErrorKind::NotFound);
        let open = |mode| world.open("/d/x", mode);
        assert_eq!(open(OpenMode::ReadWrite).await.err().map(|error| error.kind), Some(ErrorKind::NotFound));
        let file = open(OpenMode::CreateNew).await.expect("creates");
        assert_eq!(
            open(OpenMode::CreateNew).await.err().map(|error| error.kind),
            Some(ErrorKind::AlreadyExists)
        );
        write(&file, 0, buf(8192, 1)).await;
        let reader = open(OpenMode::Read).await.expect("opens");
        let refused = reader.write_at(0, block(2)).await.0.expect_err("is refused");
        assert_eq!(refused.kind, ErrorKind::PermissionDenied);
        assert_eq!(refused.to_string(), "cannot write at 0 of /d/x: the file is open for reading only");

        world.create_dir("/d/p").await.expect("creates");
        create(&world, "/d/p/y").await;
        assert_eq!(kind(world.remove("/d/p").await), ErrorKind::Io, "it is not empty");
        let entries = world.list("/d").await.expect("lists");
        let shown: Vec<_> = entries.iter().map(|e| (e.name.as_str(), e.bytes, e.is_dir)).collect();
        assert_eq!(shown, [("p", 0, true), ("x", 8192, false)]);
        assert_eq!(world.entry("/d/p/none").await.expect("looks up"), None);
        assert_eq!(world.entry("/d/none/x").await.expect("looks up"), None);
        world.remove("/d/p/y").await.expect("removes");
        world.remove("/d/p").await.expect("is empty now");
    });
}

#[test]
fn a_removed_file_lives_on_while_it_is_open_and_then_gives_its_space_back() {
    let (sim, world) = with_faults(1, Faults::default());
    sim.volume("a", "/d", 1 << 20);
    sim.run_until(async {
        let file = create(&world, "/d/x").await;
        write(&file, 0, buf(65536, 5)).await;
        world.remove("/d/x").await.expect("removes");
        assert_eq!(world.entry("/d/x").await.expect("looks up"), None);
        assert_eq!(read(&file, 0, 4096).await, [5; 4096]);
        assert_eq!(world.free_bytes("/d").await.expect("free"), (1 << 20) - 65536);
        drop(file);
        assert_eq!(world.free_bytes("/d").await.expect("free"), 1 << 20);
    });
}

#[derive(Debug, Clone)]
enum Step {
    Create(u8),
    Rename(u8, u8),
    Remove(u8),
    Sync,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (0u8..6).prop_map(Step::Create),
        4 => (0u8..6, 0u8..6).prop_map(|(from, to)| Step::Rename(from, to)),
        2 => (0u8..6).prop_map(Step::Remove),
        1 => Just(Step::Sync),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) })]

    /// A trivial model (name to tag) agrees before the power cut; after it no file has two names, and a file whose
    /// name was durable and that was only renamed since has exactly one.
    #[test]
    fn after_any_name_changes_and_a_power_cut_every_file_has_at_most_one_name(
        steps in proptest::collection::vec(step(), 1..40),
        seed in 0u64..1000,
    ) {
        let (sim, world) = with_power_cut(seed, PowerCut::default());
        let mut names = std::collections::BTreeMap::<u8, u8>::new();
        let mut only_renamed = std::collections::BTreeSet::<u8>::new();
        let mut tag = 0;
        for step in steps {
            match step {
                Step::Create(name) if !names.contains_key(&name) => {
                    tag += 1;
                    names.insert(name, tag);
                    sim.run_until(async {
                        let file = create(&world, &format!("/d/{name}")).await;
                        write(&file, 0, block(tag)).await;
                        file.sync().await.expect("syncs");
                    });
                }
                Step::Rename(from, to) if from != to && names.contains_key(&from) => {
                    let moved = names.remove(&from).expect("is there");
                    if let Some(replaced) = names.insert(to, moved) {
                        only_renamed.remove(&replaced);
                    }
                    sim.run_until(world.rename(&format!("/d/{from}"), &format!("/d/{to}"))).expect("renames");
                }
                Step::Remove(name) if names.contains_key(&name) => {
                    only_renamed.remove(&names.remove(&name).expect("is there"));
                    sim.run_until(world.remove(&format!("/d/{name}"))).expect("removes");
                }
                Step::Sync => {
                    sim.run_until(world.sync_dir("/d")).expect("syncs");
                    only_renamed = names.values().copied().collect();
                }
                _ => {}
            }
        }
        let tags = |world: World| async move {
            let mut tags = Vec::new();
            for name in listed(&world, "/d").await {
                tags.push(read(&reopen(&world, &format!("/d/{name}")).await, 0, 4096).await[0]);
            }
            tags
        };
        let shown = sim.run_until(tags(world.clone()));
        prop_assert_eq!(shown, names.values().copied().collect::<Vec<_>>());
        let world = sim.restart("a");
        let mut left = sim.run_until(tags(world));
        left.sort_unstable();
        let count = left.len();
        left.dedup();
        prop_assert_eq!(count, left.len(), "two names for one file");
        for tag in only_renamed {
            prop_assert!(left.contains(&tag), "file {} lost both its names", tag);
        }
    }
}
