//! The command line as a whole: what it offers, what ships in it, and that an exit status means the same in
//! every command.

use std::path::Path;

use crate::program::{folder_with, output, proofload, small_deployment};

fn small() -> String {
    small_deployment("Small", 16, 1) + "[[test]]\nkind = \"init\"\n"
}

/// The only run in a folder.
fn only_run(folder: &Path) -> String {
    let runs = std::fs::read_dir(folder.join("runs")).expect("a run").flatten();
    runs.map(|run| run.path().display().to_string()).next().expect("a run")
}

/// Exit status, the command line, and what stderr says. `RUN` stands for the folder of a run.
const STATUSES: &[(i32, &str, &str)] = &[
    // Everything holds.
    (0, "check s.toml", ""),
    (0, "run s.toml --dry-run", "nothing was written"),
    (0, "clean s.toml --dry-run", "would remove"),
    (0, "report RUN", "wrote"),
    (0, "sql RUN", "what they mean"),
    (0, "lint RUN", "0 findings"),
    (0, "compare RUN RUN", ""),
    (0, "verify data/v/DB1/DB1.edb", ""),
    // The command came to its end, and something does not hold or is not shown.
    (1, "run s.toml --require qualified", "evidence:"),
    (1, "simulate s.toml --require qualified", "evidence:"),
    (1, "compare RUN RUN --fail-above 5", "no figure"),
    (1, "verify damaged.edb", ""),
    // The command line, or a file that it names, is wrong.
    (2, "runs", "unrecognized subcommand"),
    (2, "run s.toml --colour", "unexpected argument"),
    (2, "check no.toml", "cannot read no.toml"),
    (2, "plan no.toml", "cannot read no.toml"),
    (2, "capacity no.toml", "cannot read no.toml"),
    (2, "capacity s.toml", "nothing is said about the users"),
    (2, "run no.toml", "cannot read no.toml"),
    (2, "simulate no.toml", "cannot read no.toml"),
    (2, "clean no.toml", "cannot read no.toml"),
    (2, "paper no.toml RUN", "cannot read no.toml"),
    (2, "run s.toml --host h9", "no host under test is called `h9`"),
    (2, "run s.toml --set load.sesions=1", "unknown key"),
    (2, "run s.toml --sign s.toml", "cannot use the key"),
    (2, "report no", "holds no run.db"),
    (2, "report damaged", "no report of damaged"),
    (2, "report damaged --json", "no report of damaged"),
    (2, "sql no", "holds no run.db"),
    (2, "sql damaged", "cannot be read"),
    (2, "sql RUN DROP", "cannot be answered"),
    (2, "lint no", "cannot read the evidence"),
    (2, "lint damaged", "cannot read the evidence"),
    (2, "compare no RUN", "cannot read the evidence"),
    (2, "compare damaged RUN", "cannot read the evidence"),
    (2, "serve no", "is no folder"),
    (2, "import s.toml --out RUN", "exists already"),
    (2, "verify no.edb", "cannot read no.edb"),
    (2, "verify s.toml", "no EDB database"),
    (2, "verify data/v/DB1/DB1.edb --repair-to s.toml", "cannot create s.toml"),
    (2, "lint --new-key s.toml", "s.toml"),
    (2, "crash-test verify no --notes no.json", "no.json"),
    (2, "fleet run s.toml --fleet no", ""),
    (2, "fleet resume s.toml no --fleet no", ""),
    (2, "fleet agent no.toml --state state", ""),
    (2, "examples lapdog", "did you mean `laptop`?"),
    (2, "examples laptop --out s.toml", "cannot create s.toml"),
    (2, "schema s.toml", "invalid value"),
    (2, "completions s.toml", "invalid value"),
    // The input is right, and the command cannot be carried out.
    (3, "run theirs.toml", "theirs"),
    (3, "run s.toml --out s.toml", "s.toml"),
    (3, "simulate s.toml --out s.toml", "s.toml"),
    (3, "clean theirs.toml", "theirs"),
    (3, "examples laptop --out no/laptop.toml", "cannot create"),
    (3, "man s.toml", "cannot make s.toml"),
];

