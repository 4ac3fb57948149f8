//! The search: nothing better is left out, nothing insufficient is let in.

use plan::search::{Catalogue, Design, Found, search};
use solution::Solution;

const SOLUTION: &str = include_str!("../../../solutions/dell-r740xd-10000.toml");
const CATALOGUE: &str = include_str!("../../../solutions/catalogue.toml");

fn found(catalogue: &str) -> Found {
    let solution = Solution::parse(SOLUTION, "solution").unwrap();
    search(&solution, &Catalogue::parse(catalogue, "catalogue").unwrap()).unwrap()
}

/// A solution file of a design, to be planned in full.
fn planned(design: &Design) -> plan::Plan {
    let capacity = if design.disk == "ST4000NM0023" { 4000 } else { 8000 };
    let raid = if design.volume.disks == 1 { "jbod" } else { "raid1" };
    let n = design.servers_per_site;
    let text = format!(
        "[solution]\nname = \"design\"\nschema = 1\n[profile]\nexchange = \"2016\"\nmailboxes = 10000\n\
         messages_per_day = 150\nquota_mb = 35840\n[dag]\ndatabases = {}\ndatabases_per_volume = {}\n\
         [copies]\nper_site = {:?}\n[[site]]\nname = \"A\"\n[[site]]\nname = \"B\"\n\
         [[host]]\nname = \"a{{n}}\"\ncount = {n}\nsite = \"A\"\ncores = 20\nmemory_gib = 160\n\
         [[host]]\nname = \"b{{n}}\"\ncount = {n}\nsite = \"B\"\ncores = 20\nmemory_gib = 160\n\
         [[disk]]\nname = \"d\"\ncapacity_gb = {capacity}\nrpm = 7200\n\
         [[volume]]\nname = \"v{{n}}\"\ncount = {}\ndisk = \"d\"\ndisks = {}\nraid = \"{raid}\"\n",
        design.databases,
        design.databases_per_volume,
        design.copies_per_site,
        design.volumes_per_server,
        design.volume.disks,
    );
    plan::plan(&Solution::parse(&text, "design").unwrap(), &[])
        .unwrap_or_else(|error| panic!("{error}\n{text}"))
}

#[test]
fn every_design_on_the_front_holds_as_a_plan() {
    let found = found(CATALOGUE);
    assert!(!found.front.is_empty());
    for design in &found.front {
        let plan = planned(design);
        let failed: Vec<_> =
            plan.checks.iter().filter(|check| check.outcome == plan::Outcome::Fail).collect();
        assert!(failed.is_empty(), "{design:?}: {failed:?}");
        let class =
            plan.failures.classes.iter().find(|class| class.kind == plan::Kind::SiteAndServer).unwrap();
        assert_eq!((class.lost_databases, class.worst_active), (0, design.worst_active_layout));
        let volume = &plan.storage.volumes[0];
        assert!((volume.iops_share.unwrap() - design.iops_share).abs() < 1e-9);
        assert!((volume.capacity_share.unwrap() - design.capacity_share).abs() < 1e-9);
    }
}

#[test]
fn no_design_on_the_front_is_covered_by_another() {
    let front = found(CATALOGUE).front;
    for (i, a) in front.iter().enumerate() {
        for (j, b) in front.iter().enumerate() {
            let covers = a.disks <= b.disks && a.servers <= b.servers && a.utilisation <= b.utilisation;
            assert!(i == j || !covers, "{a:?} covers {b:?}");
        }
    }
}

#[test]
fn every_candidate_is_either_sufficient_or_refused_for_a_reason() {
    let found = found(CATALOGUE);
    let refused: usize = found.refused.values().sum();
    assert_eq!(found.candidates, found.sufficient + refused);
    for design in &found.front {
        assert!(!design.neighbours.is_empty());
        assert!(design.neighbours.iter().all(|neighbour| !neighbour.reason.is_empty()));
    }
    for line in found.terminal().lines() {
        assert!(line.chars().count() <= 100, "{line}");
    }
}

#[test]
fn a_failure_that_the_copies_cannot_survive_leaves_nothing() {
    let found = found(&CATALOGUE.replace("[[2, 2], [3, 2]]", "[[2, 1]]"));
    assert_eq!(found.sufficient, 0);
    assert!(found.refused.contains_key("failure"));
}

#[test]
fn mistakes_in_a_catalogue_point_at_their_line() {
    for (replace, by, place, words) in [
        ("survive", "survives", "survives", "unknown key"),
        ("rpm = 7200", "rpm = 15000", "[[disk]]", "I/O of disk `ST4000NM0023` is not known"),
        ("servers_per_site = [2, 3, 4, 5, 6, 7, 8]", "servers_per_site = []", "[]", "nothing to choose"),
    ] {
        let error = Catalogue::parse(&CATALOGUE.replacen(replace, by, 1), "catalogue").unwrap_err();
        assert!(error.message.contains(words), "{error}");
        assert_eq!(error.text[error.span.clone()].lines().next(), Some(place), "{error}");
    }
}
