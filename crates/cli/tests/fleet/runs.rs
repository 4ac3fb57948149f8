//! Runs on many hosts as a user meets them: `proofload fleet agent` on four hosts in network namespaces of this
//! machine, a real nats-server, `proofload fleet run`. Agents, the bus, the controller and the network fail in
//! the middle.
//!
//! Needs root and `ip netns`; skipped by name otherwise. Delay comes from a token bucket on the link of one
//! host, because not every kernel has netem; loss only from a cable that is pulled.
#![allow(clippy::disallowed_methods, reason = "tests face the operating system")]

use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use crate::net::{can_run, wait_for};
use crate::test_fleet::TestFleet;
use fleet::bus::Bus;
use fleet::credentials::Credentials;
use fleet::message::{Heartbeat, Orders, PROTOCOL, Work, format, parse};
use serde_json::Value;

const SOLUTION: &str = r#"
[solution]
name = "Four"
schema = 1

[[host]]
name = "h{n}"
count = 4

[[volume]]
name = "V"
path = "data/{host}"

[[instance]]
name = "DB"
volume = "V"

[sizing]
database_mib = 16

[load]
sessions = 1
idle_factor = 4
copies = 2

[engine]
# In 6 MiB page reads on a busy test machine have waited for a free buffer more often than once per second.
cache_min_mib = 12
cache_max_mib = 12
maintenance = false

# Latencies of a shared test machine prove nothing.
[thresholds]
read_avg_ms = 60000
read_max_ms = 60000
log_write_avg_ms = 60000
log_write_max_ms = 60000
"#;

const INIT: &str = "[[test]]\nkind = \"init\"\n";
const LOAD: &str = "[[test]]\nkind = \"performance\"\nduration_s = 6\nwarmup_limit_s = 2\n";
const CHECK: &str = "[[test]]\nkind = \"database_checksum\"\n";
const BACKUP: &str = "[[test]]\nkind = \"backup\"\n";

/// As [`LOAD`], with another length: a slow disk needs more than a few seconds.
fn long_load(duration_s: u32) -> String {
    LOAD.replace("duration_s = 6", &format!("duration_s = {duration_s}"))
}

/// Fleet of four hosts with this campaign.
fn four(campaign: &str) -> TestFleet {
    TestFleet::new(&format!("{SOLUTION}\n{campaign}"))
}

#[test]
fn four_hosts_carry_out_a_whole_campaign_and_one_report_adds_them_up() {
    if !can_run() {
        return;
    }
    let fleet = four(&[INIT, LOAD, CHECK, BACKUP].concat());
    let _agents = fleet.agents();
    let status = fleet.run(&["--nats-server", "nats-server"]).wait();
    fleet.assert_passed(status);
    fleet.assert_everyone_took_part(4);
    let report = fleet.report();
    assert_eq!(report["hosts"].as_array().map(Vec::len), Some(4));
    let load = &report["tests"][1];
    let of = |rows: &Value, what: &str| {
        let rows: Vec<Value> = rows.as_array().cloned().unwrap_or_default();
        let reads = rows.into_iter().filter(|row| row["measure"] == "transactional_read");
        reads.map(|row| row["figures"][what].as_u64().unwrap_or(0)).collect::<Vec<_>>()
    };
    let (all, hosts) = (of(&load["measures"], "count"), of(&load["hosts"], "count"));
    assert_eq!((all.len(), hosts.len()), (1, 4), "{}", load["measures"]);
    assert!(hosts.iter().all(|reads| *reads > 0), "every host was loaded: {hosts:?}");
    assert_eq!(all[0], hosts.iter().sum::<u64>(), "all together are the sum of the hosts");
    let percentiles = load["measures"].as_array().expect("a list");
    let merged = percentiles.iter().find(|row| row["measure"] == "transactional_read").expect("reads");
    let count = merged["percentiles"]["count"].as_u64().expect("merged from the hosts' histograms");
    // Histograms are of whole samples. The first or last second of a host that was late may lie outside the
    // window of all.
    assert!((all[0]..=all[0] * 5 / 4).contains(&count), "{count} of {}", all[0]);
    let kept = fleet.run_folder().join("hosts/h3/run.db");
    assert!(kept.is_file(), "the evidence of each host is kept as it was sent");

    // What another host has sent counts for that host only.
    std::fs::copy(fleet.run_folder().join("hosts/h2/run.db"), &kept).expect("copied");
    let again = fleet.resume(&["--nats-server", "nats-server"]);
    assert_eq!(again.wait(), 1, "{}", fleet.all_logs());
    let (console, took_part) = (fleet.text("controller.log"), fleet.took_part());
    assert!(took_part.contains(&("h3".to_owned(), 0, "unproved".to_owned())), "{took_part:?}");
    let refused = console.lines().rfind(|line| line.starts_with("INCOMPLETE")).unwrap_or_default();
    assert!(refused.contains("h3") && refused.contains("rows of h2"), "{console}");
    assert!(fleet.events().contains("controller 1 ended in good order"), "{}", fleet.events());
}