#[test]
fn an_exit_status_means_the_same_in_every_command() {
    let folder = folder_with("s.toml", &small());
    let at = folder.path();
    assert_eq!(output(at, &["run", "s.toml"]).0, 0);
    let run = only_run(at);
    let theirs = small().replace("data/v", "theirs");
    std::fs::write(at.join("theirs.toml"), theirs).expect("writable");
    for made in ["theirs", "damaged"] {
        std::fs::create_dir(at.join(made)).expect("writable");
    }
    std::fs::write(at.join("damaged/run.db"), [7; 10_000]).expect("writable");
    let mut bytes = std::fs::read(at.join("data/v/DB1/DB1.edb")).expect("a database");
    let page = bytes.len() - 3 * (32 << 10);
    bytes[page..page + 4096].iter_mut().for_each(|byte| *byte ^= 0x5a);
    std::fs::write(at.join("damaged.edb"), bytes).expect("writable");
    let told: Vec<String> = STATUSES
        .iter()
        .filter_map(|(status, line, said)| {
            let arguments: Vec<&str> =
                line.split(' ').map(|word| if word == "RUN" { run.as_str() } else { word }).collect();
            let done = proofload(at, &arguments).output().expect("it starts");
            let stderr = String::from_utf8_lossy(&done.stderr);
            let is_right = done.status.code() == Some(*status) && stderr.contains(said);
            (!is_right)
                .then(|| format!("{line}: {:?}, expected {status} and {said:?}: {stderr}", done.status))
        })
        .collect();
    assert!(told.is_empty(), "{}", told.join("\n"));
}

#[test]
fn help_groups_the_commands_and_colours_it_only_when_asked() {
    let folder = tempfile::tempdir().expect("writable");
    let (status, help, _) = output(folder.path(), &["--help"]);
    assert_eq!(status, 0);
    let order =
        ["Before there is hardware:", "  plan", "On the hardware:", "  run", "  fleet", "With the evidence:"];
    let places: Vec<_> = order.iter().map(|words| help.find(words)).collect();
    assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{help}");
    assert!(help.contains("Exit status: 0 pass") && !help.contains('\u{1b}'), "{help}");
    let colours = |arguments: &[&str]| {
        let done = proofload(folder.path(), arguments).output().expect("it starts");
        [done.stdout, done.stderr].concat().contains(&0x1b)
    };
    assert!(colours(&["--color=always", "--help"]) && !colours(&["--color", "never", "--help"]));
    assert!(colours(&["check", "no.toml", "--color", "always"]));
    assert!(!colours(&["check", "no.toml", "--color", "never"]));
}

#[test]
fn quiet_leaves_errors_and_data_only() {
    let folder = folder_with("s.toml", &small());
    let (status, stdout, stderr) = output(folder.path(), &["run", "s.toml", "-q"]);
    assert_eq!((status, stderr.as_str()), (0, ""), "{stdout}");
    assert!(stdout.contains("LIMITS HELD"), "{stdout}");
    let (status, _, stderr) = output(folder.path(), &["--quiet", "check", "no.toml"]);
    assert!(status == 2 && stderr.contains("cannot read no.toml"), "{stderr}");
}

#[test]
fn commands_that_print_results_print_them_as_json_alone() {
    let folder = folder_with("s.toml", &small());
    let at = folder.path();
    let json = |arguments: &[&str]| -> serde_json::Value {
        let (_, stdout, stderr) = output(at, &[arguments, &["--json"]].concat());
        serde_json::from_str(&stdout)
            .unwrap_or_else(|error| panic!("{arguments:?}: {error}: {stdout}{stderr}"))
    };
    assert_eq!(json(&["run", "s.toml"])["verdict"]["grade"], "held");
    let run = only_run(at);
    assert_eq!(json(&["report", &run])["verdict"]["grade"], "held");
    assert_eq!(json(&["check", "s.toml"])["solution"], "Small");
    assert_eq!(json(&["lint", &run])["evidence"][0]["findings"], serde_json::json!([]));
    assert!(json(&["compare", &run, &run]).is_object());
    assert_eq!(json(&["sql", &run, "SELECT 1 AS one"])["one"], 1);
    let verified = json(&["verify", "data/v/DB1/DB1.edb"]);
    assert_eq!((&verified["clean"], &verified["pages"]["bad"]), (&true.into(), &0.into()), "{verified}");
    assert!(verified["pages"]["seen"].as_u64() > Some(500), "{verified}");
    let cleaned = json(&["clean", "s.toml"]);
    assert_eq!(cleaned["folders"][0]["kept"], serde_json::json!([]));
    assert!(
        cleaned["folders"][0]["removed"].as_array().is_some_and(|removed| removed.len() > 1),
        "{cleaned}"
    );
    assert_eq!(json(&["simulate", "s.toml"])["run"]["world"], "simulated");
}

