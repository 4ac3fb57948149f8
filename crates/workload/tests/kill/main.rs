//! Durability on real files: a process under load is killed, again and again, also while it recovers. It works
//! behind a layer that keeps what is not synced in its own memory, so the kill loses what a power cut would;
//! and the layer itself can end the process at a chosen event of the disk, with a chance for everything that
//! was not synced.
//!
//! Promises
//! 1. What is found afterwards is the outcome of a prefix of the commits, in the order of the log, and every
//!    commit that was acknowledged as durable is in it.
//! 2. Every page has its checksum, every tree and the space are whole, every row has the bytes it should have.
//! 3. A kill during recovery, or while the instance is closed, changes nothing of that.
//! 4. A backup copy that is complete restores to the same rows; one that is not cannot be opened.
//! 5. All this holds, too, if processes end alone before the power fails: each reads what the ones before it wrote.
//!
//! PROOFLOAD_KILLS says how many kills come at any time (50 if it is not set). A failure names its seed;
//! PROOFLOAD_KILL_SEED runs that one alone. These kills come when they come: a seed repeats the load and the disk's
//! unkindness, not the instant. `tools/sync-removal` shows that no sync of the engine can go without a failure here.

mod campaign;
mod child;
#[path = "../databases/common/mod.rs"]
mod common;

use std::time::Duration;

use campaign::{Campaign, Totals, Trigger, run_and_kill};
use child::{Aim, COPY, Mode, Phase};
use common::scratch_dir;
use testkit::durable_shadow::{DiskEvent, Pieces, PowerCut};

const KILLS_PER_SEED: u64 = 10;
const FILE_BYTES: u64 = 8 << 20;
/// Size of small logs, which roll often.
const SMALL_LOG_BYTES: u32 = 64 << 10;

fn number_from_environment(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|value| value.parse().unwrap_or_else(|_| panic!("{name} is no number")))
}

fn aim(phase: Phase, event: DiskEvent, number: u64, later: u64) -> Aim {
    Aim { phase, cut: PowerCut { event, number, later, pieces: None }, process_only: false }
}

/// Power cut at an event; `survives_percent` of the pieces of `grain_bytes` survive.
fn aim_pieces(
    phase: Phase,
    event: DiskEvent,
    number: u64,
    (survives_percent, grain_bytes): (usize, u64),
) -> Aim {
    let pieces = Some(Pieces { grain_bytes, survives_percent });
    Aim { phase, cut: PowerCut { event, number, later: 0, pieces }, process_only: false }
}

#[test]
fn every_durable_commit_survives_a_kill_and_what_is_found_is_a_prefix() {
    let kills = number_from_environment("PROOFLOAD_KILLS").unwrap_or(50);
    let only = number_from_environment("PROOFLOAD_KILL_SEED");
    let seeds = only.map_or(1..kills.div_ceil(KILLS_PER_SEED) + 1, |seed| seed..seed + 1);
    let mut totals = Totals::default();
    for seed in seeds {
        let directory = scratch_dir();
        let mut campaign = Campaign::new(directory.path(), seed);
        if let Err(error) = campaign.run(KILLS_PER_SEED) {
            // Kills come when they come: what the seed has left may not come again.
            panic!(
                "PROOFLOAD_KILL_SEED={seed}: {error}; its files are kept in {}",
                directory.keep().display()
            );
        }
        totals.add(campaign.totals);
    }
    eprintln!("{totals:?}");
    if only.is_none() && kills >= 50 {
        totals.require_variety();
    }
}

#[test]
fn a_created_database_is_there_after_a_kill() {
    for seed in 1..=3 {
        let directory = scratch_dir();
        let mut campaign = Campaign::new(directory.path(), seed);
        let mut task = campaign.task(Mode::Create);
        // Nothing but syncs may make it durable.
        (task.disk.early_write_percent, task.disk.torn_sync) = (0, false);
        let trigger = Trigger { line: "created", count: 1, pause: Duration::ZERO };
        run_and_kill(&task, &trigger).unwrap();
        let found = campaign.databases.check_files().unwrap();
        assert!(found == campaign.rows, "seed {seed}: the files are not the template");
    }
}

