//! What the views promise: 100 columns, a page that needs nothing from elsewhere, JSON that follows its schema.

use plan::Plan;
use solution::Solution;

pub const SOLUTIONS: [(&str, &str); 7] = [
    ("md3260", include_str!("../../../../solutions/dell-md3260-15000.toml")),
    ("r740xd", include_str!("../../../../solutions/dell-r740xd-10000.toml")),
    ("cx3-20c", include_str!("../../../../solutions/emc-cx3-20c-500.toml")),
    ("hx7510", include_str!("../../../../solutions/lenovo-hx7510-30000.toml")),
    ("cs700", include_str!("../../../../solutions/nimble-cs700-100000.toml")),
    ("se", include_str!("../../../../solutions/exchange-se-golden.toml")),
    ("laptop", include_str!("../../../../solutions/laptop.toml")),
];

fn plans() -> impl Iterator<Item = (&'static str, Solution, Plan)> {
    SOLUTIONS.iter().map(|&(name, text)| {
        let solution = Solution::parse(text, name).unwrap_or_else(|error| panic!("{error}"));
        let plan = plan::plan(&solution, &[]).unwrap_or_else(|error| panic!("{error}"));
        (name, solution, plan)
    })
}

#[test]
fn every_shipped_solution_plans_cleanly_and_can_be_run() {
    for (name, solution, plan) in plans() {
        let failed: Vec<_> =
            plan.checks.iter().filter(|check| check.outcome == plan::Outcome::Fail).collect();
        assert!(plan.passed && failed.is_empty(), "{name}: {failed:?}");
        let solution = plan::to_run(solution).unwrap_or_else(|error| panic!("{error}"));
        for host in solution.hosts_under_test() {
            let deployment = solution.deployment(Some(&host.name)).unwrap_or_else(|error| panic!("{error}"));
            assert!(!deployment.instances.is_empty(), "{name}");
        }
    }
}

#[test]
fn the_terminal_view_fits_100_columns() {
    for (name, _, plan) in plans() {
        for line in plan::terminal(&plan).lines() {
            assert!(line.chars().count() <= 100, "{name}: {line}");
        }
    }
}

#[test]
fn the_page_needs_nothing_from_elsewhere() {
    for (name, _, plan) in plans() {
        let page = plan::html(&plan, "");
        assert!(page.ends_with("</html>"), "{name}: {}", &page[..page.len().min(300)]);
        for foreign in ["http:", "https:", "<script", "<link", "@import", "url(", " src="] {
            assert!(!page.contains(foreign), "{name}: {foreign}");
        }
        for server in &plan.servers {
            assert!(page.contains(&server.name), "{name}: {}", server.name);
        }
    }
}

#[test]
fn numbers_have_separators_and_plurals_in_the_page_and_in_the_checks() {
    let (_, _, plan) = plans().find(|(name, ..)| *name == "cs700").expect("it is shipped");
    let page = plan::html(&plan, "");
    for words in ["100,000 mailboxes on Exchange", "I/O per second for "] {
        assert!(page.contains(words), "{words}");
    }
    let bare = |text: &str| {
        let digits = text.split(|c: char| !c.is_ascii_digit() && c != '.');
        digits.filter(|run| !run.contains('.')).any(|run| run.len() > 3 && run.parse::<u64>().is_ok())
    };
    for check in &plan.checks {
        assert!(!bare(&check.detail), "{}: {}", check.name, check.detail);
    }
    let rows = page.lines().filter(|line| line.starts_with("<tr><td>")).collect::<Vec<_>>();
    assert!(rows.len() > 20);
    let figures = rows.iter().flat_map(|row| row.split("<td>")).filter_map(|cell| cell.strip_suffix("</td>"));
    let wrong: Vec<&str> =
        figures.filter(|figure| figure.parse::<f64>().is_ok_and(|n| n >= 1000.0)).collect();
    assert!(wrong.is_empty(), "{wrong:?}");
}

#[test]
fn the_page_does_not_run_what_a_name_contains() {
    let text = SOLUTIONS[6].1.replace("name = \"Laptop\"", "name = \"<script>alert(1)</script>\"");
    let solution = Solution::parse(&text.replace("name = \"laptop\"", "name = \"<b>&\""), "t").unwrap();
    let page = plan::html(&plan::plan(&solution, &[]).unwrap(), "");
    assert!(!page.contains("<script") && !page.contains("<b>&"), "names are escaped");
}

#[test]
fn the_json_follows_its_schema() {
    let validator = jsonschema::validator_for(&Plan::json_schema()).expect("the schema is one");
    for (name, _, plan) in plans() {
        let json: serde_json::Value = serde_json::from_str(&plan.json()).unwrap();
        if let Err(error) = validator.validate(&json) {
            panic!("{name}: {error}");
        }
        assert_eq!(json["schema_version"], 1);
    }
}

#[test]
fn the_same_file_gives_the_same_bytes() {
    for ((_, _, a), (_, _, b)) in plans().zip(plans()) {
        assert_eq!(a.json(), b.json());
        assert_eq!(plan::html(&a, ""), plan::html(&b, ""));
    }
}
