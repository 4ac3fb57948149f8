//! The matrix of claims: an honest solution, and for each of its keys a harmful change with what must come of it.
//!
//! The planner's test holds that every key of the schema has a row and what the claim makes of it; the command's test
//! simulates the rows that a run has to judge.

/// Honest solution file: two servers with a copy of each database; one is lost, and the other serves all 400
/// mailboxes.
pub const HONEST: &str = r#"
[solution]
name = "Two servers, 400 mailboxes"
schema = 1

[profile]
exchange = "2013"
mailboxes = 400
messages_per_day = 150
message_kb = 100
quota_mb = 512
test_iops_per_mailbox = 0.121

[dag]
databases = 2
databases_per_volume = 2

[copies]
per_site = [2]

[[site]]
name = "Local"

[[host]]
name = "mbx{n}"
count = 2
site = "Local"
cores = 8
memory_gib = 32
specint_rate = 300

[[disk]]
name = "ST4000NM0023"
capacity_gb = 4000
rpm = 7200

[[volume]]
name = "V1"
disk = "ST4000NM0023"
disks = 2
raid = "raid1"
path = "/exchange/v1"

[array]
scope = "shared"
controller = "sas-array-2013"
controllers = 2
stripe_element_kib = 512
link = "sas-6g-x4"
links_per_host = 2

[[instance]]
name = "DB{n}"
count = 2
volume = "V1"

[sizing]
database_mib = 163840

[under_test]
hosts = ["mbx1"]
failed = ["mbx2"]

[load]
target_iops = 48.4

[engine]
cache_min_mib = 8
cache_max_mib = 16
"#;

/// A `[[test]]` table of the published programme, to which keys of a test are added.
pub const PERFORMANCE: &str = "\n[[test]]\nkind = \"performance\"\n";