#[test]
fn a_controller_dies_with_its_bus_and_a_new_one_brings_the_run_home() {
    if !can_run() {
        return;
    }
    let fleet = four(&[INIT, LOAD, CHECK].concat());
    let _agents = fleet.agents();
    let controller = fleet.run(&["--nats-server", "nats-server"]);
    fleet.wait_until_measuring();
    controller.kill();
    fleet.wait_until_no_bus_listens();
    let again = fleet.resume(&["--nats-server", "nats-server"]);
    fleet.assert_passed(again.wait());
    fleet.assert_everyone_took_part(3);
    assert!(!fleet.events().contains("the bus was started again"), "the old bus went with its controller");
    let events = fleet.events();
    assert!(events.contains("every host is ready"), "the first controller's scenario, too: {events}");
    let died = "controller 2 takes up the run; controller 1 died, its last sign of life is of 20";
    for what in [died, "Evidence collected before: no host; still to come: h1, h2, h3, h4"] {
        assert!(events.contains(what), "{what}\n{events}");
    }
}

#[test]
fn an_agent_that_dies_is_missed_by_name_and_what_it_had_is_kept() {
    if !can_run() {
        return;
    }
    let fleet = four(&[INIT, LOAD, CHECK].concat());
    let _agents: Vec<_> = (1..=3).map(|host| fleet.agent(host)).collect();
    let victim = fleet.agent(4);
    let controller = fleet.run(&["--nats-server", "nats-server"]);
    fleet.wait_until_measuring();
    victim.kill();
    let lost = || fleet.text("controller.log").contains("h4: lost");
    assert!(wait_for(lost), "{}", fleet.all_logs());
    let _again = fleet.agent(4);
    assert_eq!(controller.wait(), 1, "{}", fleet.all_logs());
    let expected = [("h1", 3, "pass"), ("h2", 3, "pass"), ("h3", 3, "pass"), ("h4", 1, "unproved")];
    let expected = expected.map(|(host, tests, outcome)| (host.to_owned(), tests, outcome.to_owned()));
    assert_eq!(fleet.took_part(), expected, "{}", fleet.all_logs());
    let events = fleet.events();
    assert!(events.contains("lost: nothing heard of it") && events.contains("its agent died"), "{events}");
    assert!(fleet.run_folder().join("hosts/h4/run.db").is_file(), "what it had kept has come");
}

/// The other three hosts passed, and the agent of the fourth was not lost.
fn assert_only_h4_is_unproved(fleet: &TestFleet) {
    let expected = [("h1", "pass"), ("h2", "pass"), ("h3", "pass"), ("h4", "unproved")];
    let took_part: Vec<_> = fleet.took_part().into_iter().map(|(host, _, outcome)| (host, outcome)).collect();
    assert_eq!(took_part, expected.map(|(host, outcome)| (host.to_owned(), outcome.to_owned())));
    let console = fleet.text("controller.log");
    assert!(!console.contains("h4: lost"), "its agent lives on and sends what it has: {console}");
}

