//! What the numbers of a file may be: one row for each numeric key, checked once for every command.
//!
//! The file is walked as it stands in the text, before anything is made of it, so that all mistakes are found
//! together and each is shown at its value.
//!
//! Invariant: every numeric key of the file has exactly one row; a test holds the rows against the schema of the file.

use std::collections::BTreeMap;
use std::ops::Range as Span;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::error::{Misread, Mistake};

/// Longest test, s: 366 days.
pub const LONGEST_TEST_S: f64 = 366.0 * 24.0 * 3600.0;

/// Largest size of a database in MiB: 16 TiB.
const LARGEST_DATABASE_MIB: f64 = (1u64 << 24) as f64;

/// Allowed values of a numeric key.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Allowed {
    /// A whole number from the first value to the second.
    Whole(f64, f64),
    /// Multiple of the third number, from the first number to the second.
    Step(f64, f64, u32),
    /// One of these whole numbers.
    OneOf(&'static [u32]),
    /// Number from the first to the second, fractions allowed.
    From(f64, f64),
    /// Number above the first, up to the second, fractions allowed.
    Above(f64, f64),
}

use Allowed::{Above, From, OneOf, Step, Whole};

impl Allowed {
    fn holds(self, value: Number) -> bool {
        let (Number::Whole(number) | Number::Fraction(number)) = value;
        let is_whole = matches!(value, Number::Whole(_));
        match self {
            Whole(least, most) => is_whole && (least..=most).contains(&number),
            Step(least, most, step) => {
                is_whole && (least..=most).contains(&number) && number % f64::from(step) == 0.0
            }
            OneOf(known) => is_whole && known.iter().any(|&known| f64::from(known) == number),
            From(least, most) => (least..=most).contains(&number),
            Above(least, most) => number > least && number <= most,
        }
    }

    /// Allowed values in words, for messages.
    pub fn words(self) -> String {
        match self {
            Whole(least, most) => format!("a whole number from {} to {}", grouped(least), grouped(most)),
            Step(least, most, step) => {
                format!("a multiple of {step} from {} to {}", grouped(least), grouped(most))
            }
            OneOf(known) => {
                let known: Vec<String> = known.iter().map(u32::to_string).collect();
                format!("one of {}", known.join(", "))
            }
            From(least, most) => format!("a number from {} to {}", grouped(least), grouped(most)),
            Above(least, most) => format!("a number above {}, up to {}", grouped(least), grouped(most)),
        }
    }
}

/// Formats a number with commas between its thousands.
fn grouped(number: f64) -> String {
    let text = format!("{number}");
    let (whole, fraction) = text.split_once('.').map_or((text.as_str(), None), |(a, b)| (a, Some(b)));
    let mut out = String::new();
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    fraction.map_or(out.clone(), |fraction| format!("{out}.{fraction}"))
}

