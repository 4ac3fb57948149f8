//! What a planner would ask about pools of disks that several volumes share.

use crate::common;
use crate::common::Question;
use results::IoClass::TransactionalRead;
use simulation::{Assumptions, storage};
use solution::Solution;

/// Two volumes in a pool of disks of 7,200 rpm.
fn pool(disks: u32, raid: &str, more: &str) -> String {
    format!(
        r#"
[[pool]]
name = "Pool"
disk = "ST4000NM0023"
disks = {disks}
raid = "{raid}"
{more}

[[volume]]
name = "LUN{{n}}"
count = 2
pool = "Pool"
capacity_gib = 256
path = "/lun{{n}}"
"#
    )
}

/// The flash drive of a read cache.
const FLASH_DISK: &str = "\n[[disk]]\nname = \"SSDSC2BX800G4\"\ncapacity_gb = 800\n";

const DYNAMIC: &str = "store = { kind = \"dynamic_pool\", model = \"2012\", spare_disks = 1 }";

/// Rebuild settings with enough steps at a time to use many disks.
const PRIORITY: &str = "[rebuild.default]\n\
    step_bytes = { value = 4_194_304, source = \"assumption: long steps\" }\n\
    steps = { value = 32, source = \"assumption: high priority\" }\n\
    start_after_ms = { value = 1000.0, source = \"assumption: at once\" }\n";

fn question(volumes: String) -> Question {
    Question { volumes, database_mib: 16_384, duration_s: 60, ..Question::new("sessions = 8") }
}

/// Time of the event whose text begins with `done`, s.
fn seconds_until(question: &Question, done: &str) -> f64 {
    let answer = question.answer();
    let (at_s, text) = answer.event(done);
    assert!(at_s > 1.0, "{text}");
    at_s
}

#[test]
fn spare_room_that_is_spread_over_a_pool_is_rebuilt_faster_than_one_spare() {
    let fault = "kind = \"disk_fails\"\nat_s = 0\ntest = \"performance\"";
    let seconds = |volumes, array, hot_spares, database_mib| {
        let load = "sessions = 2".into();
        let base = Question { load, duration_s: 300, assumptions: PRIORITY, ..question(volumes) };
        seconds_until(
            &Question { array, hot_spares, database_mib, ..base.with_fault(fault) },
            "rebuilt after",
        )
    };
    // The lost disk holds as much in both: a group of 12 with a spare beside it, a pool of 48 with the room of
    // a spare in it.
    let alone = seconds(pool(12, "raid6", ""), "", 1, 60_000);
    let together = seconds(pool(48, "raid6", ""), DYNAMIC, 0, 192_000);
    assert!(together * 1.5 < alone, "{together} s spread over the pool, {alone} s onto one spare");
}

#[test]
fn disks_that_are_added_to_a_pool_take_their_share_and_reads_become_faster() {
    let fault = "kind = \"disks_added\"\ndisks = 12\nat_s = 30\ntest = \"performance\"";
    let without = Question {
        array: DYNAMIC,
        duration_s: 160,
        load: "sessions = 32".into(),
        assumptions: PRIORITY,
        ..question(pool(12, "raid6", ""))
    };
    let answer = without.clone().with_fault(fault).answer();
    answer.event("expected fault: disks added to the pool of LUN1: 12");
    let moved_s = answer.event("moved after").0 as u64 + 1;
    let end = |answer: &common::Answer| answer.phase(TransactionalRead, moved_s, 160);
    let (twelve, twice) = (end(&without.answer()), end(&answer));
    assert!(
        twice.latency_ms * 1.2 < twelve.latency_ms && twice.per_s > twelve.per_s * 1.2,
        "{twelve:?} {twice:?}"
    );
    let summary = answer.event("as users saw it: disks added").1;
    assert!(summary.contains("moved after"), "{summary}");
}

#[test]
fn volumes_of_several_hosts_lie_on_the_same_disks() {
    let text = |array: &str| {
        format!(
            "[solution]\nname = \"Two hosts\"\nschema = 1\n\n[[host]]\nname = \"h{{n}}\"\ncount = 2\n\n\
             [[disk]]\nname = \"ST4000NM0023\"\ncapacity_gb = 4000\n{}\n\
             [array]\nscope = \"shared\"\ncontroller = \"sas-array-2013\"\nlink = \"sas-6g-x4\"\n{array}\n\n\
             [[instance]]\nname = \"DB{{n}}\"\ncount = 2\nvolume = \"LUN{{n}}\"\n\n\
             [sizing]\ndatabase_mib = 128\n\n[load]\nsessions = 1\n",
            pool(12, "raid6", "")
        )
    };
    for array in ["", DYNAMIC] {
        let solution = Solution::parse(&text(array), "hosts.toml").unwrap_or_else(|error| panic!("{error}"));
        let hosts = ["h1", "h2"].map(|host| solution.deployment(Some(host)).expect("a host"));
        let storage =
            storage(&solution, &hosts, &Assumptions::shipped(), 1).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(storage.parts.len(), 4);
        assert!(storage.parts.iter().all(|parts| parts.drives == (0..12).collect::<Vec<_>>()), "{array}");
    }
}