#[test]
fn a_host_that_cannot_write_its_state_is_named_with_the_reason_and_its_run_is_incomplete() {
    if !can_run() {
        return;
    }
    let fleet = four(&[INIT, LOAD, CHECK].concat());
    let disk = fleet.small_disk_for_state(4);
    let _agents = fleet.agents();
    let controller = fleet.run(&["--nats-server", "nats-server"]);
    fleet.wait_until_measuring();
    disk.fill();
    assert_eq!(controller.wait(), 1, "{}", fleet.all_logs());
    assert_only_h4_is_unproved(&fleet);
    let (console, events) = (fleet.text("controller.log"), fleet.events());
    for said in [&console, &events] {
        let of_host = said.lines().filter(|line| line.contains("h4") || line.contains("controller: "));
        let reasons = of_host.filter(|line| line.contains("cannot write its state"));
        assert!(reasons.into_iter().any(|line| line.contains("No space left on device")), "{said}");
    }
    let verdict = console.lines().rfind(|line| line.starts_with("INCOMPLETE")).unwrap_or_default();
    assert!(verdict.contains("h4") && verdict.contains("cannot write its state"), "{console}");
}

#[test]
fn a_volume_that_fills_up_on_one_host_is_named_and_the_others_go_on() {
    if !can_run() {
        return;
    }
    // What is mounted was there before, and Proofload writes only to folders that it has made.
    let solution = SOLUTION.replace("data/{host}", "data/{host}/v");
    let fleet = TestFleet::new(&[&solution, INIT, &long_load(20), CHECK].concat());
    let disk = fleet.small_disk_for_volume(4);
    let _agents = fleet.agents();
    let controller = fleet.run(&["--nats-server", "nats-server"]);
    fleet.wait_until_measuring();
    disk.fill();
    assert_eq!(controller.wait(), 1, "{}", fleet.all_logs());
    assert_only_h4_is_unproved(&fleet);
    let console = fleet.text("controller.log");
    let of_host = console.lines().find(|line| line.starts_with("h4: could not go on")).unwrap_or_default();
    // Whichever comes first: the watch over the room, or the engine at the end of it.
    let reasons = ["before the volume is full", "no space for", "No space left on device"];
    assert!(reasons.iter().any(|reason| of_host.contains(reason)), "{console}");
    assert!(console.lines().any(|line| line.starts_with("INCOMPLETE") && line.contains("h4")), "{console}");
}

#[test]
fn a_host_that_is_lost_ends_the_run_where_the_solution_file_says_so() {
    if !can_run() {
        return;
    }
    let fleet = four(&[INIT, LOAD, CHECK, "[fleet]\nwhen_host_lost = \"stop\"\n"].concat());
    let _agents: Vec<_> = (1..=3).map(|host| fleet.agent(host)).collect();
    let victim = fleet.agent(4);
    let controller = fleet.run(&["--nats-server", "nats-server"]);
    fleet.wait_until_measuring();
    victim.kill();
    assert_eq!(controller.wait(), 3, "{}", fleet.all_logs());
    let (stdout, took_part) = (fleet.text("controller.log"), fleet.took_part());
    assert!(stdout.contains("INCOMPLETE: h4 was lost"), "{stdout}");
    assert!(took_part.iter().all(|(_, tests, outcome)| *tests < 3 && outcome == "unproved"), "{took_part:?}");
}

#[test]
fn a_cut_a_slow_network_and_a_new_bus_delay_a_run_but_lose_nothing() {
    if !can_run() {
        return;
    }
    let fleet = four(&[INIT, LOAD, CHECK].concat());
    fleet.net.degrade(3);
    let (bus, _agents) = (fleet.bus(), fleet.agents());
    let controller = fleet.run(&[]);
    fleet.wait_until_measuring();
    fleet.net.plug(2, false);
    // Not as long as a lost host is silent.
    std::thread::sleep(Duration::from_secs(4));
    fleet.net.plug(2, true);
    bus.kill();
    std::thread::sleep(Duration::from_secs(1));
    let _bus = fleet.bus();
    fleet.assert_passed(controller.wait());
    fleet.assert_everyone_took_part(3);
    assert!(fleet.net.delayed(3) > 0, "the network of h3 was slow");
}