/// Effect of a harmful change of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seen {
    /// The claim changes: its figures, or its doubts.
    Claim,
    /// The solution file is refused.
    Refused,
    /// The run notices the change: a condition or limit with this name is not met.
    Run(&'static str),
    /// The key cannot make a claim false.
    Harmless(&'static str),
}
use Seen::{Claim as InClaim, Harmless, Refused, Run};

/// A key of the solution file, a value of it that would make a claim false, and where that is noticed.
pub type Row = (&'static str, &'static str, Seen);

const WRITTEN_ONLY: &str = "a name: it is in the claim where it names a host, and chooses nothing else";
const MORE_CPU: &str = "sizes processor and memory of the server, and no storage";
const SPACE: &str = "takes more or less space; a plan that does not fit is a doubt";

/// One row for each key of the solution file on which a claim depends.
pub const ROWS: &[Row] = &[
    ("profile.exchange", "\"2010\"", InClaim),
    ("profile.mailboxes", "800", InClaim),
    ("profile.messages_per_day", "75", InClaim),
    ("profile.message_kb", "50", InClaim),
    ("profile.quota_mb", "256", InClaim),
    ("profile.headroom_percent", "0", InClaim),
    ("profile.iops_per_mailbox", "0.05", InClaim),
    ("profile.test_iops_per_mailbox", "0.06", InClaim),
    ("profile.iops_multiplier", "0.5", InClaim),
    ("profile.iops_multiplied_percent", "50", Harmless("without a multiplier it multiplies by 1")),
    ("profile.extra_iops_per_server", "10", InClaim),
    ("profile.read_percent", "90", Harmless("the engine decides what it reads: reads_per_batch judges it")),
    ("profile.logs_per_mailbox_day", "1", Harmless(SPACE)),
    ("profile.moves_percent_per_week", "0", Harmless(SPACE)),
    ("profile.mailbox_mb", "100", InClaim),
    ("profile.deleted_item_days", "1", InClaim),
    ("profile.single_item_recovery", "false", InClaim),
    ("profile.calendar_versions", "false", InClaim),
    ("profile.data_overhead_percent", "50", InClaim),
    ("profile.content_index_percent", "0", Harmless(SPACE)),
    ("profile.index_merge_percent", "0", Harmless(SPACE)),
    ("profile.free_percent", "0", Harmless(SPACE)),
    ("profile.truncation_days", "0", Harmless(SPACE)),
    ("profile.network_days", "0", Harmless(SPACE)),
    (
        "profile.maintenance_mb_per_s",
        "0",
        Harmless("sizes the network of the plan; maintained_percent judges the tests"),
    ),
    ("profile.queue_days", "0", Harmless(SPACE)),
    ("profile.safety_net_days", "0", Harmless(SPACE)),
    ("profile.cache_mb_per_mailbox", "1", Harmless(MORE_CPU)),
    ("profile.active_mcycles", "1", Harmless(MORE_CPU)),
    ("profile.passive_mcycles", "1", Harmless(MORE_CPU)),
    ("profile.multi_role", "false", Harmless(MORE_CPU)),
    ("profile.peak_hour_log_percent", "1", Harmless("sizes the network between copies, and no storage")),
    ("dag.count", "2", InClaim),
    ("dag.databases", "4", InClaim),
    ("dag.databases_per_volume", "1", InClaim),
    ("dag.max_database_gb", "1", InClaim),
    ("dag.sized_databases_per_volume", "1", Harmless(SPACE)),
    ("dag.symmetric", "true", Harmless("the layout keeps its failures: the plan computes each of them")),
    ("dag.database_name", "\"X{n}\"", Harmless(WRITTEN_ONLY)),
    ("copies.per_site", "[1]", InClaim),
    ("copies.lagged", "1", Harmless("a lagged copy may be activated, and the plan counts it")),
    ("copies.lag_days", "1", Harmless("no copy is lagged")),
    ("copies.lagged_can_activate", "true", Harmless("no copy is lagged")),
    ("copies.lag_log_rule", "\"longer\"", Harmless("no copy is lagged")),
    ("under_test.hosts", "[\"mbx2\"]", InClaim),
    (
        "under_test.volumes_per_host",
        "1",
        Harmless("the host has one volume; fewer are fewer databases under test"),
    ),
    ("under_test.failed", "[]", InClaim),
    ("load.sessions", "1", Run("throughput_change_percent")),
    ("load.iops", "10", Run("target_met_percent")),
    ("load.batches_per_s", "0.1", Run("target_met_percent")),
    ("load.target_iops", "10", Run("worst_failure_percent")),
    (
        "load.hours_percent",
        "[1, 1, 1, 1, 1, 1, 1, 1, 1, 100, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]",
        InClaim,
    ),
    ("load.tolerance_percent", "50", Harmless("target_met_percent judges without the tolerance")),
    (
        "load.idle_factor",
        "9",
        Harmless("sessions of a paced load rest as the pace asks; target_met_percent judges what is reached"),
    ),
    ("load.mix", "{ insert = 5, delete = 5, replace = 5, read = 85, lazy = 70 }", Run("reads_per_batch")),
    (
        "load.classes",
        "{ view = 60, body = 20, delivery = 10, search = 5, index_update = 5 }",
        Run("reads_per_batch"),
    ),
    ("load.copies", "1", InClaim),
    (
        "engine.cache_min_mib",
        "16",
        Harmless("the cache is filled to its most; cache_filled_percent judges that"),
    ),
    ("engine.generation", "\"2013-early\"", Run("reads_per_batch")),
    ("engine.cache_max_mib", "65536", Run("cache_ratio")),
    ("engine.meta_cache_mib", "16", Refused),
    (
        "engine.checkpoint_depth_mib",
        "1000",
        Harmless("fewer writes per batch than published miss writes_per_batch"),
    ),
    (
        "engine.flush_start_percent",
        "0.5",
        Harmless("other writes per batch than published miss writes_per_batch"),
    ),
    ("engine.flush_stop_percent", "50", Run("cache_filled_percent")),
    ("engine.maintenance", "false", Run("maintained_percent")),
    (
        "engine.recovery_maintenance",
        "false",
        Harmless("published recoveries differ in it, and recovery has no limit of latency"),
    ),
    ("engine.maintenance_pause_ms", "3600000", Run("maintained_percent")),
    ("engine.maintenance_tick_ms", "1000", Run("maintained_percent")),
    ("sizing.database_mib", "1024", Run("database_size_percent")),
    ("sizing.percent_of_capacity", "1", Refused),
    ("sizing.mailboxes", "10", Refused),
    ("array.scope", "\"host\"", InClaim),
    ("array.controller", "\"iscsi-array-2007\"", InClaim),
    ("array.controllers", "1", InClaim),
    ("array.cache_mib", "65536", InClaim),
    (
        "array.stripe_element_kib",
        "64",
        Harmless("other places of the same data on the disks that the claim names"),
    ),
    ("array.link", "\"iscsi-1g\"", InClaim),
    ("array.links_per_host", "4", InClaim),
    (
        "array.store",
        "{ kind = \"dynamic_pool\", model = \"x\", spare_disks = 1 }",
        Harmless("it is about pools, and the solution has none"),
    ),
    ("array.read_cache", "{ disk = \"ST4000NM0023\", disks = 1 }", InClaim),
    ("array.remote_copy", "{ distance_km = 1.0, link = \"fc-8g\", when_link_lost = \"suspend\" }", InClaim),
    ("host.0.name", "\"srv{n}\"", Refused),
    ("host.0.count", "4", InClaim),
    ("host.0.first", "2", Refused),
    ("host.0.site", "\"No\"", Refused),
    ("host.0.enclosure", "\"No\"", Harmless("all hosts are in it, and share its storage as before")),
    ("host.0.copy_address", "\"10.0.0.1:1\"", Harmless("an address of drills")),
    ("host.0.cores", "1", Harmless("the simulation has the processors that are described")),
    ("host.0.specint_rate", "1", InClaim),
    ("host.0.specint2017_rate", "1", Harmless("counts only where the SPECint2006 rate is not given")),
    ("host.0.memory_gib", "1", InClaim),
    ("host.0.max_active", "1", InClaim),
    ("volume.0.name", "\"W1\"", Refused),
    ("volume.0.count", "2", Refused),
    ("volume.0.host", "\"mbx2\"", Refused),
    ("volume.0.path", "\"/other\"", Run("on_storage_percent")),
    ("volume.0.role", "\"log\"", InClaim),
    ("volume.0.disk", "\"No\"", Refused),
    ("volume.0.disks", "1", Refused),
    ("volume.0.raid", "\"raid5\"", Refused),
    ("volume.0.pool", "\"No\"", Refused),
    ("volume.0.capacity_gib", "10", Refused),
    ("volume.0.enclosure", "\"No\"", Harmless("says which bays the disks take, and changes no disk")),
    ("instance.0.name", "\"X{n}\"", Harmless(WRITTEN_ONLY)),
    ("instance.0.count", "1", InClaim),
    ("instance.0.host", "\"mbx2\"", InClaim),
    ("instance.0.volume", "\"No\"", Refused),
    ("instance.0.log_volume", "\"No\"", Refused),
    ("instance.0.log_file_kib", "5120", Run("log_file_kib_per_batch")),
    ("instance.0.page_kib", "16", Run("reads_per_batch")),
    ("instance.0.databases", "0", Refused),
    ("test.0.kind", "\"init\"", Run("load_tests")),
    ("test.0.duration_s", "60", Run("performance_window_s")),
    ("test.0.warmup_limit_s", "0", Run("cache_filled_percent")),
    ("test.0.logs", "1", Run("recovered_logs")),
    ("test.0.volume", "\"No\"", Refused),
    ("test.0.thresholds", "{ read_avg_ms = 500 }", Run("latency_limits_percent")),
    ("test.0.drill", "{}", Refused),
];