/// Between two rolls no header is written, so only the checkpoint's own sync makes page writes durable. The flush of
/// the first second writes pages; the checkpoint of the next second passes them.
#[test]
fn a_kill_behind_a_checkpoint_between_two_rolls_loses_nothing() {
    for seed in [2, 6, 10] {
        let directory = scratch_dir();
        let mut campaign = Campaign::new(directory.path(), seed);
        campaign.create();
        for round in 1..=2 {
            let mut task = campaign.task(Mode::SlowLoad);
            task.disk.early_write_percent = 0;
            let pause = Duration::from_millis(campaign.below(2000));
            let done = campaign.round_of(&task, &Trigger { line: "checkpoint", count: 2, pause });
            done.unwrap_or_else(|error| panic!("seed {seed}, round {round}: {error}"));
        }
    }
}

/// A new log stream has new names, contents and headers, and the headers of the databases soon rely on each.
#[test]
fn a_power_cut_during_the_first_opening_loses_nothing() {
    let directory = scratch_dir();
    let mut campaign = Campaign::with(directory.path(), 1, 4096, SMALL_LOG_BYTES);
    campaign.create();
    let new = campaign.copy_files();
    for (event, numbers) in
        [(DiskEvent::Name, 1..=6), (DiskEvent::SyncDir, 1..=4), (DiskEvent::HeadSync, 1..=24)]
    {
        for number in numbers {
            campaign.put_files(&new);
            let later = campaign.below(3);
            campaign.cut(Mode::Recover, aim(Phase::Start, event, number, later)).unwrap();
        }
    }
    assert!(campaign.totals.cuts >= 25, "{:?}", campaign.totals);
}

/// The header says from which position on the log holds changes of its database. A process that is killed after its
/// header became durable leaves the beginning of the next process's log; all records of that log count.
#[test]
fn a_kill_while_databases_are_attached_hides_no_record_of_the_next_process() {
    let directory = scratch_dir();
    let mut campaign = Campaign::with(directory.path(), 9, 4096, SMALL_LOG_BYTES);
    campaign.create();
    let new = campaign.copy_files();
    let rows = campaign.rows.clone();
    for round in 1..=12 {
        campaign.start_over(&new, &rows);
        let task = campaign.task(Mode::Recover);
        campaign.kill(&task, &Trigger { line: "open", count: 2, pause: Duration::ZERO }).unwrap();
        let mut task = campaign.task(Mode::Load);
        // Pages that were not written need every record of theirs.
        task.disk.early_write_percent = 0;
        let done = campaign.round_of(&task, &Trigger { line: "durable", count: 5, pause: Duration::ZERO });
        done.unwrap_or_else(|error| panic!("round {round}: {error}"));
    }
}

/// When the log is full and all pages are written, the checkpoint names the next log. If a power cut takes that log,
/// the next process must continue after the full log, not inside it.
#[test]
fn a_power_cut_before_the_log_that_the_checkpoint_names_loses_nothing() {
    let directory = scratch_dir();
    let mut campaign = Campaign::with(directory.path(), 10, 4096, SMALL_LOG_BYTES);
    campaign.create();
    // Two segments to attach the databases and one to detach them: the fifth opening fills the log.
    for _ in 0..4 {
        campaign.recover().unwrap();
    }
    let nearly_full = campaign.copy_files();
    let rows = campaign.rows.clone();
    for number in [1, 2, 3].repeat(4) {
        campaign.start_over(&nearly_full, &rows);
        let (task, mut trigger) = campaign.aimed(Mode::Recover, aim(Phase::Open, DiskEvent::Name, number, 0));
        // The names change behind the opening. Some of the times fewer of them do: the kill comes when they have.
        trigger.pause = Duration::from_secs(1);
        campaign.kill(&task, &trigger).unwrap();
        let task = campaign.task(Mode::Load);
        let done = campaign.round_of(&task, &Trigger { line: "durable", count: 3, pause: Duration::ZERO });
        done.unwrap_or_else(|error| panic!("power cut at change of names {number}: {error}"));
    }
    assert!(campaign.totals.cuts >= 4, "{:?}", campaign.totals);
}