/// Table of numeric keys with their allowed values. List entries have the path of the list; in a list of lists the
/// index in the inner list follows.
pub type Rows = [(&'static str, Allowed)];

/// Allowed values of the numeric keys of the solution file.
pub const SOLUTION: &Rows = &[
    ("solution.schema", Whole(1.0, 1e9)),
    ("profile.mailboxes", Whole(1.0, 1e9)),
    ("profile.messages_per_day", From(0.0, 100_000.0)),
    ("profile.message_kb", From(0.1, 1e6)),
    ("profile.quota_mb", From(1.0, 1e8)),
    ("profile.headroom_percent", From(0.0, 1000.0)),
    ("profile.iops_per_mailbox", From(0.0, 1000.0)),
    ("profile.test_iops_per_mailbox", From(0.0, 1000.0)),
    ("profile.iops_multiplier", From(0.0, 1000.0)),
    ("profile.iops_multiplied_percent", From(0.0, 100.0)),
    ("profile.extra_iops_per_server", From(0.0, 1e9)),
    ("profile.read_percent", From(0.0, 100.0)),
    ("profile.logs_per_mailbox_day", From(0.0, 1e9)),
    ("profile.moves_percent_per_week", From(0.0, 100.0)),
    ("profile.mailbox_mb", From(1.0, 1e9)),
    ("profile.deleted_item_days", From(0.0, 3650.0)),
    ("profile.data_overhead_percent", From(0.0, 1000.0)),
    ("profile.content_index_percent", From(0.0, 1000.0)),
    ("profile.index_merge_percent", From(0.0, 1000.0)),
    ("profile.free_percent", From(0.0, 99.0)),
    ("profile.truncation_days", From(0.0, 365.0)),
    ("profile.network_days", From(0.0, 365.0)),
    ("profile.maintenance_mb_per_s", From(0.0, 1e6)),
    ("profile.queue_days", From(0.0, 365.0)),
    ("profile.safety_net_days", From(0.0, 365.0)),
    ("profile.cache_mb_per_mailbox", From(0.0, 1e6)),
    ("profile.active_mcycles", From(0.0, 1e6)),
    ("profile.passive_mcycles", From(0.0, 1e6)),
    ("profile.peak_hour_log_percent", From(0.0, 100.0)),
    ("dag.count", Whole(1.0, 1000.0)),
    ("dag.databases", Whole(1.0, 1600.0)),
    ("dag.databases_per_volume", Whole(1.0, 100.0)),
    ("dag.max_database_gb", Above(0.0, 1e6)),
    ("dag.sized_databases_per_volume", Whole(1.0, 100.0)),
    ("copies.per_site", Whole(0.0, 16.0)),
    ("copies.lagged", Whole(0.0, 15.0)),
    ("copies.lag_days", From(0.0, 14.0)),
    ("layout.database.volume", Whole(1.0, 65_535.0)),
    ("layout.database.copies.1", Whole(1.0, 16.0)),
    ("host.count", Whole(1.0, 4096.0)),
    ("host.first", Whole(0.0, 1e9)),
    ("host.cores", Whole(1.0, 65_536.0)),
    ("host.specint_rate", Above(0.0, 1e6)),
    ("host.specint2017_rate", Above(0.0, 1e6)),
    ("host.memory_gib", Above(0.0, 1e6)),
    ("host.max_active", Whole(0.0, 1600.0)),
    ("enclosure.bays", Whole(0.0, 100_000.0)),
    ("enclosure.hot_spares", Whole(0.0, 100_000.0)),
    ("enclosure.restore_disks", Whole(0.0, 100_000.0)),
    ("disk.capacity_gb", From(1.0, 1e6)),
    ("disk.random_iops", Above(0.0, 1e8)),
    ("disk.sequential_iops", Above(0.0, 1e8)),
    ("disk.rpm", Whole(1.0, 100_000.0)),
    ("pool.count", Whole(1.0, 1000.0)),
    ("pool.disks", Whole(1.0, 10_000.0)),
    ("pool.fast_disks", Whole(0.0, 10_000.0)),
    ("pool.group_disks", Whole(1.0, 10_000.0)),
    ("pool.formatted_gib", Above(0.0, 1e9)),
    ("pool.effective_gib", Above(0.0, 1e9)),
    ("pool.saving_percent", From(0.0, 99.9)),
    ("pool.write_penalty", Above(0.0, 100.0)),
    ("pool.thin_chunk_kib", Step(4.0, 1_048_576.0, 4)),
    ("pool.tiering.every_min", From(0.02, 1e6)),
    ("pool.snapshots.every_min", From(0.02, 1e6)),
    ("pool.snapshots.keep", Whole(1.0, 100_000.0)),
    ("building_block.blocks", Whole(1.0, 1000.0)),
    ("building_block.max_disks", Whole(1.0, 1e6)),
    ("building_block.max_hosts", Whole(1.0, 1e6)),
    ("building_block.max_capacity_tb", Above(0.0, 1e6)),
    ("volume.count", Whole(1.0, 4096.0)),
    ("volume.disks", Whole(1.0, 10_000.0)),
    ("volume.capacity_gib", Above(0.0, 1e9)),
    ("instance.count", Whole(1.0, 4096.0)),
    ("instance.log_file_kib", Step(128.0, 65_536.0, 64)),
    ("instance.page_kib", OneOf(&[4, 8, 16, 32])),
    ("instance.databases", Whole(1.0, 255.0)),
    ("instance.databases.size_mib", Whole(16.0, LARGEST_DATABASE_MIB)),
    ("sizing.database_mib", Whole(16.0, LARGEST_DATABASE_MIB)),
    ("sizing.percent_of_capacity", Above(0.0, 100.0)),
    ("sizing.mailboxes", Whole(1.0, 1e9)),
    ("under_test.volumes_per_host", Whole(1.0, 4096.0)),
    ("load.sessions", Whole(1.0, 4096.0)),
    ("load.iops", From(0.001, 1e9)),
    ("load.batches_per_s", From(0.001, 1e9)),
    ("load.target_iops", From(0.001, 1e9)),
    ("load.hours_percent", From(0.0, 100.0)),
    ("load.tolerance_percent", From(0.0, 100.0)),
    ("load.idle_factor", From(0.0, 1000.0)),
    ("load.copies", Whole(1.0, 16.0)),
    ("load.mix.insert", Whole(0.0, 100.0)),
    ("load.mix.delete", Whole(0.0, 100.0)),
    ("load.mix.replace", Whole(0.0, 100.0)),
    ("load.mix.read", Whole(0.0, 100.0)),
    ("load.mix.lazy", Whole(0.0, 100.0)),
    ("load.classes.view", Whole(0.0, 100.0)),
    ("load.classes.body", Whole(0.0, 100.0)),
    ("load.classes.delivery", Whole(0.0, 100.0)),
    ("load.classes.search", Whole(0.0, 100.0)),
    ("load.classes.index_update", Whole(0.0, 100.0)),
    ("engine.cache_min_mib", Whole(1.0, 1_048_576.0)),
    ("engine.cache_max_mib", Whole(1.0, 1_048_576.0)),
    ("engine.checkpoint_depth_mib", Whole(1.0, 1_048_576.0)),
    ("engine.meta_cache_mib", Whole(1.0, LARGEST_DATABASE_MIB)),
    ("engine.flush_start_percent", Above(0.0, 50.0)),
    ("engine.flush_stop_percent", Above(0.0, 50.0)),
    ("engine.maintenance_pause_ms", From(0.0, 3_600_000.0)),
    ("engine.maintenance_tick_ms", From(0.0, 3_600_000.0)),
    ("thresholds.read_avg_ms", From(0.001, 1e9)),
    ("thresholds.read_max_ms", From(0.001, 1e9)),
    ("thresholds.log_write_avg_ms", From(0.001, 1e9)),
    ("thresholds.log_write_max_ms", From(0.001, 1e9)),
    ("qualification.target_met_percent", From(0.0, 100.0)),
    ("qualification.performance_window_s", From(0.0, LONGEST_TEST_S)),
    ("qualification.stress_window_s", From(0.0, LONGEST_TEST_S)),
    ("qualification.cache_ratio", From(0.0, 1e6)),
    ("qualification.database_size_percent", From(0.0, 1e6)),
    ("qualification.verified_logs", From(0.0, 1e9)),
    ("qualification.recovered_logs", From(0.0, 1e9)),
    ("qualification.cache_filled_percent", From(0.0, 100.0)),
    ("qualification.latency_limits_percent", From(0.0, 1e9)),
    ("qualification.maintained_percent", From(0.0, 100.0)),
    ("qualification.kernel_log_percent", From(0.0, 100.0)),
    ("qualification.evidence_apart_percent", From(0.0, 100.0)),
    ("qualification.equal_hosts_percent", From(0.0, 100.0)),
    ("qualification.starved_percent", From(0.0, 100.0)),
    ("qualification.reads_per_batch", From(0.0, 1e6)),
    ("qualification.writes_per_batch", From(0.0, 1e6)),
    ("qualification.log_writes_per_batch", From(0.0, 1e6)),
    ("qualification.log_file_kib_per_batch", From(0.0, 1e6)),
    ("qualification.throughput_change_percent", From(0.0, 1e6)),
    ("qualification.write_change_percent", From(0.0, 1e6)),
    ("qualification.write_start_percent", From(0.0, 100.0)),
    ("qualification.latency_change_percent", From(0.0, 1e6)),
    ("test.duration_s", From(1.0, LONGEST_TEST_S)),
    ("test.warmup_limit_s", From(0.0, 86_400.0)),
    ("test.logs", Whole(1.0, 1e6)),
    ("test.thresholds.read_avg_ms", From(0.001, 1e9)),
    ("test.thresholds.read_max_ms", From(0.001, 1e9)),
    ("test.thresholds.log_write_avg_ms", From(0.001, 1e9)),
    ("test.thresholds.log_write_max_ms", From(0.001, 1e9)),
    ("test.drill.event.at_s", From(0.0, LONGEST_TEST_S)),
    ("test.drill.event.back_after_s", From(1.0, LONGEST_TEST_S)),
    ("fault.disk", Whole(1.0, 10_000.0)),
    ("fault.disks", Whole(1.0, 1000.0)),
    ("fault.page", Whole(1.0, u32::MAX as f64)),
    ("fault.node", Whole(1.0, 4096.0)),
    ("fault.one_in", Whole(1.0, 1e12)),
    ("fault.factor", From(1.0, 1e6)),
    ("fault.mib_per_s", Above(0.0, 1e6)),
    ("fault.at_s", From(0.0, LONGEST_TEST_S)),
    ("fault.duration_s", From(0.0, LONGEST_TEST_S)),
    ("fleet.controller_lost_after_s", Whole(5.0, LONGEST_TEST_S)),
    ("fleet.assemble_limit_s", Whole(5.0, LONGEST_TEST_S)),
    ("array.controllers", Whole(1.0, 64.0)),
    ("array.cache_mib", Whole(0.0, LARGEST_DATABASE_MIB)),
    ("array.stripe_element_kib", Step(4.0, 65_536.0, 4)),
    ("array.links_per_host", Whole(1.0, 64.0)),
    ("array.read_cache.disks", Whole(1.0, 10_000.0)),
    ("array.remote_copy.distance_km", From(0.0, 10_000.0)),
    ("array.store.cache_disks", Whole(0.0, 10_000.0)),
    ("array.store.spare_disks", Whole(0.0, 10_000.0)),
    ("array.store.nodes", Whole(1.0, 4096.0)),
    ("array.store.compression.stored_per_written", Above(0.0, 1.0)),
    ("array.store.compression.delay_min", Above(0.0, 1e9)),
    ("array.store.erasure_coding.delay_days", Above(0.0, 1e6)),
    ("array.store.deduplication.equal_share", Above(0.0, 1.0)),
    ("array.store.deduplication.copies", Whole(2.0, 1000.0)),
    ("array.store.deduplication.delay_min", Above(0.0, 1e9)),
];

/// Lists of tables whose names must differ in the file. Hosts, volumes and instances are checked later, because their
/// names are templates.
const NAMED: [&str; 4] = ["site", "enclosure", "disk", "pool"];

#[derive(Debug, Clone, Copy)]
enum Number {
    Whole(f64),
    Fraction(f64),
}

/// Mistakes in the numbers and names of a text.
pub(crate) fn mistakes(text: &str, root: &DeTable<'_>, rows: &Rows) -> Vec<Misread> {
    let mut walk = Walk { text, rows, found: Vec::new() };
    walk.table(&ValuePath::default(), root);
    walk.names(root);
    walk.found
}

/// Path of a value in the file. `row`: its key in the table of ranges above; `path`: with list indexes.
#[derive(Default)]
struct ValuePath {
    row: String,
    path: String,
}

impl ValuePath {
    fn below(&self, key: &str) -> ValuePath {
        let dot = if self.path.is_empty() { "" } else { "." };
        ValuePath { row: format!("{}{dot}{key}", self.row), path: format!("{}{dot}{key}", self.path) }
    }

    fn entry(&self, number: usize) -> ValuePath {
        ValuePath { row: self.row.clone(), path: format!("{}[{number}]", self.path) }
    }
}

struct Walk<'a> {
    text: &'a str,
    rows: &'a Rows,
    found: Vec<Misread>,
}

impl Walk<'_> {
    fn table(&mut self, at: &ValuePath, table: &DeTable<'_>) {
        for (key, value) in table {
            self.value(&at.below(key.get_ref()), value);
        }
    }

    fn value(&mut self, at: &ValuePath, value: &Spanned<DeValue<'_>>) {
        match value.get_ref() {
            DeValue::Table(table) => return self.table(at, table),
            DeValue::Array(list) => return self.list(at, list),
            _ => {}
        }
        let Some(allowed) = self.allowed(&at.row) else { return };
        let span = value.span();
        let number = number_of(value.get_ref());
        if !number.is_some_and(|number| allowed.holds(number)) {
            let said = &self.text[span.clone()];
            // The place in a list is no key.
            let key = at.row.rsplit('.').find(|part| part.parse::<u32>().is_err()).unwrap_or(&at.row);
            let message = format!("`{key}` must be {}, not {said}", allowed.words());
            let help = (at.row == "host.count")
                .then(|| "16 hosts of a group at most; more groups of the same form: count in [dag]".into());
            let mistake = Mistake { message, help, span, setting: None };
            self.found.push(Misread { path: at.path.clone(), mistake });
        }
    }

    /// Allowed values of a key; those of its list if the index in an inner list has no row.
    fn allowed(&self, path: &str) -> Option<Allowed> {
        let row =
            |path: &str| self.rows.iter().find(|(known, _)| *known == path).map(|&(_, allowed)| allowed);
        row(path).or_else(|| {
            let (list, place) = path.rsplit_once('.')?;
            place.parse::<u32>().ok().and_then(|_| row(list))
        })
    }

    fn list(&mut self, at: &ValuePath, list: &[Spanned<DeValue<'_>>]) {
        for (number, value) in list.iter().enumerate() {
            let entry = at.entry(number);
            match value.get_ref() {
                DeValue::Array(inner) => {
                    for (place, value) in inner.iter().enumerate() {
                        let row = format!("{}.{place}", at.row);
                        self.value(&ValuePath { row, path: format!("{}[{place}]", entry.path) }, value);
                    }
                }
                _ => self.value(&entry, value),
            }
        }
    }

    fn names(&mut self, root: &DeTable<'_>) {
        for list in NAMED {
            let Some(DeValue::Array(entries)) = root.get(list).map(Spanned::get_ref) else { continue };
            let mut first = BTreeMap::<&str, Span<usize>>::new();
            for (number, entry) in entries.iter().enumerate() {
                let Some(name) = entry.get_ref().get("name") else { continue };
                let DeValue::String(said) = name.get_ref() else { continue };
                let Some(before) = first.insert(said.as_ref(), name.span()) else { continue };
                let line = 1 + self.text[..before.start].matches('\n').count();
                let message = format!("two [[{list}]] are called `{said}`, the first in line {line}");
                let help = Some("give each its own name, or remove one".into());
                let mistake = Mistake { message, help, span: name.span(), setting: None };
                self.found.push(Misread { path: format!("{list}[{number}].name"), mistake });
            }
        }
    }
}

fn number_of(value: &DeValue<'_>) -> Option<Number> {
    match value {
        DeValue::Integer(integer) => {
            let whole = i64::from_str_radix(integer.as_str(), integer.radix()).ok()?;
            Some(Number::Whole(whole as f64))
        }
        DeValue::Float(float) => float.as_str().parse().ok().map(Number::Fraction),
        _ => None,
    }
}