#[test]
fn more_disks_in_a_pool_serve_more() {
    let iops = |disks| {
        let load = "sessions = 32".into();
        Question { load, ..question(pool(disks, "raid6", "")) }.answer().iops()
    };
    let (few, many) = (iops(6), iops(12));
    assert!(few * 1.3 < many, "{few} on 6 disks, {many} on 12");
}

#[test]
fn a_thin_pool_that_promised_too_much_stops_the_databases_in_the_middle_of_a_file() {
    // Two volumes are promised 3,000 GiB each of 3,726, and the databases leave some 7 MiB to log and growth.
    let thin = pool(2, "raid1", "thin_chunk_kib = 1024").replace("256", "3000");
    let question = |database_mib| Question { database_mib, duration_s: 60, ..question(thin.clone()) };
    let error = question(1_907_691).breakdown();
    assert!(error.contains("the storage behind the volume is full"), "{error}");
    let answer = question(1_900_000).answer();
    let pool = answer.part("pool").expect("the pool is listed");
    let (taken, promised) = pool.state.split_once(" GiB taken, ").expect("how full it is");
    assert!(taken.starts_with("37") && promised == "6000.0 promised", "{}", pool.state);
}

#[test]
fn snapshots_cost_the_copies_of_what_is_changed_after_them() {
    let iops = |more| {
        let load = "sessions = 16".into();
        let more = format!("thin_chunk_kib = 256\n{more}");
        Question { load, ..question(pool(6, "raid10", &more)) }.answer().iops()
    };
    let (with, without) = (iops("snapshots = { every_min = 0.1, keep = 4 }"), iops(""));
    assert!(with * 1.05 < without, "{without} without, {with} with snapshots");
}

#[test]
fn users_are_slower_while_a_clone_is_read_and_their_writes_take_room_until_then() {
    let fault = "kind = \"clone_read\"\nat_s = 20\ntest = \"performance\"\nmib_per_s = 600";
    let volumes = pool(6, "raid10", "thin_chunk_kib = 256");
    let answer =
        Question { database_mib: 8_192, duration_s: 160, ..question(volumes) }.with_fault(fault).answer();
    answer.event("expected fault: a clone of the pool of LUN1 is read");
    let (end_s, text) = answer.event("read, ");
    assert!(text.contains(" GiB held for it after ") && !text.contains("read, 0.00"), "{text}");
    // 16 GiB.
    assert!((60.0..130.0).contains(&end_s), "{end_s} s");
    let read_ms = |from_s, to_s| answer.phase(TransactionalRead, from_s, to_s).latency_ms;
    let (before, during, after) = (read_ms(0, 20), read_ms(20, 60), read_ms(end_s as u64 + 1, 160));
    assert!(during > 1.5 * before && after < 0.75 * during, "{before} {during} {after} ms");
    let summary = answer.event("as users saw it: a clone").1;
    assert!(summary.contains("GiB held for it after"), "{summary}");
    let pool = answer.part("pool").expect("listed");
    assert!(!pool.state.contains("held"), "{}", pool.state);
}

#[test]
fn a_read_cache_in_front_of_a_pool_helps_as_far_as_it_holds_what_is_read() {
    // Two databases of 400 GB in front of flash of 800 GB, or of 8 GB.
    const ALL: &str = "[array.read_cache]\ndisk = \"SSDSC2BX800G4\"\ndisks = 1";
    const SMALL: &str = "[drive.SSDSC2BX800G4]\ncapacity_bytes = { value = 8000000000, source = \"assumption: a small one\" }\n";
    let answer = |array, assumptions| {
        let load = "sessions = 8".into();
        let volumes = pool(6, "raid10", "").replace("256", "512") + FLASH_DISK;
        Question { load, array, assumptions, database_mib: 380_000, ..question(volumes) }.answer()
    };
    let (without, all, small) = (answer("", ""), answer(ALL, ""), answer(ALL, SMALL));
    let reads = [&without, &all, &small].map(|answer| answer.read_ms());
    assert!(reads[1] < 0.5 * reads[0], "{reads:?} ms");
    // The load reads some places far more often than others.
    assert!((0.6..0.85).contains(&(reads[2] / reads[0])), "{reads:?} ms");
    assert!(without.part("read_cache").is_none());
    let cache = all.part("read_cache").expect("it is listed");
    assert!(cache.cache_hits > 10 * cache.cache_misses, "{} {}", cache.cache_hits, cache.cache_misses);
}