#[test]
fn of_two_runs_on_the_same_hosts_the_later_one_waits_until_the_earlier_one_has_its_evidence() {
    if !can_run() {
        return;
    }
    let mut fleet = four(&[INIT, &long_load(15)].concat());
    let _bus = fleet.bus();
    let _agents: Vec<_> = (1..=3).map(|host| fleet.agent(host)).collect();
    let earlier = fleet.run(&[]);
    let each_says = |log: &str, what: &str| {
        let text = fleet.text(log);
        (1..=3).all(|host| text.contains(&format!("h{host}: {what}")))
    };
    assert!(wait_for(|| each_says("controller.log", "ready")), "{}", fleet.all_logs());
    let later = fleet.run_beside("later");
    assert!(wait_for(|| each_says("later.log", "waits for the end of ")), "{}", fleet.text("later.log"));
    // Both want it, and neither has it.
    let _last = fleet.agent(4);
    fleet.assert_passed(earlier.wait());
    fleet.assert_everyone_took_part(2);
    let status = later.wait();
    fleet.look_at("later");
    fleet.assert_passed(status);
    fleet.assert_everyone_took_part(2);
}

#[test]
fn evidence_is_collected_after_the_controller_died_and_another_run_has_used_the_hosts() {
    if !can_run() {
        return;
    }
    let mut fleet = four(&[INIT, LOAD, "[fleet]\ncontroller_lost_after_s = 5\n"].concat());
    let (_bus, _agents) = (fleet.bus(), fleet.agents());
    let first = fleet.run(&[]);
    fleet.wait_until_measuring();
    first.kill();
    let status = fleet.run_beside("later").wait();
    fleet.look_at("later");
    fleet.assert_passed(status);
    fleet.assert_everyone_took_part(2);
    fleet.look_at("runs");
    let again = fleet.resume(&[]);
    fleet.assert_passed(again.wait());
    fleet.assert_everyone_took_part(2);
    assert_eq!(fleet.events().matches("its evidence has been collected").count(), 4, "{}", fleet.events());
}

#[test]
fn a_second_program_with_the_credentials_of_a_host_is_named_on_the_console_and_in_the_report() {
    if !can_run() {
        return;
    }
    let fleet = four(INIT);
    let (_agents, _second) = (fleet.agents(), fleet.agent_of(4, "second", &[]));
    fleet.assert_passed(fleet.run(&["--nats-server", "nats-server"]).wait());
    fleet.assert_everyone_took_part(1);
    let what = "two processes speak with the credentials of this host";
    for said in [fleet.text("controller.log"), fleet.events()] {
        assert!(said.lines().any(|line| line.contains("h4") && line.contains(what)), "{said}");
    }
}

#[test]
fn credentials_that_other_users_can_read_draw_a_warning() {
    let folder = crate::program::folder_with("solution.toml", &format!("{SOLUTION}\n{INIT}"));
    let said = |arguments: &[&str]| {
        let output = crate::program::proofload(folder.path(), arguments).output().expect("it starts");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    said(&["fleet", "init", "fleet", "--hosts", "h1,h2,h3,h4", "--address", "127.0.0.1:1"]);
    let file = folder.path().join("fleet/controller.toml");
    // No program listens there, so the run ends at once.
    let run = ["fleet", "run", "solution.toml", "--fleet", "fleet"];
    assert!(!said(&run).contains("warning: other users can use"));
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o640)).expect("ours");
    let warned = said(&run);
    assert!(warned.contains("warning: other users can use fleet/controller.toml"), "{warned}");
}

#[test]
fn an_agent_of_another_build_is_refused_unless_the_run_takes_any_build() {
    if !can_run() {
        return;
    }
    let mut fleet = four(INIT);
    let _agents: Vec<_> = (1..=3).map(|host| fleet.agent(host)).collect();
    let _other = fleet.agent_of_another_build(4);
    let refused = fleet.run(&["--nats-server", "nats-server"]);
    let said = || fleet.text("h4.log").contains("the agent is another build of proofload");
    assert!(wait_for(said), "{}", fleet.all_logs());
    let log = fleet.text("h4.log");
    assert!(log.contains("(agent: commit ") && log.matches("SHA-256 ").count() > 1, "both builds: {log}");
    refused.kill();
    fleet.wait_until_no_bus_listens();
    let arguments = ["--nats-server", "nats-server", "--any-build", "--out", "any"];
    let status = fleet.run(&arguments).wait();
    fleet.look_at("any");
    fleet.assert_passed(status);
    fleet.assert_everyone_took_part(1);
}

