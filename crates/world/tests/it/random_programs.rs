//! Random programs against trivial models: a byte vector while nothing fails, sets of allowed bytes after a power cut.

use proptest::prelude::*;

use super::*;

#[derive(Debug, Clone)]
enum Step {
    Write { block: u64, blocks: usize, byte: u8 },
    SetSize { blocks: u64 },
    Sync,
    Reopen,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0u64..40, 1usize..12, 1u8..255).prop_map(|(block, blocks, byte)| Step::Write { block, blocks, byte }),
        2 => (0u64..60).prop_map(|blocks| Step::SetSize { blocks }),
        1 => Just(Step::Sync),
        1 => Just(Step::Reopen),
    ]
}

/// Pages of the template in the adopted kind of file.
const PAGES: u64 = 4;

async fn start(world: &World, is_adopted: bool) -> (File, Vec<u8>) {
    if !is_adopted {
        return (durable_file(world, "/d/x", 0, 0).await, Vec::new());
    }
    let bytes = (0..PAGES).flat_map(|page| [template_byte(page); PAGE]).collect();
    (adopted_file(world, "/d/x", PAGES).await, bytes)
}

async fn whole(file: &File) -> Vec<u8> {
    match file.size().await.expect("size") {
        0 => Vec::new(),
        bytes => read(file, 0, bytes as usize).await,
    }
}

/// Applies a step to the file and to the byte vector.
async fn apply(world: &World, file: &mut File, bytes: &mut Vec<u8>, step: &Step) {
    match step {
        Step::Write { block, blocks, byte } => {
            let (at, len) = (*block as usize * 4096, *blocks * 4096);
            // Two buffers where it goes, of unequal length.
            let mut bufs: Bufs = smallvec![PageBuf::copy_of(&vec![*byte; 4096])];
            if len > 4096 {
                bufs.push(PageBuf::copy_of(&vec![*byte; len - 4096]));
            }
            write(file, at as u64, bufs).await;
            bytes.resize(bytes.len().max(at + len), 0);
            bytes[at..at + len].fill(*byte);
        }
        Step::SetSize { blocks } => {
            file.set_size(blocks * 4096).await.expect("resizes");
            bytes.resize(*blocks as usize * 4096, 0);
        }
        Step::Sync => _ = file.sync().await.expect("syncs"),
        Step::Reopen => *file = reopen(world, "/d/x").await,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(150) })]

    #[test]
    fn without_faults_a_file_is_a_vector_of_bytes_also_after_a_clean_sync_and_power_cut(
        steps in proptest::collection::vec(step(), 1..30),
        is_adopted: bool,
    ) {
        let (sim, world) = with_power_cut(1, PowerCut::lose_all());
        let (bytes, shown) = sim.run_until(async {
            let (mut file, mut bytes) = start(&world, is_adopted).await;
            for step in &steps {
                apply(&world, &mut file, &mut bytes, step).await;
                assert!(whole(&file).await == bytes, "after {step:?}");
            }
            file.sync().await.expect("syncs");
            (bytes, whole(&file).await)
        });
        prop_assert!(shown == bytes);
        let world = sim.restart("a");
        let left = sim.run_until(async { whole(&reopen(&world, "/d/x").await).await });
        prop_assert!(left == bytes, "what was synced is what is left");
    }

    /// After a power cut each sector holds its contents at the last sync, or those of a later write. If the file was
    /// shorter at the last sync, or was cut since, it may hold zeros or stale bytes.
    #[test]
    fn after_a_power_cut_every_sector_is_one_that_was_synced_or_written_since(
        steps in proptest::collection::vec(step(), 1..30),
        is_adopted: bool,
        seed in 0u64..1000,
    ) {
        let (sim, world) = with_power_cut(seed, PowerCut::default());
        let mut history = Vec::new();
        let mut synced = Vec::new();
        sim.run_until(async {
            let (mut file, mut bytes) = start(&world, is_adopted).await;
            synced = bytes.clone();
            for step in &steps {
                apply(&world, &mut file, &mut bytes, step).await;
                if matches!(step, Step::Sync) {
                    synced = bytes.clone();
                    history.clear();
                } else {
                    history.push(step.clone());
                }
            }
        });
        let mut sizes = std::collections::BTreeSet::from([synced.len()]);
        let mut shortest = synced.len();
        let mut longest = 0;
        for step in &history {
            match step {
                Step::SetSize { blocks } => {
                    sizes.insert(*blocks as usize * 4096);
                    shortest = shortest.min(*blocks as usize * 4096);
                }
                Step::Write { block, blocks, .. } => longest = longest.max((*block as usize + blocks) * 4096),
                _ => {}
            }
        }
        let world = sim.restart("a");
        let left = sim.run_until(async { whole(&reopen(&world, "/d/x").await).await });
        prop_assert!(sizes.contains(&left.len()) || left.len() <= longest, "size {}", left.len());
        for (sector, bytes) in left.chunks(512).enumerate() {
            let at = sector * 512;
            let is_old = at < synced.len() && bytes == &synced[at..at + 512];
            let was_written = history.iter().any(|step| match step {
                Step::Write { block, blocks, byte } => {
                    (*block as usize * 4096..(*block as usize + blocks) * 4096).contains(&at)
                        && bytes.iter().all(|found| found == byte)
                }
                _ => false,
            });
            prop_assert!(is_old || was_written || at >= shortest, "sector {} holds {}", sector, bytes[0]);
        }
    }
}
