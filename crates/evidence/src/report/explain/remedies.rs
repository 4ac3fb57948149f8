//! What to try: one remedy for each cause, and one for each rule that can fail.

use crate::report::model::Cause;

/// Every cause by its stable name, with its remedy.
pub const CAUSES: [(&str, &str); 22] = [
    (
        "too_much_load",
        "run a test of the kind `tune` or `proofload capacity`, then plan more disks, faster ones, or fewer mailboxes",
    ),
    ("too_few_sessions", "set this number of `sessions` in [load], or a paced load with `iops`"),
    ("load_above_target", "lower `sessions` in [load] by this factor, or pace the load with `iops`"),
    (
        "cache_too_small",
        "raise `cache_max_mib` or `flush_stop_percent` in [engine], lengthen `warmup_limit_s`, or pace the load with `iops`",
    ),
    (
        "database_fits_cache",
        "make the databases larger ([sizing]) or the cache smaller (`cache_max_mib` in [engine])",
    ),
    (
        "processors",
        "give the load generator more processors, or the host less other work; look at cgroup limits of the processor",
    ),
    (
        "lost_path",
        "look for path and controller events in the kernel log, in `multipath -ll` and in the event log of the array",
    ),
    (
        "stalled_sync",
        "look for a suspended remote copy, a full journal or a flush of the device that takes long",
    ),
    (
        "write_bursts",
        "lower `checkpoint_depth_mib` in [engine], or bring flush_start_percent and flush_stop_percent closer together",
    ),
    ("one_slow_part", "look at SMART values and errors of this part, and exchange it; run again without it"),
    (
        "rebuild",
        "wait for the end of the rebuild and run again, or lower its priority; the plan must carry the load during a rebuild",
    ),
    (
        "noisy_neighbour",
        "find who else uses these disks (backups, clones, patrol reads, other hosts), and run again without it",
    ),
    (
        "write_cache_off",
        "look at the battery or capacitor of the controller and at its policy (write-back), then run again",
    ),
    ("write_cache_full", "add disks, or lower the load: the cache only delays what the disks have to take"),
    (
        "throttled",
        "look for limits: IOPS or throughput of the cloud volume, quality of service of the array, `io.max` of the cgroup",
    ),
    ("link_full", "add links, or faster ones; look at their negotiated speed and at errors"),
    (
        "slow_acknowledge",
        "look at the write path: synchronous copies, distance, write barriers, policy of the cache",
    ),
    (
        "slow_disks",
        "compare the disks with their data sheet; look for vibration, shingled recording, a wrong model, or a too deep queue",
    ),
    (
        "cache_not_warm",
        "lengthen `warmup_limit_s` of the test, so that the window opens after pages are written at their usual rate",
    ),
    (
        "storage_drifts",
        "look for a cache that filled, a burst allowance that was used up, a rebuild or a neighbour, and run a longer window",
    ),
    (
        "load_drifts",
        "lengthen the window or `warmup_limit_s`: a window of few checkpoints has waves of page writes",
    ),
    (
        Cause::UNKNOWN,
        "run `tools` of the array beside the test, or a test of the kind `tune` with a lower load, and compare both runs with `proofload compare`",
    ),
];

/// The remedy for a cause.
pub fn of_cause(name: &str) -> &'static str {
    CAUSES.iter().find(|(cause, _)| *cause == name).map_or("", |(_, remedy)| remedy)
}

/// The remedy for a rule that failed or was not proved; `None` for a rule that no run can break.
pub fn of_rule(rule: &str) -> Option<&'static str> {
    RULES.iter().find(|(names, _)| names.split(' ').any(|name| name == rule)).map(|(_, remedy)| *remedy)
}

/// Groups of rules with the remedy that they share.
const RULES: [(&str, &str); 27] = [
    (
        "achieved_iops",
        "raise the load (`sessions` or `iops` in [load]) if the latencies leave room; else lower the target or strengthen the storage",
    ),
    (
        "read_latency_avg read_latency_max",
        "look at the disks of the slowest database; lower the load, or add disks",
    ),
    (
        "log_write_latency_avg log_write_latency_max",
        "look at the write cache and at what shares the volume of the log",
    ),
    (
        "page_fault_stalls",
        "raise `cache_max_mib` or `flush_stop_percent` in [engine], or pace the load with `iops`",
    ),
    ("batches_even", "run again: the load was dealt unevenly, which is a fault of the load generator"),
    (
        "storage_probed",
        "probe the storage at these block sizes and loads, too (`proofload probe --from`), and calibrate on all points",
    ),
    ("window_complete", "let the test run to its end; look at the events for what ended it"),
    (
        "window_without_gaps window_in_common",
        "keep the hosts awake and give the load generator processor time; run again",
    ),
    (
        "clock_never_jumped",
        "keep the host awake, and a virtual machine on its host, for the length of the run",
    ),
    (
        "bad_pages maintenance_bad_pages",
        "look for errors of disks and controllers: a page is not what was written; keep run.db, and run `proofload verify`",
    ),
    ("pages_verified", "give the test more time, so that it reads every page"),
    ("bad_logs", "look for errors of the volume of the log; `proofload clean`, then run again"),
    (
        "corrected_logs",
        "a bit of the log flipped and was corrected: look for errors of the disk, its memory and its cables",
    ),
    (
        "unexplained_segments",
        "storage lost or changed writes of the log: look at its write cache and its power protection, then run `proofload crash-test`",
    ),
    (
        "seconds_per_log",
        "look at the read latency of the databases during the recovery; faster disks, or `[engine] redo` by page, shorten it",
    ),
    ("logs_replayed logs_generated", "give the generation of logs more time (`limit_s`), or more load"),
    (
        "restore_replayed",
        "look for errors of the volume that the backup lies on; make a new backup, then restore again",
    ),
    ("volumes_have_room", "make the volume larger, or the databases or the test smaller"),
    (
        "kernel_log_storage_errors",
        "look at the messages under “Kernel log during the run”, and repair what they name",
    ),
    ("host_took_part", "look at the log of the agent of this host, and run again with all hosts"),
    ("tuned_sessions", "raise the time of the test `tune`, or look at why the lowest load breaks a limit"),
    (
        "drill_lost_commits drill_lost_logs",
        "look at the copy that was activated and at its dial: the storage or the network lost what was acknowledged",
    ),
    (
        "drill_two_active",
        "keep the journals: two copies were active at once; look at the clocks and the network of both hosts",
    ),
    (
        "drill_copies_equal drill_copies_compared",
        "look for errors of the disks of the copy that differs, and seed it again",
    ),
    (
        "drill_errors drill_dismounted",
        "look at the events of the drill for the first error, and at the hosts that were left",
    ),
    (
        "drill_read_latency drill_log_write_latency",
        "plan more disks for the hosts that stay, or fewer databases on each",
    ),
    (
        "drill_journal drill_failure_performed",
        "look at the events of the host that the text names, and run the drill again",
    ),
];
