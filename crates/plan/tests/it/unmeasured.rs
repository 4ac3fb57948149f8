//! The models that no measurement has checked: each key of a storage, and each kind of fault, is backed by a published
//! solution, or makes a doubt, or has a reason why it is no model.
//!
//! The keys come from the schema of the solution file, so a new one fails the test until it has its row.

use std::collections::BTreeSet;

use results::WorldKind;
use serde_json::Value;
use solution::{Setting, Solution};
use testkit::claims::HONEST;

/// What backs the model behind a key.
enum Backed {
    /// A published solution has the key.
    Published,
    /// Nothing: with these settings the prediction rests on this part.
    No(&'static [&'static str], &'static str),
    /// The key is no model, for this reason.
    NoModel(&'static str),
}
use Backed::{No, NoModel, Published};

const PLAN_ONLY: &str = "the plan reads it, and no model";
const SIZE: &str = "another size of a part that published solutions have";
const NAMED: &str = "a fault of parts that published solutions have; its events and verdicts name it";

const REPLICATED: &str = "array.store={ kind = \"replicated\", model = \"2016\", nodes = 4";
const COPIES: &str = "pool.0.raid=\"replica2\"";
const THIN: &str = "pool.0.thin_chunk_kib=64";

const ROWS: &[(&str, Backed)] = &[
    ("array.scope", Published),
    ("array.controller", Published),
    ("array.controllers", Published),
    ("array.cache_mib", NoModel(SIZE)),
    ("array.stripe_element_kib", Published),
    ("array.link", Published),
    ("array.links_per_host", Published),
    ("array.store", Published),
    ("array.read_cache", No(&["array.read_cache={ disk = \"ST4000NM0023\", disks = 1 }"], "read cache")),
    (
        "array.remote_copy",
        No(
            &["array.remote_copy={ distance_km = 1.0, link = \"fc-8g\", when_link_lost = \"stall\" }"],
            "remote copy",
        ),
    ),
    ("array.store.log_structured", Published),
    ("array.store.replicated", Published),
    (
        "array.store.dynamic_pool",
        No(&["array.store={ kind = \"dynamic_pool\", model = \"2012\", spare_disks = 1 }"], "dynamic pools"),
    ),
    ("array.store.model", Published),
    ("array.store.nodes", Published),
    ("array.store.cache_disk", Published),
    ("array.store.cache_disks", Published),
    ("array.store.spare_disks", NoModel("a key of dynamic_pool, which has its row")),
    ("array.store.tiers_by_reads", No(&["tiers_by_reads = true"], "tiers by reads")),
    (
        "array.store.compression",
        No(&["compression = { stored_per_written = 0.5, delay_min = 60 }"], "compression of cold data"),
    ),
    (
        "array.store.erasure_coding",
        No(&["erasure_coding = { delay_days = 1 }"], "erasure coding of cold data"),
    ),
    (
        "array.store.deduplication",
        No(&["deduplication = { equal_share = 0.5, copies = 4, delay_min = 60 }"], "deduplication"),
    ),
    ("pool.name", Published),
    ("pool.count", Published),
    ("pool.disk", Published),
    ("pool.disks", Published),
    ("pool.fast_disk", Published),
    ("pool.fast_disks", Published),
    ("pool.raid", Published),
    (
        "pool.tiering",
        No(
            &[
                "pool.0.fast_disk=\"ST4000NM0023\"",
                "pool.0.fast_disks=4",
                "pool.0.tiering={ model = \"2011\", every_min = 60 }",
            ],
            "tiering",
        ),
    ),
    ("pool.group_disks", NoModel(PLAN_ONLY)),
    ("pool.formatted_gib", Published),
    ("pool.effective_gib", Published),
    ("pool.saving_percent", NoModel(PLAN_ONLY)),
    ("pool.write_penalty", NoModel(PLAN_ONLY)),
    ("pool.io", Published),
    ("pool.thin_chunk_kib", No(&[THIN], "thin volumes")),
    ("pool.snapshots", No(&[THIN, "pool.0.snapshots={ every_min = 5, keep = 2 }"], "snapshots")),
    ("volume.name", Published),
    ("volume.count", Published),
    ("volume.host", NoModel("says which hosts have the volume")),
    ("volume.path", Published),
    ("volume.role", Published),
    ("volume.disk", Published),
    ("volume.disks", Published),
    ("volume.raid", Published),
    ("volume.pool", Published),
    ("volume.capacity_gib", Published),
    ("volume.enclosure", NoModel("says which bays the disks take")),
    ("fault.disk_fails", NoModel(NAMED)),
    (
        "fault.disk_slow",
        No(&[COPIES, REPLICATED, "fault=[{ kind = \"disk_slow\" }]"], "slow drives of a store"),
    ),
    ("fault.disks_added", NoModel("needs a dynamic pool, which has its row")),
    ("fault.clone_read", No(&[THIN, "fault=[{ kind = \"clone_read\" }]"], "clones")),
    ("fault.path_lost", NoModel(NAMED)),
    ("fault.remote_copy_lost", NoModel("needs a remote copy, which has its row")),
    ("fault.cache_unprotected", NoModel(NAMED)),
    ("fault.controller_fails", NoModel(NAMED)),
    ("fault.host_moves", NoModel(NAMED)),
    ("fault.node_dies", NoModel(NAMED)),
    (
        "fault.extents_rot",
        No(&[COPIES, REPLICATED, "fault=[{ kind = \"extents_rot\" }]"], "bad copies of extents"),
    ),
    ("fault.bit_rot", NoModel("changes bytes of a page, and no time")),
];

/// Keys of the tables and the kinds of stores and faults, as the schema has them.
fn schema_keys() -> BTreeSet<String> {
    let schema = Solution::json_schema();
    let definition = |name: &str| schema["$defs"][name].clone();
    let keys = |table: &str, part: &Value| -> Vec<String> {
        let properties = part["properties"].as_object().unwrap_or_else(|| panic!("{table} has keys: {part}"));
        properties.keys().map(|key| format!("{table}.{key}")).collect()
    };
    let mut all = BTreeSet::new();
    for (table, name) in [("array", "StorageArray"), ("pool", "Pool"), ("volume", "Volume")] {
        all.extend(keys(table, &definition(name)));
    }
    for store in definition("Store")["oneOf"].as_array().expect("kinds of stores") {
        let kind = store["properties"]["kind"]["const"].as_str().expect("a kind");
        all.insert(format!("array.store.{kind}"));
        all.extend(keys("array.store", store));
        if store["$ref"].is_string() {
            all.extend(keys("array.store", &definition("ReplicatedStore")));
        }
    }
    all.remove("array.store.kind");
    for kind in definition("FaultWord")["oneOf"].as_array().expect("kinds of faults") {
        all.insert(format!("fault.{}", kind["const"].as_str().expect("a kind")));
    }
    all
}

#[test]
fn every_key_of_a_storage_and_every_fault_has_its_row() {
    let rows: BTreeSet<String> = ROWS.iter().map(|(path, _)| (*path).to_owned()).collect();
    assert_eq!(rows.len(), ROWS.len(), "a key has one row");
    assert_eq!(schema_keys(), rows);
}

/// The honest solution with its volume in a pool of eight disks.
fn in_pool() -> String {
    let own = "disk = \"ST4000NM0023\"\ndisks = 2\nraid = \"raid1\"\npath";
    let pool = "\n[[pool]]\nname = \"Pool\"\ndisk = \"ST4000NM0023\"\ndisks = 8\nraid = \"raid10\"\n";
    assert!(HONEST.contains(own));
    HONEST.replace(own, "pool = \"Pool\"\ncapacity_gib = 4000\npath") + pool
}

/// Doubts about models, with these settings.
fn models(settings: &[String]) -> Vec<String> {
    let settings: Vec<Setting> =
        settings.iter().map(|setting| Setting::of_argument(setting).expect("a setting")).collect();
    let solution = Solution::parse_with(&in_pool(), "pool.toml", &settings)
        .unwrap_or_else(|error| panic!("{settings:?}: {error}"));
    let of = |world| {
        let doubts = plan::claim(&solution, world, None, Vec::new()).doubts.into_iter();
        let about = doubts.filter_map(|doubt| {
            doubt.text.strip_prefix("no measurement has checked this model: ").map(str::to_owned)
        });
        about.collect::<Vec<_>>()
    };
    assert_eq!(of(WorldKind::Real), [""; 0], "a run on real storage rests on no model");
    of(WorldKind::Simulated)
}

#[test]
fn a_prediction_that_rests_on_an_unmeasured_model_says_so() {
    assert_eq!(models(&[]), [""; 0]);
    for (path, backed) in ROWS {
        let (settings, part) = match backed {
            Published => continue,
            NoModel(reason) => {
                assert!(!reason.is_empty(), "{path}");
                continue;
            }
            No(settings, part) => (settings, part),
        };
        let settings: Vec<String> = match (*path, *settings) {
            // A key of a replicated store stands in its table.
            (_, [key]) if !key.split(' ').next().unwrap_or_default().contains('.') => {
                vec![COPIES.into(), format!("{REPLICATED}, {key} }}")]
            }
            (_, settings) => settings
                .iter()
                .map(|one| if *one == REPLICATED { format!("{one} }}") } else { (*one).to_owned() })
                .collect(),
        };
        let told = models(&settings);
        assert!(told.contains(&(*part).to_owned()), "{path}: {told:?}");
        let others = told.iter().filter(|one| *one != part);
        assert!(others.into_iter().all(|one| one == "thin volumes"), "{path}: {told:?}");
    }
}

#[test]
fn models_that_count_as_checked_are_in_a_published_solution() {
    let published: Vec<toml::Table> = [
        include_str!("../../../../solutions/dell-md3260-15000.toml"),
        include_str!("../../../../solutions/dell-r740xd-10000.toml"),
        include_str!("../../../../solutions/emc-cx3-20c-500.toml"),
        include_str!("../../../../solutions/lenovo-hx7510-30000.toml"),
        include_str!("../../../../solutions/nimble-cs700-100000.toml"),
    ]
    .iter()
    .map(|text| text.parse().expect("TOML"))
    .collect();
    let tables = |table: &'static str| {
        published.iter().flat_map(move |solution| match solution.get(table) {
            Some(toml::Value::Array(list)) => list.iter().filter_map(toml::Value::as_table).collect(),
            Some(toml::Value::Table(one)) => vec![one],
            _ => Vec::new(),
        })
    };
    let golden = include_str!("../../../../solutions/exchange-se-golden.toml");
    let golden = Solution::parse(golden, "golden.toml").expect("it is valid");
    let doubts = plan::claim(&golden, WorldKind::Simulated, None, Vec::new()).doubts;
    assert!(doubts.iter().all(|doubt| !doubt.text.contains("no measurement")), "{doubts:?}");
    for (path, _) in ROWS.iter().filter(|(_, backed)| matches!(backed, Published)) {
        let is_there = match path.strip_prefix("array.store.") {
            Some(key) => tables("array")
                .filter_map(|array| array.get("store")?.as_table())
                .any(|store| store.contains_key(key) || store["kind"].as_str() == Some(key)),
            None => {
                let (table, key) = path.split_once('.').expect("table.key");
                let table = ["array", "pool", "volume"].into_iter().find(|one| *one == table);
                tables(table.expect("a table of the storage")).any(|one| one.contains_key(key))
            }
        };
        assert!(is_there, "{path} is in no published solution");
    }
}
