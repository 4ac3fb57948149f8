//! Segments of the current log that are damaged after a crash. Each was durable, or belongs to the one write that was
//! under way.

use edb::log::{LogHeader, LogPosition, SEGMENT_BYTES, SegmentState, judge_segment};
use engine::{Durability, Instance, InstanceConfig, LogStore, Redo};
use world::World;
use world::sim::{Faults, Outcome, PowerCut, Simulation};

use super::seed::new_simulation;
use super::snapshot::Snapshot;
use super::{check_structure, create, scan, tree_number};

pub const CURRENT: &str = "/log/E00.log";
const LOG_BYTES: usize = 512 << 10;
/// Number of commits of each of the two processes that write the same log one after the other.
const COMMITS: u32 = 24;
/// Offset of the record format number in the log header, bytes.
const AT_RECORD_FORMAT: usize = 4092;
/// Offset in a segment of the number of the first segment of its write, bytes.
const AT_WRITE: usize = 24;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Damage {
    Zeroed,
    TwoBitsFlipped,
    /// The segment with the same number from the previous log.
    OfOlderLog,
    /// The previous segment of the same log.
    OfOtherPlace,
}

pub const DAMAGES: [Damage; 4] =
    [Damage::Zeroed, Damage::TwoBitsFlipped, Damage::OfOlderLog, Damage::OfOtherPlace];

/// Files after a crash, and the part of the log that was acknowledged.
pub struct Left {
    pub config: InstanceConfig,
    pub files: Snapshot,
    /// Commits of the instance.
    pub acknowledged: u32,
    /// End of the log that a passive copy has stored durably.
    pub stored: LogPosition,
}

fn tearing() -> PowerCut {
    PowerCut { lost_write: 0.2, torn_write: 0.6, ..PowerCut::default() }
}

fn key(commit: u32, row: u32) -> Vec<u8> {
    [commit.to_be_bytes(), row.to_be_bytes()].concat()
}

/// Commits one small row, or six large rows that take many segments.
async fn commit(instance: &Instance, number: u32) -> engine::Result<()> {
    let mut transaction = instance.begin();
    let (rows, bytes) = if number.is_multiple_of(4) { (6, 1500) } else { (1, 40) };
    for row in 0..rows {
        transaction.insert(1, tree_number(0), &key(number, row), &vec![number as u8; bytes]).await?;
    }
    transaction.commit(Durability::Durable).await
}

/// Commits durably up to number `until`; a power cut tears that last commit. Returns the end of the log before it.
fn commit_until_power_fails(sim: &Simulation, instance: &Instance, from: u32, until: u32) -> LogPosition {
    sim.run_until(async {
        for number in from..until {
            commit(instance, number).await.unwrap();
        }
    });
    let crash = Faults { crash_at_nth_sync: Some(1), power_cut: tearing(), ..Faults::default() };
    sim.set_faults(crash);
    let end = instance.durable_log();
    let torn = sim.run_until_crash_or(commit(instance, until));
    assert!(matches!(torn, Outcome::Crashed { .. }), "the write of the last commit was not cut off");
    sim.set_faults(Faults::default());
    end
}

impl Left {
    /// Two processes write one log, one after the other, and a power cut ends each. The second continues where the
    /// first recovery cut the log. `None` if no segment of the last write is intact: then no segment proves that the
    /// previous write was durable.
    pub fn by_instance(seed: u64) -> Option<Left> {
        let (sim, world) = new_simulation(seed);
        let config = sim.run_until(create(&world, 1, 1));
        let config = InstanceConfig { log_bytes: LOG_BYTES as u32, ..config };
        let (instance, _) = sim.run_until(Instance::open(&world, &config)).unwrap();
        commit_until_power_fails(&sim, &instance, 0, COMMITS);
        drop(instance);
        let world = sim.restart("h");
        let (instance, _) = sim.run_until(Instance::open(&world, &config)).unwrap();
        let end = commit_until_power_fails(&sim, &instance, COMMITS + 1, 2 * COMMITS);
        drop(instance);
        let files = Snapshot::take(&sim);
        let left = Left { config, files, acknowledged: 2 * COMMITS, stored: LogPosition::default() };
        left.holds_more_than(end).then_some(left)
    }