/// Two databases of 400 GB on six disks and two flash drives of 80 GB.
fn tiered(tiering: &str) -> Question {
    let fast = format!("fast_disk = \"SSDSC2BX800G4\"\nfast_disks = 2\n{tiering}");
    let volumes = pool(6, "raid10", &fast).replace("256", "512") + FLASH_DISK;
    let load = "sessions = 8".into();
    Question { load, assumptions: SMALL_SLICES, database_mib: 380_000, ..question(volumes) }
}

const SMALL_SLICES: &str = "[drive.SSDSC2BX800G4]\n\
    capacity_bytes = { value = 80000000000, source = \"assumption: a small one\" }\n\
    [tiering.2011]\n\
    slice_bytes = { value = 268_435_456, source = \"assumption: known within a minute\" }\n";

#[test]
fn tiers_hold_what_is_busy_once_it_has_moved() {
    let answer =
        |more: &str| tiered(&format!("tiering = {{ model = \"2011\", raid = \"raid1\", {more} }}")).answer();
    let even = answer("every_min = 60");
    let settled = answer("every_min = 0.5, settled = true");
    let moving = answer("every_min = 0.5");
    let reads = [&even, &settled, &moving].map(|answer| answer.phase(TransactionalRead, 15, 60).latency_ms);
    assert!(reads[1] < 0.3 * reads[0] && reads[2] > 0.9 * reads[0], "{reads:?} ms");
    let states = [&even, &settled, &moving].map(|answer| answer.part("pool").expect("listed").state.as_str());
    assert!(states[0].starts_with("tiers: 7.0 of 74.5 GiB with 2 % of the I/O"), "{}", states[0]);
    assert!(states[1].starts_with("tiers: 67.2 of 74.5 GiB with 7"), "{}", states[1]);
    let left_gib =
        states[2].split_once("GiB relocated, ").and_then(|(_, left)| left.split(' ').next()?.parse().ok());
    assert!(left_gib.is_some_and(|left: f64| (65.0..74.5).contains(&left)), "within a minute: {}", states[2]);
}

#[test]
fn a_disk_of_the_faster_tier_is_a_disk_of_its_volumes() {
    let fault = "kind = \"disk_fails\"\ndisk = 8\nat_s = 1\ntest = \"performance\"";
    let tiering = "tiering = { model = \"2011\", raid = \"raid1\", every_min = 60 }";
    let answer = Question { duration_s: 10, ..tiered(tiering) }.with_fault(fault).answer();
    let reads = ["E Pool fast disk 1", "E Pool fast disk 2"].map(|name| {
        let mut of_drive = answer.rows.iter().filter_map(|row| match row {
            results::Row::StoragePart(part) if part.name == name => Some(part.reads),
            _ => None,
        });
        of_drive.next_back().expect("listed")
    });
    assert!(reads[0] > 4 * reads[1] && reads[0] > 20, "{reads:?}");
}

/// Disks that are smaller than the model that answers for them.
const SMALL_DISK: &str = "[[disk]]\nname = \"small\"\nmodel = \"ST4000NM0023\"\ncapacity_gb = 1\n";

#[test]
fn databases_that_are_larger_than_the_disks_of_the_solution_are_refused() {
    let volume = "[[volume]]\nname = \"LUN{n}\"\ncount = 2\ndisk = \"small\"\ndisks = 2\nraid = \"raid1\"\n";
    let volumes = format!("{SMALL_DISK}{volume}path = \"/lun{{n}}\"\n");
    let error = Question { database_mib: 1_000_000, ..question(volumes) }.refused_storage();
    assert!(error.contains("need 976.6 GiB, and it holds 0.9 GiB (2 x `small` of 1 GB)"), "{error}");
    assert!(error.contains("what_if.toml:"), "{error}");
    let in_pool = pool(12, "raid6", "").replace("disk = \"ST4000NM0023\"", "disk = \"small\"");
    let error = question(format!("{SMALL_DISK}{in_pool}")).refused_storage();
    assert!(error.contains("databases of 32.0 GiB do not fit into pool `Pool` of 9.3 GiB"), "{error}");
}

