//! What a planner would ask about stores of several nodes.

use crate::common::{FLASH, Question};
use results::IoClass::TransactionalRead;
use results::Row;

const REPLICATED: &str = "store = { kind = \"replicated\", model = \"2016\", nodes = 3 }";
const TIERED: &str = "store = { kind = \"replicated\", model = \"2016\", nodes = 3, tiers_by_reads = true }";

/// A host on the first of three nodes, each with two disks of 7,200 rpm and a flash drive.
fn question(load: &str) -> Question {
    question_on(3, load)
}

/// The same on more nodes.
fn question_on(nodes: u32, load: &str) -> Question {
    let (disks, fast_disks) = (2 * nodes, nodes);
    let volumes = format!(
        r#"
[[disk]]
name = "{FLASH}"
capacity_gb = 800

[[pool]]
name = "Pool"
disk = "ST4000NM0023"
disks = {disks}
fast_disk = "{FLASH}"
fast_disks = {fast_disks}
raid = "replica2"

[[volume]]
name = "LUN{{n}}"
count = 2
pool = "Pool"
capacity_gib = 256
path = "/lun{{n}}"
"#
    );
    let base = Question { volumes, controller: "storage-node", link: "iscsi-10g", ..Question::new(load) };
    Question { array: REPLICATED, links: 1, ..base }
}

#[test]
fn a_host_that_moves_reads_over_the_network() {
    let fault = "kind = \"host_moves\"\nat_s = 20\ntest = \"performance\"";
    let answer = Question { database_mib: 16_384, ..question("sessions = 4") }.with_fault(fault).answer();
    answer.event("expected fault: h moves to another node of its store");
    let (before, after) = (answer.phase(TransactionalRead, 0, 20), answer.phase(TransactionalRead, 20, 40));
    assert!(after.latency_ms > before.latency_ms * 1.05, "{before:?} {after:?}");
    let elsewhere = Question::new("sessions = 1").with_fault(fault).refusal();
    assert!(elsewhere.contains("no node of a replicated store"), "{elsewhere}");
}

#[test]
fn a_store_keeps_as_many_copies_as_its_pool_says_on_nodes_that_are_alike() {
    const ON_FIVE: &str = "store = { kind = \"replicated\", model = \"2016\", nodes = 5 }";
    let base = Question { array: ON_FIVE, ..question_on(5, "sessions = 1") };
    let dead = |node: u32| format!("[[fault]]\nkind = \"node_dies\"\nnode = {node}\n");
    let three = Question { volumes: base.volumes.replace("replica2", "replica3"), ..base.clone() };
    for (base, copies) in [(&base, 2), (&three, 3)] {
        let faults: String = (2..=copies + 1).map(dead).collect();
        let refused = base.clone().with_fault(faults.trim_start_matches("[[fault]]\n")).refusal();
        assert!(refused.contains(&format!("a store of {copies} copies may lose")), "{refused}");
    }
    let uneven = Question { volumes: base.volumes.replace("disks = 10", "disks = 12"), ..base };
    let refused = uneven.refused_storage();
    assert!(refused.contains("12 disks of pool `Pool`") && refused.contains("5 nodes"), "{refused}");
}

#[test]
fn tiers_that_follow_reads_hold_the_rows_and_the_index() {
    // Flash for a seventh of all extents; most reads go to a twelfth of the databases.
    let little = "[replicated_store.2016]\n\
        flash_for_extents_pct = { value = 5.0, source = \"assumption: small flash drives\" }\n\
        tier_regions = { value = 512, source = \"assumption: known within the warm-up\" }\n";
    let read_ms = |array| {
        let base = Question { array, assumptions: little, ..question("sessions = 12") };
        Question { warmup_s: 60, ..base }.answer().read_ms()
    };
    let (even, tiered) = (read_ms(REPLICATED), read_ms(TIERED));
    assert!(tiered < 0.7 * even, "{even} {tiered}");
}