    /// A passive copy stores eight stretches of log, each of several writes, and a power cut tears the last one.
    /// `None` if no segment of the last stretch is intact: then no segment proves that the previous one was durable.
    pub fn by_copy(seed: u64) -> Option<Left> {
        let (sim, active) = (new_simulation(seed).0, "active");
        let world = sim.host(active);
        ["/db", "/log"].iter().for_each(|volume| sim.volume(active, volume, 1 << 40));
        let config = sim.run_until(create(&world, 1, 1));
        let config = InstanceConfig { log_bytes: LOG_BYTES as u32, ..config };
        let (instance, _) = sim.run_until(Instance::open(&world, &config)).unwrap();
        let copy = sim.restart("h");
        let mut store = sim.run_until(LogStore::open(&copy, &config)).unwrap();
        let mut stored = LogPosition::default();
        for stretch in 0..8 {
            sim.run_until(async {
                for number in 5 * stretch..5 * (stretch + 1) {
                    commit(&instance, number).await.unwrap();
                }
            });
            let from = store.extent().map_or(LogPosition::new(1, 0, 0), |(_, end)| end);
            let read = sim.run_until(instance.read_log(from, instance.durable_log()));
            let (log, is_last) = (read.unwrap().expect("there is log"), stretch == 7);
            if is_last {
                sim.set_faults(Faults {
                    crash_at_nth_sync: Some(1),
                    power_cut: tearing(),
                    ..Faults::default()
                });
                let torn = sim.run_until_crash_or(store.store(&log));
                assert!(matches!(torn, Outcome::Crashed { .. }), "the last stretch was not cut off");
            } else {
                sim.run_until(store.store(&log)).unwrap();
                stored = log.end();
            }
        }
        drop((store, instance));
        let left = Left { config, files: Snapshot::take(&sim), acknowledged: 0, stored };
        left.holds_more_than(stored).then_some(left)
    }

    /// Whether an intact segment lies behind `end`.
    fn holds_more_than(&self, end: LogPosition) -> bool {
        let segments = self.log().as_chunks::<SEGMENT_BYTES>().0;
        let is_good = |number: &usize| {
            judge_segment(&segments[*number], end.generation(), *number as u16) == SegmentState::Good
        };
        self.used().iter().filter(|number| **number >= usize::from(end.segment())).any(is_good)
    }

    fn log(&self) -> &[u8] {
        self.files.files().find(|(path, _)| *path == CURRENT).expect("there is a current log").1
    }

    /// Numbers of the segments that are not zero, without the header and the last segment.
    pub fn used(&self) -> Vec<usize> {
        let last = LOG_BYTES / SEGMENT_BYTES - 1;
        let segments = self.log().as_chunks::<SEGMENT_BYTES>().0;
        (1..last).filter(|number| segments[*number].iter().any(|byte| *byte != 0)).collect()
    }

    /// Converts the log to record format 0, whose segments do not name the write that they belong to.
    pub fn in_format_0(mut self) -> Left {
        let used = self.used();
        self.files.change(CURRENT, |log| {
            for number in used {
                let segment = &mut log[number * SEGMENT_BYTES..][..SEGMENT_BYTES];
                let is_whole = edb::checksum::verify(segment, number as u32) == edb::checksum::Verdict::Ok;
                segment[AT_WRITE..AT_WRITE + 2].fill(0);
                if is_whole {
                    edb::checksum::stamp(segment, number as u32);
                }
            }
            log[AT_RECORD_FORMAT] = 0;
            edb::checksum::stamp_header(&mut log[..SEGMENT_BYTES]);
        });
        self
    }

    pub fn damaged(&self, number: usize, damage: Damage) -> Snapshot {
        let mut files = self.files.clone();
        files.change(CURRENT, |log| {
            let header = LogHeader::parse(log.first_chunk().unwrap()).unwrap();
            let (before, rest) = log.split_at_mut(number * SEGMENT_BYTES);
            let segment = &mut rest[..SEGMENT_BYTES];
            match damage {
                Damage::Zeroed => segment.fill(0),
                Damage::TwoBitsFlipped => {
                    (segment[700], segment[3001]) = (segment[700] ^ 1, segment[3001] ^ 64)
                }
                Damage::OfOlderLog => {
                    let place = LogPosition::new(header.generation - 1, number as u16, 0);
                    segment[8..16].copy_from_slice(&place.to_bytes());
                    // A torn segment may have lost the flag that tells the form of the checksum.
                    segment[36..40].copy_from_slice(&0x2000u32.to_le_bytes());
                    edb::checksum::stamp(segment, number as u32);
                }
                Damage::OfOtherPlace => segment.copy_from_slice(&before[before.len() - SEGMENT_BYTES..]),
            }
        });
        files
    }
}