/// A roll of the log changes names and headers. Each change is cut off several times, and what survives is random.
#[test]
fn a_power_cut_during_a_roll_loses_nothing() {
    let directory = scratch_dir();
    let mut campaign = Campaign::with(directory.path(), 2, 4096, SMALL_LOG_BYTES);
    campaign.create();
    for round in 0..5 {
        for number in 1..=8 {
            let event = if round < 4 { DiskEvent::Name } else { DiskEvent::SyncDir };
            campaign.cut(Mode::Load, aim(Phase::Open, event, number, 0)).unwrap();
        }
    }
    for number in 0..48 {
        campaign.cut(Mode::Load, aim(Phase::Open, DiskEvent::HeadSync, 2 + 2 * number, 0)).unwrap();
    }
    assert!(campaign.totals.cuts >= 75, "{:?}", campaign.totals);
}

/// Each roll writes every header and its shadow. If both were in flight together, one power cut could tear both.
#[test]
fn a_power_cut_while_headers_are_written_leaves_one_copy_of_each() {
    let directory = scratch_dir();
    let mut campaign = Campaign::with(directory.path(), 7, 4096, SMALL_LOG_BYTES);
    campaign.create();
    for number in 0..60 {
        let torn = aim_pieces(Phase::Open, DiskEvent::HeadSync, 31 + 5 * (number % 20), (50, 64));
        campaign.cut(Mode::Load, torn).unwrap();
    }
    assert!(campaign.totals.cuts >= 45, "{:?}", campaign.totals);
}

/// A commit is lost because its first segment is lost; its last segment, with the commit record, is on disk. The
/// repeated transaction writes the same first segment again. Together they must not look like the lost commit.
#[test]
fn leftovers_of_a_lost_commit_do_not_complete_the_same_transaction_made_again() {
    let directory = scratch_dir();
    let mut campaign = Campaign::with(directory.path(), 8, 4096, 256 << 10);
    campaign.create();
    // Opened for the first time a database is attached, by a record of its own: that is behind us then.
    let opened = Trigger { line: "open", count: 2, pause: Duration::ZERO };
    let task = campaign.task(Mode::Recover);
    campaign.kill(&task, &opened).unwrap();
    let start = campaign.copy_files();
    let cut = aim_pieces(Phase::Job, DiskEvent::Sync, 1, (50, 4096));
    let mut lost = 0;
    while lost < 3 {
        assert!(campaign.totals.kills < 100, "no power cut leaves a commit without its beginning");
        campaign.put_files(&start);
        let said = campaign.make_same_transaction(Mode::Commit, cut).unwrap();
        if campaign.segments_behind_the_end() == 0 {
            continue;
        }
        lost += 1;
        let left = campaign.copy_files();
        campaign.recover_and_settle(&said).unwrap();
        for _ in 0..8 {
            campaign.put_files(&left);
            let said = campaign.make_same_transaction(Mode::Begin, cut).unwrap();
            campaign.recover_and_settle(&said).unwrap();
        }
    }
}

/// The databases are recovered after a power cut, and the next power cut comes at the first writes after that.
#[test]
fn power_cuts_one_soon_after_the_other_lose_nothing() {
    let directory = scratch_dir();
    let mut campaign = Campaign::with(directory.path(), 3, 8192, 256 << 10);
    campaign.create();
    for number in 1..=30 {
        let first = 20 + campaign.below(200);
        let (task, trigger) = campaign.aimed(Mode::Load, aim(Phase::Open, DiskEvent::Sync, first, 0));
        let said = campaign.kill(&task, &trigger).unwrap();
        let left = campaign.copy_files();
        campaign.recover_and_settle(&said).unwrap();
        campaign.put_files(&left);
        campaign.cut(Mode::Load, aim(Phase::Open, DiskEvent::Sync, number, 0)).unwrap();
    }
    assert!(campaign.totals.cuts >= 50, "{:?}", campaign.totals);
}

/// The machine keeps running, so each process reads all that earlier processes wrote. The power cut at the end takes
/// all writes without a sync, of every process.
#[test]
fn processes_that_end_one_after_the_other_before_a_power_cut_lose_nothing() {
    let mut totals = Totals::default();
    for seed in 1..=4 {
        let directory = scratch_dir();
        let mut campaign = Campaign::with(directory.path(), 30 + seed, 4096, SMALL_LOG_BYTES);
        campaign.create();
        for round in 1..=6 {
            let explain = |error: String| format!("seed {seed}, round {round}: {error}");
            campaign.ends_before_a_power_cut().map_err(explain).unwrap();
        }
        totals.add(campaign.totals);
    }
    assert!(totals.cuts >= 60, "{totals:?}");
}