#[test]
fn a_pool_that_cannot_be_is_refused_where_it_stands() {
    let refused = |volumes: String| question(volumes).refused_storage();
    let large = pool(4, "raid6", "").replace("256", "6000");
    let error = refused(large);
    assert!(
        error.contains("volume `LUN2` of 6000.0 GiB does not fit") && error.contains("what_if.toml:"),
        "{error}"
    );
    assert!(refused(pool(12, "raid6", "group_disks = 6")).contains("describe each group as a pool"));
    let fast = "fast_disk = \"ST4000NM0023\"\nfast_disks = 2";
    assert!(refused(pool(12, "raid6", fast)).contains("two kinds of disks are modelled with tiering"));
    let tiering = |model: &str, every_min, fast| {
        let tiering = format!("tiering = {{ model = \"{model}\", every_min = {every_min} }}");
        pool(12, "raid6", &format!("{tiering}\n{fast}"))
    };
    let fast = "fast_disk = \"ST4000NM0023\"\nfast_disks = 4";
    assert!(refused(tiering("2011", 60.0, "")).contains("needs a faster tier"));
    assert!(refused(tiering("2011", 0.01, fast)).contains("`every_min` must be a number from 0.02"));
    let error = refused(tiering("2011", 60.0, fast).replace("256", "25000"));
    assert!(error.contains("does not fit into E Pool: 25000.0 of 40208.0 GiB"), "{error}");
    let of_two =
        tiering("2011", 60.0, fast).replace("= 4", "= 2").replace("every_min", "raid = \"raid5\", every_min");
    assert!(
        refused(of_two)
            .contains("the faster tier of pool `Pool` cannot be made at this RAID level with fast_disks = 2"),
        "the faster tier has a protection of its own"
    );
    let error = refused(tiering("1911", 60.0, fast));
    assert!(error.contains("no tiering \"1911\"") && error.contains("what_if.toml:"), "{error}");
    let error = Question { array: DYNAMIC, ..question(tiering("2011", 60.0, fast)) }.refused_storage();
    assert!(error.contains("tiers are RAID groups"), "{error}");
    assert!(
        refused(pool(2, "raid6", ""))
            .contains("pool `Pool` cannot be made at this RAID level with disks = 2")
    );
    let unknown = "store = { kind = \"dynamic_pool\", model = \"1912\", spare_disks = 1 }";
    let error = Question { array: unknown, ..question(pool(12, "raid6", "")) }.refused_storage();
    assert!(error.contains("dynamic_pool") && error.contains("2012"), "{error}");
    assert!(refused(pool(12, "raid6", "snapshots = { every_min = 5, keep = 1 }")).contains("thin_chunk_kib"));
    assert!(
        refused(pool(12, "raid6", "thin_chunk_kib = 3")).contains("`thin_chunk_kib` must be a multiple of 4")
    );
    let promised = pool(2, "raid1", "thin_chunk_kib = 1024").replace("256", "3000");
    let error = Question { database_mib: 2_000_000, ..question(promised) }.refused_storage();
    assert!(error.contains("databases of 3906.2 GiB do not fit into pool `Pool`"), "{error}");
    let log = "store = { kind = \"log_structured\", model = \"hybrid-array-2014\", cache_disk = \"ST4000NM0023\", \
        cache_disks = 2 }";
    let thin = question(pool(12, "triple_parity", "thin_chunk_kib = 64"));
    assert!(Question { array: log, ..thin }.refused_storage().contains("leave thin_chunk_kib out"));
    let tiers = question(tiering("2011", 60.0, fast));
    assert!(Question { array: log, ..tiers }.refused_storage().contains("leave tiering out"));
    let cache = "[array.read_cache]\ndisk = \"ST4000NM0023\"\ndisks = 1";
    let error = Question { array: cache, ..question(pool(12, "raid6", "")) }.refused_storage();
    assert!(error.contains("`ST4000NM0023` is not a flash drive"), "{error}");
    let fault = "kind = \"disks_added\"";
    let error = question(pool(12, "raid6", "")).with_fault(fault).refusal();
    assert!(error.contains("lies in no dynamic pool"), "{error}");
    let fault = "kind = \"clone_read\"";
    let error = question(pool(12, "raid6", "")).with_fault(fault).refusal();
    assert!(error.contains("lies in no thin pool"), "{error}");
    let fault = "kind = \"clone_read\"\nmib_per_s = 0.0";
    let error = question(pool(12, "raid6", "thin_chunk_kib = 256")).with_fault(fault).refusal();
    assert!(error.contains("`mib_per_s` must be a number above 0"), "{error}");
}