#[test]
fn compression_of_cold_data_has_room_for_more_on_flash() {
    // Flash for a seventh of all extents; a third of that is asked of each.
    const COMPRESSED: &str = "store = { kind = \"replicated\", model = \"2016\", nodes = 3, \
        compression = { stored_per_written = 0.3, delay_min = 60 } }";
    let little = "[replicated_store.2016]\n\
        flash_for_extents_pct = { value = 5.0, source = \"assumption: small flash drives\" }\n";
    let answer = |array| Question { array, assumptions: little, ..question("sessions = 6") }.answer();
    let (raw, compressed) = (answer(REPLICATED), answer(COMPRESSED));
    assert!(compressed.read_ms() < 0.8 * raw.read_ms(), "{} {}", raw.read_ms(), compressed.read_ms());
    let state = &compressed.part("store").expect("it is listed").state;
    assert!(state.ends_with("% of the data compressed"), "{state}");
    let share = "store = { kind = \"replicated\", model = \"2016\", nodes = 3,\n\
        compression = { stored_per_written = 1.5, delay_min = 60 } }";
    let delay = "store = { kind = \"replicated\", model = \"2016\", nodes = 3, compression = { stored_per_written = 0.3,\n\
        delay_min = 0 } }";
    for (array, complaint) in
        [(share, "must be a number above 0, up to 1,"), (delay, "must be a number above 0")]
    {
        let refused = Question { array, ..question("sessions = 1") }.refused_storage();
        let line = format!("what_if.toml:{}:", question("").line_of_array() + 1);
        assert!(refused.starts_with(&line) && refused.contains(complaint), "{refused}");
    }
}

#[test]
fn strips_of_data_that_are_overwritten_cost_reads_and_a_lost_disk_costs_more() {
    const COPIES: &str = "store = { kind = \"replicated\", model = \"2016\", nodes = 6 }";
    const STRIPS: &str = "store = { kind = \"replicated\", model = \"2016\", nodes = 6, erasure_coding = { delay_days = 0.001 } }";
    let fault = "kind = \"disk_fails\"\nat_s = 20\ntest = \"performance\"";
    let answer = |array| {
        let base = Question { array, assumptions: DISKS, ..question_on(6, "sessions = 4") };
        let answer = base.with_fault(fault).answer();
        let seen = |from, to| answer.phase(TransactionalRead, from, to).latency_ms;
        ((seen(0, 20), seen(20, 40)), answer.part("store").expect("it is listed").state.clone())
    };
    let (((copies, lost), none), ((strips, worked_out), all)) = (answer(COPIES), answer(STRIPS));
    assert!(strips > 1.2 * copies, "{copies} {strips}");
    assert!(worked_out / strips > 1.1 * lost / copies, "{copies} {lost} {strips} {worked_out}");
    assert!(none.is_empty() && all.ends_with("% of the data in strips"), "{none} {all}");
}

#[test]
fn a_node_that_dies_slows_reads_while_others_copy_what_it_held() {
    let fault = "kind = \"node_dies\"\nat_s = 20\ntest = \"performance\"";
    let base = Question { assumptions: DISKS, ..question("sessions = 4") };
    let answer = base.clone().with_fault(fault).answer();
    answer.event("expected fault: node 2 of the store of h dies");
    let (before, during) = (answer.phase(TransactionalRead, 0, 20), answer.phase(TransactionalRead, 20, 40));
    assert!(during.latency_ms > 1.1 * before.latency_ms, "{before:?} {during:?}");
    let (_, summary) = answer.event("as users saw it: node 2");
    assert!(summary.ends_with("% copied"), "{summary}");
    // Little data are soon copied.
    let little = Question { database_mib: 128, ..base.clone() }.with_fault(fault).answer();
    little.event("copied after");
    for (wrong, complaint) in [
        ("node = 1", "h runs on node 1"),
        ("node = 4", "nodes 1 to 3"),
        ("[[fault]]\nkind = \"node_dies\"\nnode = 3", "2 copies may lose 1"),
    ] {
        let refused = base.clone().with_fault(&format!("{fault}\n{wrong}")).refusal();
        assert!(refused.contains(complaint), "{refused}");
    }
    let elsewhere = Question::new("sessions = 1").with_fault(fault).refusal();
    assert!(elsewhere.contains("no node of a replicated store"), "{elsewhere}");
}