/// Checks the rows of all commits. `Err` if an acknowledged commit is missing.
async fn judge_commits(instance: &Instance, acknowledged: u32) -> Result<(), String> {
    let rows = scan(&instance.begin(), 1, tree_number(0)).await.map_err(|error| error.to_string())?;
    // The commit between the two lives was not acknowledged.
    let missing = (0..acknowledged).find(|number| *number != COMMITS && !rows.contains_key(&key(*number, 0)));
    check_structure(instance, 1, 1).await.map_err(|error| error.to_string())?;
    missing.map_or(Ok(()), |number| Err(format!("commit {number} was acknowledged and is missing")))
}

/// Checks that `files` are unchanged.
fn judge_untouched(sim: &Simulation, files: &Snapshot) -> Result<(), String> {
    let after = Snapshot::take(sim);
    for (path, bytes) in files.files() {
        match after.files().find(|(found, _)| *found == path) {
            Some((_, found)) if found == bytes => {}
            _ => return Err(format!("the refused opening has changed {path}")),
        }
    }
    Ok(())
}

/// Opens an instance over damaged files. `Ok(true)`: the opening was refused with the segment's name and changed
/// nothing. `Ok(false)`: it succeeded, and all acknowledged commits are there.
pub fn open_damaged(left: &Left, files: &Snapshot, segment: usize, redo: Redo) -> Result<bool, String> {
    let (sim, world) = files.restore();
    let config = InstanceConfig { redo, ..left.config.clone() };
    let opened = sim.run_until(Instance::open(&world, &config));
    match opened {
        Ok((instance, _)) => sim.run_until(judge_commits(&instance, left.acknowledged)).map(|()| false),
        Err(error) => {
            judge_refusal(&error, segment).and_then(|()| judge_untouched(&sim, files)).map(|()| true)
        }
    }
}

/// Opens the log of a passive copy over damaged files; result as of [`open_damaged`].
pub fn open_damaged_copy(left: &Left, files: &Snapshot, segment: usize) -> Result<bool, String> {
    let (sim, world) = files.restore();
    match sim.run_until(end_of_copy(&world, &left.config)) {
        Ok(end) if end >= left.stored => Ok(false),
        Ok(end) => Err(format!("log up to {:?} was stored, {end:?} is there", left.stored)),
        Err(error) => {
            judge_refusal(&error, segment).and_then(|()| judge_untouched(&sim, files)).map(|()| true)
        }
    }
}

async fn end_of_copy(world: &World, config: &InstanceConfig) -> engine::Result<LogPosition> {
    let store = LogStore::open(world, config).await?;
    Ok(store.extent().map_or(LogPosition::default(), |(_, end)| end))
}

fn judge_refusal(error: &engine::Error, segment: usize) -> Result<(), String> {
    let text = error.to_string();
    let is_named =
        text.contains(CURRENT) && text.contains(&format!("segment {segment} is not what was written"));
    if is_named { Ok(()) } else { Err(format!("the error does not name file and segment: {text}")) }
}

/// Damages each segment in each way. Returns the number of cases, the number of refused openings, and the failures.
pub fn damage_each_segment(
    left: &Left,
    mut open: impl FnMut(&Left, &Snapshot, usize) -> Result<bool, String>,
) -> (u32, u32, Vec<String>) {
    let (mut cases, mut refused, mut failed) = (0, 0, Vec::new());
    for number in left.used() {
        for damage in DAMAGES {
            cases += 1;
            match open(left, &left.damaged(number, damage), number) {
                Ok(is_refused) => refused += u32::from(is_refused),
                Err(error) => failed.push(format!("segment {number} {damage:?}: {error}")),
            }
        }
    }
    (cases, refused, failed)
}