#[test]
fn power_cuts_during_recovery_lose_nothing() {
    let directory = scratch_dir();
    let mut campaign = Campaign::with(directory.path(), 4, 4096, SMALL_LOG_BYTES);
    campaign.create();
    for _ in 0..3 {
        let first = 100 + campaign.below(300);
        let (task, trigger) = campaign.aimed(Mode::Load, aim(Phase::Open, DiskEvent::Sync, first, 0));
        let said = campaign.kill(&task, &trigger).unwrap();
        let (left, rows) = (campaign.copy_files(), campaign.rows.clone());
        for event in DiskEvent::ALL {
            for _ in 0..3 {
                campaign.put_files(&left);
                campaign.rows.clone_from(&rows);
                // Twice: the second finds what the first has left of recovery.
                for _ in 0..2 {
                    let number = 1 + campaign.below(if event == DiskEvent::Sync { 60 } else { 6 });
                    let (task, trigger) = campaign.aimed(Mode::Recover, aim(Phase::Start, event, number, 0));
                    campaign.kill(&task, &trigger).unwrap();
                }
                campaign.recover_and_settle(&said).unwrap_or_else(|error| panic!("{event:?}: {error}"));
            }
        }
    }
    assert!(campaign.totals.cuts >= 30, "{:?}", campaign.totals);
}

#[test]
fn a_power_cut_while_the_instance_closes_loses_nothing() {
    let directory = scratch_dir();
    let mut campaign = Campaign::with(directory.path(), 5, 4096, 256 << 10);
    campaign.create();
    for number in 0..16 {
        let event = if number % 2 == 0 { DiskEvent::Sync } else { DiskEvent::HeadSync };
        campaign.cut(Mode::LoadAndClose, aim(Phase::Job, event, 1 + 2 * number, 0)).unwrap();
        let write = 1 + campaign.below(40);
        campaign.cut(Mode::LoadAndClose, aim(Phase::Job, DiskEvent::Write, write, number % 3)).unwrap();
    }
    assert!(campaign.totals.cuts >= 20, "{:?}", campaign.totals);
}

/// The source is intact. The copy restores to the rows of the source, or it is refused. The next restore repeats one
/// that was cut off.
#[test]
fn a_power_cut_during_a_backup_harms_nothing_and_half_a_copy_is_none() {
    let directory = scratch_dir();
    let mut campaign = Campaign::with(directory.path(), 6, 4096, 256 << 10);
    campaign.create();
    let new = campaign.copy_files();
    let (mut whole, mut half) = (0, 0);
    let any = |event, count: u64, step| (0..count).map(move |n| aim(Phase::Job, event, 1 + step * n, 0));
    // The header and the pages before it, if they were under way at once, in pieces that hold a header and much else.
    let head = (0..6).map(|n| aim_pieces(Phase::Copied, DiskEvent::HeadSync, 1 + n % 3, (90, 64 << 10)));
    let never = aim(Phase::Job, DiskEvent::SyncDir, u64::MAX, 0);
    let all = head.chain(any(DiskEvent::Sync, 20, 4)).chain(any(DiskEvent::Write, 6, 8));
    for aim_at in all.chain([never, never]) {
        let PowerCut { event, number, .. } = aim_at.cut;
        let _ = std::fs::remove_dir_all(directory.path().join("backup"));
        campaign.put_files(&new);
        campaign.rows = campaign.databases.initial_rows();
        std::fs::create_dir(directory.path().join("backup")).unwrap();
        let (task, trigger) = campaign.aimed(Mode::Backup, aim_at);
        let said = campaign.kill(&task, &trigger).unwrap();
        let left = campaign.copy_files();
        campaign.recover_and_settle(&said).unwrap();
        let cut = (number % 8 == 1).then(|| aim(Phase::Start, DiskEvent::Sync, 2 + number / 2, 0));
        let restored = campaign.restore(left.path(), cut);
        let restored = restored.unwrap_or_else(|error| panic!("{event:?} {number}: {error}"));
        assert!(restored || !said.has("backed up"), "a copy that was complete is not there");
        whole += u64::from(restored);
        half += u64::from(!restored && left.path().join(COPY).exists());
    }
    assert!(whole >= 2 && half >= 1, "{whole} whole copies, {half} halves");
}