#[test]
fn strips_that_cannot_be_are_refused_at_their_line() {
    let few = "store = { kind = \"replicated\", model = \"2016\", nodes = 3,\n\
        erasure_coding = { delay_days = 0.001 } }";
    let delay = "store = { kind = \"replicated\", model = \"2016\", nodes = 6, erasure_coding = {\n\
        delay_days = -1 } }";
    for (nodes, array, complaint) in [(3, few, "4 nodes at least"), (6, delay, "must be a number above 0")] {
        let refused = Question { array, ..question_on(nodes, "sessions = 1") }.refused_storage();
        let line = format!("what_if.toml:{}:", question("").line_of_array() + 1);
        assert!(refused.starts_with(&line) && refused.contains(complaint), "{refused}");
    }
}

/// Hardly anything on flash.
const DISKS: &str = "[replicated_store.2016]\n\
    flash_for_extents_pct = { value = 1.0, source = \"assumption: small flash drives\" }\n";

#[test]
fn a_disk_of_a_node_that_fails_is_slow_or_rots_is_felt_and_loses_nothing() {
    let reads = |fault: &str| {
        let fault = format!("{fault}\nat_s = 20\ntest = \"performance\"");
        let question = Question { assumptions: DISKS, ..question("sessions = 6") };
        let answer = question.with_fault(&fault).answer();
        answer.event("expected fault: ");
        let seen = |from, to| answer.phase(TransactionalRead, from, to).latency_ms;
        seen(20, 40) / seen(0, 20)
    };
    let (lost, slow) = (reads("kind = \"disk_fails\"\ndisk = 2"), reads("kind = \"disk_slow\"\nfactor = 5"));
    let rotten = reads("kind = \"extents_rot\"\none_in = 2");
    assert!(lost > 1.02 && slow > 1.5 && rotten > 1.1, "{lost} {slow} {rotten}");
    let refused = question("sessions = 1").with_fault("kind = \"extents_rot\"\none_in = 0").refusal();
    assert!(refused.contains("`one_in` must be a whole number from 1"), "{refused}");
    let elsewhere = Question::new("sessions = 1").with_fault("kind = \"extents_rot\"").refusal();
    assert!(elsewhere.contains("no copies"), "{elsewhere}");
}

#[test]
fn a_slow_disk_of_a_node_is_emptied_and_reads_are_as_fast_as_before() {
    const BLIND: &str = "[replicated_store.2016]\n\
        flash_for_extents_pct = { value = 0.001, source = \"assumption: disks serve almost all\" }\n\
        ram_cache_bytes = { value = 67108864, source = \"assumption: a small cache\" }\n\
        slow_drive_factor = { value = 0.0, source = \"assumption: no drive is compared\" }\n";
    const LOOKS: &str = "[replicated_store.2016]\n\
        flash_for_extents_pct = { value = 0.001, source = \"assumption: disks serve almost all\" }\n\
        ram_cache_bytes = { value = 67108864, source = \"assumption: a small cache\" }\n\
        slow_drive_s = { value = 5.0, source = \"assumption: known within the test\" }\n\
        moves_mb_per_s = { value = 2000.0, source = \"assumption: emptied within the test\" }\n";
    let fault = "kind = \"disk_slow\"\nfactor = 20\nat_s = 10\ntest = \"performance\"";
    let seen = |assumptions| {
        let base = Question { assumptions, database_mib: 2_048, duration_s: 120, ..question("sessions = 4") };
        let answer = base.with_fault(fault).answer();
        let read_ms = |from_s, to_s| answer.phase(TransactionalRead, from_s, to_s).latency_ms;
        let mut states = answer.rows.iter().filter_map(|row| match row {
            Row::StoragePart(part) if part.kind == "drive" => Some(part.state.clone()),
            _ => None,
        });
        (read_ms(90, 120) / read_ms(0, 10), states.find(|state| state.contains("left out")))
    };
    let ((watched, left_out), (unwatched, none)) = (seen(LOOKS), seen(BLIND));
    assert!(watched < 1.3 && unwatched > 1.5, "{watched} {unwatched}");
    assert_eq!((left_out.as_deref(), none), (Some("slow, left out"), None));
}