#[test]
fn an_agent_refuses_a_run_that_would_write_where_it_may_not() {
    if !can_run() {
        return;
    }
    let fleet = four(INIT);
    let _agents: Vec<_> = (1..=3).map(|host| fleet.agent(host)).collect();
    let _limited = fleet.agent_with(4, &["--allow", "elsewhere"]);
    let status = fleet.run(&["--nats-server", "nats-server"]).wait();
    let console = fleet.text("controller.log");
    assert_eq!(status, 3, "no host has carried out a test: {}", fleet.all_logs());
    assert!(console.contains("h4: cannot take part: this agent may not write below"), "{console}");
    assert!(!fleet.path("data/h4").exists(), "it wrote nothing");
}

/// Answers the heartbeats of an agent like the controller, with orders that `change` has altered. Returns whether the
/// agent refused one with the text `enough`, and was idle then.
fn hostile(fleet: &TestFleet, change: impl Fn(&mut Orders), enough: &str) -> bool {
    let credentials = Credentials::read(&fleet.path("fleet/controller.toml")).expect("made");
    let scenario = async {
        let bus = Bus::connect(&credentials).await.expect("the bus runs");
        let mut questions = bus.questions().await.expect("it hears");
        for _ in 0..40 {
            let Some(question) = futures_util::StreamExt::next(&mut questions).await else { break };
            let Ok(heartbeat) = parse::<Heartbeat>(&question.payload) else { continue };
            if heartbeat.refusals.iter().any(|refusal| refusal.contains(enough)) {
                return heartbeat.work == Work::Idle && heartbeat.run.is_none();
            }
            let mut orders = Orders {
                protocol: PROTOCOL,
                nonce: heartbeat.nonce,
                now_unix_ns: 1,
                run: "hostile".into(),
                epoch: 1,
                assignment: None,
                go: true,
                stop: None,
                released: None,
                left: Vec::new(),
                send_evidence: false,
                have_evidence: false,
                collect: false,
                refused: None,
            };
            change(&mut orders);
            bus.say(question.reply.expect("a question"), format(&orders)).await;
        }
        false
    };
    fleet::run(scenario).expect("an event queue")
}

#[test]
fn strangers_other_versions_and_old_orders_change_nothing_and_it_is_said_why() {
    if !can_run() {
        return;
    }
    let fleet = four(INIT);
    let _bus = fleet.bus();
    let agent = fleet.agent(1);
    let said = |what: &str| wait_for(|| fleet.text("h1.log").contains(what));
    assert!(said("connected to"), "{}", fleet.all_logs());
    fleet.net.enter(0, || {
        assert!(hostile(&fleet, |orders| orders.protocol = 99, "speaks version 99"), "another version");
        assert!(hostile(&fleet, |orders| orders.nonce ^= 1, "answer no question"), "an old order, replayed");
    });
    assert!(said("speaks version 99") && said("answer no question"), "{}", fleet.all_logs());
    assert!(!fleet.path("data").exists(), "nothing was written for them");

    // Another fleet's credentials.
    let address = format!("{}:4222", fleet.net.controller_address());
    let strange = fleet.program(&["fleet", "init", "strange", "--hosts", "h1", "--address", &address]);
    assert_eq!(strange.wait(), 0);
    drop(agent);
    std::fs::rename(fleet.path("fleet/agents/h1.toml"), fleet.path("h1.toml")).expect("movable");
    std::fs::copy(fleet.path("strange/agents/h1.toml"), fleet.path("fleet/agents/h1.toml")).expect("copied");
    let _stranger = fleet.agent(1);
    assert!(said("cannot connect to the bus"), "{}", fleet.all_logs());
    let again = fleet.program(&["fleet", "init", "strange", "--hosts", "h1", "--address", &address]);
    assert_eq!(again.wait(), 2, "credentials are never overwritten");
}
