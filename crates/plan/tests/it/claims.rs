//! The matrix of claims: each key of a solution, changed alone, changes the claim, or a condition of the run judges
//! it, or it is on the list of harmless keys with the reason.
//!
//! The keys come from the schema of the solution file, so a new key fails the test until it has its row.

use std::collections::BTreeSet;

use results::{Claim, WorldKind};
use solution::{Setting, Solution};
use testkit::claims::Seen::{Claim as InClaim, Harmless, Refused, Run};
use testkit::claims::{HONEST, PERFORMANCE, ROWS};

fn claimed(settings: &[Setting]) -> Option<Claim> {
    let solution = Solution::parse_with(&format!("{HONEST}{PERFORMANCE}"), "honest.toml", settings).ok()?;
    Some(plan::claim(&solution, WorldKind::Simulated, None, Vec::new()))
}

/// Paths of all keys of the tables that a claim is made of.
fn keys() -> BTreeSet<String> {
    let schema = Solution::json_schema();
    let mut paths = BTreeSet::new();
    for table in [
        "profile",
        "dag",
        "copies",
        "under_test",
        "load",
        "engine",
        "sizing",
        "host",
        "volume",
        "array",
        "instance",
        "test",
    ] {
        let part = &schema["properties"][table];
        let is_list = part["items"].is_object();
        let text = if is_list { part["items"].to_string() } else { part.to_string() };
        let name = text.split("#/$defs/").nth(1).and_then(|rest| rest.split('"').next());
        let name = name.unwrap_or_else(|| panic!("{table} has a definition: {text}"));
        let properties = schema["$defs"][name]["properties"].as_object().expect("a table has keys");
        let at = if is_list { format!("{table}.0") } else { table.to_owned() };
        paths.extend(properties.keys().map(|key| format!("{at}.{key}")));
    }
    paths
}

#[test]
fn every_key_of_a_solution_has_its_row() {
    let rows: BTreeSet<String> = ROWS.iter().map(|(path, ..)| (*path).to_owned()).collect();
    assert_eq!(rows.len(), ROWS.len(), "a key has one row");
    assert_eq!(keys(), rows);
}

#[test]
fn each_harmful_change_is_in_the_claim_or_judged_by_the_run() {
    let honest = claimed(&[]).expect("the honest solution is valid");
    assert_eq!(honest.doubts, Vec::new());
    let mut wrong = Vec::new();
    for (path, value, seen) in ROWS {
        let setting = Setting::of_argument(&format!("{path}={value}")).expect("a setting");
        let now = claimed(std::slice::from_ref(&setting));
        let differs = now.as_ref() != Some(&honest);
        let holds = match seen {
            InClaim => differs && now.is_some(),
            Refused => now.is_none(),
            Harmless(reason) => !differs && !reason.is_empty(),
            Run(name) => now.is_some() && results::grade::condition(name).is_some(),
        };
        if !holds {
            let refused = now.is_none();
            wrong.push(format!("{path} = {value}: {seen:?}; refused: {refused}, claim differs: {differs}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Quiet hours lower the means that the limits of a latency are about.
#[test]
fn a_load_that_follows_a_day_is_a_doubt_unless_every_hour_is_a_peak() {
    let doubts = |quiet: &str| {
        let hours = format!("load.hours_percent=[100{}]", format!(", {quiet}").repeat(23));
        let setting = Setting::of_argument(&hours).expect("a setting");
        claimed(&[setting]).expect("it is valid").doubts
    };
    assert_eq!(doubts("100"), Vec::new());
    let of_day = doubts("50");
    assert!(of_day.len() == 1 && of_day[0].text.contains("quiet hours"), "{of_day:?}");
}

/// Doubts of the five published solutions when simulated: properties that their papers neither describe nor test.
#[test]
fn published_solutions_have_the_doubts_that_their_papers_leave() {
    let of = |text: &str| {
        let solution = Solution::parse(text, "published.toml").expect("it is valid");
        let claim = plan::claim(&solution, WorldKind::Simulated, None, Vec::new());
        claim.doubts.into_iter().map(|doubt| doubt.part + ": " + &doubt.text).collect::<Vec<_>>()
    };
    let none: [&str; 0] = [];
    assert_eq!(of(include_str!("../../../../solutions/dell-md3260-15000.toml")), none);
    assert_eq!(of(include_str!("../../../../solutions/dell-r740xd-10000.toml")), none);
    assert_eq!(of(include_str!("../../../../solutions/lenovo-hx7510-30000.toml")), none);
    let unfit = "plan: the plan cannot judge whether the storage fits".to_owned();
    let one_core = |host: &str| format!("storage: {host} has no `cores`: it is simulated with one");
    let emc = of(include_str!("../../../../solutions/emc-cx3-20c-500.toml"));
    assert_eq!(emc, [one_core("4BPSX91"), unfit.clone()]);
    let mut nimble: Vec<String> = (1..=5).map(|n| one_core(&format!("Host {n}"))).collect();
    nimble.push(unfit);
    assert_eq!(of(include_str!("../../../../solutions/nimble-cs700-100000.toml")), nimble);
}