#[test]
fn dry_run_lists_tests_with_their_times_space_and_memory() {
    let tests = "[[test]]\nkind = \"performance\"\nduration_s = 90\nwarmup_limit_s = 30\n";
    let folder = folder_with("s.toml", &(small() + tests));
    let (status, stdout, _) = output(folder.path(), &["run", "s.toml", "--dry-run"]);
    assert_eq!(status, 0);
    for words in [
        "2 tests:",
        "1 min 30 s, after a warm-up of at most 30 s",
        "in all at least 1 min 30 s, at most 2 min and",
        "will write below",
        "data/v",
        "8 MiB of memory for page caches",
    ] {
        assert!(stdout.contains(words), "{words}: {stdout}");
    }
    assert!(!folder.path().join("data").exists() && !folder.path().join("runs").exists());
}

#[test]
fn every_solution_of_the_repository_ships_as_an_example_that_is_never_written_over_a_file() {
    let folder = tempfile::tempdir().expect("writable");
    let solutions = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../solutions");
    let (status, listed, _) = output(folder.path(), &["examples"]);
    assert_eq!(status, 0);
    let mut names: Vec<String> = std::fs::read_dir(&solutions)
        .expect("solutions")
        .map(|entry| {
            entry.expect("readable").path().file_stem().expect("a name").to_string_lossy().into_owned()
        })
        .collect();
    let mut shown: Vec<&str> = listed.lines().filter_map(|line| line.split(' ').next()).collect();
    names.sort();
    shown.sort_unstable();
    assert_eq!(shown, names);
    for name in &names {
        let path = folder.path().join(format!("{name}.toml"));
        assert_eq!(output(folder.path(), &["examples", name]).0, 0);
        let shipped = std::fs::read(solutions.join(format!("{name}.toml"))).expect("readable");
        assert_eq!(std::fs::read(&path).expect("written"), shipped, "{name}");
        std::fs::write(&path, "mine").expect("writable");
        assert_eq!(output(folder.path(), &["examples", name]).0, 2);
        assert_eq!(std::fs::read(&path).expect("kept"), b"mine");
        let (status, text, _) = output(folder.path(), &["examples", name, "--out", "-"]);
        assert_eq!((status, text.as_bytes()), (0, shipped.as_slice()), "{name}");
    }
}

#[test]
fn schemas_are_printed_and_run_db_is_of_the_printed_one() {
    let folder = folder_with("s.toml", &small());
    let forms = [
        "solution",
        "plan",
        "capacity",
        "report",
        "search",
        "check",
        "dry-run",
        "progress",
        "clean",
        "verify",
        "crash-test",
        "explain",
        "compare",
        "lint",
        "examples",
    ];
    for form in forms {
        let (status, stdout, _) = output(folder.path(), &["schema", form]);
        let schema: serde_json::Value = serde_json::from_str(&stdout).expect("JSON");
        assert!(status == 0 && schema["$schema"].is_string() && schema["properties"].is_object(), "{form}");
    }
    let (_, sql, _) = output(folder.path(), &["schema", "run-db"]);
    let printed = rusqlite::Connection::open_in_memory().expect("a database");
    printed.execute_batch(&sql).expect("SQL");
    assert_eq!(output(folder.path(), &["run", "s.toml"]).0, 0);
    let made = rusqlite::Connection::open(format!("{}/run.db", only_run(folder.path()))).expect("a run");
    let tables = |db: &rusqlite::Connection| -> Vec<(String, String)> {
        let query = "SELECT name, sql FROM sqlite_schema WHERE type = 'table' ORDER BY name";
        let mut statement = db.prepare(query).expect("SQL");
        let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).expect("rows");
        rows.map(|row| row.expect("a row")).collect()
    };
    assert_eq!(tables(&made), tables(&printed));
}

#[test]
fn completions_and_manual_pages_know_every_command() {
    let folder = tempfile::tempdir().expect("writable");
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let (status, script, _) = output(folder.path(), &["completions", shell]);
        assert!(status == 0 && script.contains("crash-test") && script.contains("fail-above"), "{shell}");
    }
    assert_eq!(output(folder.path(), &["man", "pages"]).0, 0);
    let page = |name: &str| std::fs::read_to_string(folder.path().join("pages").join(name)).expect(name);
    assert!(page("proofload.1").contains("proofload"), "the page of the program");
    for name in ["run", "plan", "crash-test-verify", "schema", "man"] {
        assert!(page(&format!("proofload-{name}.1")).contains("SYNOPSIS"), "{name}");
    }
    if cfg!(feature = "fleet") {
        assert!(page("proofload-fleet-agent.1").contains("CREDENTIALS"), "fleets, too");
    }
    assert!(!folder.path().join("pages/proofload-drill-work.1").exists(), "it is no command for people");
    std::fs::write(folder.path().join("pages/proofload.1"), "mine").expect("writable");
    assert_eq!(output(folder.path(), &["man", "pages"]).0, 2);
    assert_eq!(page("proofload.1"), "mine");
}
