//! The search: nothing better is left out, nothing insufficient is let in.

use plan::search::{Catalogue, Design, Found, search};
use solution::Solution;

const SOLUTION: &str = include_str!("../../../../solutions/dell-r740xd-10000.toml");
const CATALOGUE: &str = include_str!("../../../../solutions/catalogue.toml");

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
        (
            "\"raid1\", disks = 2",
            "\"raid1\", disks = 1",
            "1",
            "cannot be made at this RAID level with disks = 1",
        ),
        (
            "\"raid1\", disks = 2",
            "\"raid10\", disks = 5",
            "5",
            "cannot be made at this RAID level with disks = 5",
        ),
    ] {
        let error = Catalogue::parse(&CATALOGUE.replacen(replace, by, 1), "catalogue").unwrap_err();
        assert!(error.message.contains(words), "{error}");
        assert_eq!(error.text[error.span.clone()].lines().next(), Some(place), "{error}");
    }
}

/// A solution of this many sites with `servers` servers in each.
fn sites(exchange: &str, sites: u32, servers: u32, mailboxes: u32, rest: &str) -> String {
    let mut text = format!(
        "[solution]\nname = \"t\"\nschema = 1\n[profile]\nexchange = \"{exchange}\"\nmailboxes = {mailboxes}\n\
         messages_per_day = 150\nquota_mb = 1024\n"
    );
    for site in 0..sites {
        text += &format!(
            "[[site]]\nname = \"{site}\"\n[[host]]\nname = \"s{site}-{{n}}\"\ncount = {servers}\nsite = \"{site}\"\n"
        );
    }
    text + rest
}

/// Searches servers of one kind, each with up to six flash disks of 4 TB.
fn flash(base: &str, survive: &str, servers: u32, copies: &str, kind: &str) -> Found {
    let catalogue = format!(
        "[search]\nsurvive = \"{survive}\"\nservers_per_site = [{servers}]\ncopies_per_site = {copies}\n\
         databases_per_volume = [1]\nvolume = [{{ raid = \"jbod\", disks = 1 }}]\n[[disk]]\nname = \"f\"\n\
         capacity_gb = 4000\nsolid_state = true\nrandom_iops = 900\n[[server]]\nname = \"s\"\nbays = 6\n{kind}"
    );
    let solution = Solution::parse(base, "solution").unwrap();
    search(&solution, &Catalogue::parse(&catalogue, "catalogue").unwrap()).unwrap()
}

/// The plan of a design of [`flash`].
fn plan_of(design: &Design, exchange: &str, in_sites: u32, mailboxes: u32, kind: &str) -> plan::Plan {
    let rest = format!(
        "[dag]\ndatabases = {}\n[copies]\nper_site = {:?}\n[[disk]]\nname = \"f\"\ncapacity_gb = 4000\n\
         solid_state = true\nrandom_iops = 900\n[[volume]]\nname = \"v{{n}}\"\ncount = {}\ndisk = \"f\"\n",
        design.databases, design.copies_per_site, design.volumes_per_server
    );
    let text = sites(exchange, in_sites, design.servers_per_site, mailboxes, &rest)
        .replace("[[host]]\n", &format!("[[host]]\n{kind}"));
    let solution = Solution::parse(&text, "design").unwrap_or_else(|error| panic!("{error}\n{text}"));
    plan::plan(&solution, &[]).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

#[test]
fn what_the_arithmetic_cannot_answer_the_layout_decides() {
    for (in_sites, servers, survive, kind, copies) in [
        (2, 2, "two_servers", plan::Kind::TwoServers, "[[2, 2]]"),
        (2, 2, "two_servers", plan::Kind::TwoServers, "[[2, 1]]"),
        (3, 1, "site_and_server", plan::Kind::SiteAndServer, "[[1, 1, 1]]"),
        (3, 2, "site_and_server", plan::Kind::SiteAndServer, "[[2, 1, 1]]"),
    ] {
        let found = flash(&sites("2016", in_sites, 1, 1000, ""), survive, servers, copies, "");
        assert!(!found.front.is_empty(), "{survive} {copies}: {:?}", found.refused);
        for design in &found.front {
            let plan = plan_of(design, "2016", in_sites, 1000, "");
            let class = plan.failures.classes.iter().find(|class| class.kind == kind).unwrap();
            assert_eq!((class.lost_databases, class.worst_active), (0, design.worst_active_layout));
            assert!(plan.passed, "{copies}: {:?}", plan.checks);
        }
    }
    // As many copies as the failure can take.
    for (in_sites, servers, survive, copies) in [
        (1, 4, "server", "[[1]]"),
        (1, 4, "two_servers", "[[2]]"),
        (1, 4, "site", "[[3]]"),
        (2, 2, "site_and_server", "[[1, 1]]"),
        (3, 2, "site_and_server", "[[1, 2]]"),
    ] {
        let found = flash(&sites("2016", in_sites, 1, 1000, ""), survive, servers, copies, "");
        assert_eq!(found.sufficient, 0, "{survive} {copies}");
        assert!(found.refused.contains_key("failure"), "{survive} {copies}: {:?}", found.refused);
    }
}

#[test]
fn a_design_has_the_profile_of_its_own_number_of_copies() {
    // Exchange 2010 takes less I/O per message in a group than alone, and the base file has one copy.
    let found = flash(&sites("2010", 1, 1, 4000, ""), "server", 2, "[[2]]", "");
    assert!(!found.front.is_empty(), "{:?}", found.refused);
    for design in &found.front {
        let plan = plan_of(design, "2010", 1, 4000, "");
        assert!((plan.sizing.iops_per_mailbox - 0.15).abs() < 1e-12);
        let volume = &plan.storage.volumes[0];
        assert!((volume.iops_share.unwrap() - design.iops_share).abs() < 1e-9, "{design:?}");
    }
}

#[test]
fn processor_and_memory_suffice_by_the_layout_too() {
    // Three copies on four servers: two lost leave (4 / 2 =) 2 actives by the arithmetic, 3 by the layout.
    let mut found_any = 0;
    for kind in [
        "specint_rate = 485\n",
        "cores = 20\nmemory_gib = 100\n",
        "specint_rate = 600\n",
        "cores = 20\nmemory_gib = 120\n",
    ] {
        let found = flash(&sites("2016", 1, 1, 4000, ""), "two_servers", 4, "[[3]]", kind);
        for design in found.front.iter().filter(|design| design.databases == 4) {
            found_any += 1;
            let plan = plan_of(design, "2016", 1, 4000, kind);
            assert!(plan.passed, "{kind}: {:?}", plan.checks);
        }
    }
    assert_eq!(found_any, 2);
}