#[test]
fn the_log_of_a_store_goes_to_its_disks_in_the_stripe_elements_of_its_kind() {
    let volumes = format!(
        "[[disk]]\nname = \"{FLASH}\"\ncapacity_gb = 800\n\n[[pool]]\nname = \"Pool\"\ndisk = \"ST4000NM0023\"\n\
         disks = 8\nraid = \"triple_parity\"\n\n[[volume]]\nname = \"LUN{{n}}\"\ncount = 2\npool = \"Pool\"\n\
         capacity_gib = 256\npath = \"/lun{{n}}\"\n"
    );
    let store = "store = { kind = \"log_structured\", model = \"hybrid-array-2014\", cache_disk = \"SSDSC2BX800G4\", \
                 cache_disks = 1 }";
    let base = Question {
        volumes,
        controller: "hybrid-array-2014",
        array: store,
        duration_s: 10,
        ..Question::new("sessions = 8")
    };
    let write_bytes = |stripe_element_kib| {
        let answer = Question { stripe_element_kib, ..base.clone() }.answer();
        let mut disks = answer.rows.iter().filter_map(|row| match row {
            Row::StoragePart(part) if part.kind == "drive" && part.name.ends_with("Pool disk 1") => {
                Some(part)
            }
            _ => None,
        });
        let part = disks.next_back().expect("its parts were looked at");
        part.write_bytes / part.writes
    };
    // What assumptions.toml says of this kind, and what the solution file says instead.
    assert_eq!((write_bytes(None), write_bytes(Some(64))), (512 << 10, 64 << 10));
}

#[test]
fn equal_data_that_are_kept_once_have_room_for_more_on_flash() {
    const EQUAL: &str = "store = { kind = \"replicated\", model = \"2016\", nodes = 3, \
        deduplication = { equal_share = 0.9, copies = 4, delay_min = 60 } }";
    const LATE: &str = "store = { kind = \"replicated\", model = \"2016\", nodes = 3, \
        deduplication = { equal_share = 0.9, copies = 4, delay_min = 360 } }";
    let little = "[replicated_store.2016]\n\
        flash_for_extents_pct = { value = 5.0, source = \"assumption: small flash drives\" }\n";
    let answer = |array| Question { array, assumptions: little, ..question("sessions = 6") }.answer();
    let (each, once, late) = (answer(REPLICATED), answer(EQUAL), answer(LATE).read_ms());
    assert!(once.read_ms() < 0.7 * each.read_ms(), "{} {}", each.read_ms(), once.read_ms());
    assert!(late > 1.2 * once.read_ms(), "most is written again within six hours: {late}");
    let state = &once.part("store").expect("it is listed").state;
    assert!(state.ends_with("% of the data spared as equal to others"), "{state}");
    let share = "store = { kind = \"replicated\", model = \"2016\", nodes = 3,\n\
        deduplication = { equal_share = 0.0, copies = 4, delay_min = 60 } }";
    let copies = "store = { kind = \"replicated\", model = \"2016\", nodes = 3,\n\
        deduplication = { equal_share = 0.3, copies = 1, delay_min = 360 } }";
    let delay = "store = { kind = \"replicated\", model = \"2016\", nodes = 3,\n\
        deduplication = { equal_share = 0.3, copies = 4, delay_min = 0 } }";
    for (array, complaint) in
        [(share, "above 0, up to 1,"), (copies, "from 2 to 1,000"), (delay, "must be a number above 0")]
    {
        let refused = Question { array, ..question("sessions = 1") }.refused_storage();
        let line = format!("what_if.toml:{}:", question("").line_of_array() + 1);
        assert!(refused.starts_with(&line) && refused.contains(complaint), "{refused}");
    }
}
