//! Settings: what they make of a file, and where a mistake is told.

use solution::{Setting, Solution};

const FILE: &str = r#"# a comment
[solution]
name = "Small"
schema = 1

[[host]]
name = "h1"

[[volume]]
name = "V"
path = "/v"

[[instance]]
name = "DB"
databases = [{ name = "A" }, { name = "B" }]

[sizing]
database_mib = 64 # each

[load]
sessions = 4

[[test]]
kind = "performance"
duration_s = 10

[[test]]
kind = "database_checksum"

[[test]]
kind = "database_checksum"
"#;

fn settings(arguments: &[&str]) -> Vec<Setting> {
    arguments.iter().map(|argument| Setting::of_argument(argument).expect("a key and a value")).collect()
}

fn with(arguments: &[&str]) -> solution::Result<Solution> {
    Solution::parse_with(FILE, "small.toml", &settings(arguments))
}

/// Error of these settings as one line.
fn refused(arguments: &[&str]) -> String {
    with(arguments).expect_err(&arguments.join(" ")).to_string()
}

#[test]
fn a_setting_changes_its_value_and_no_other_byte_of_the_file() {
    for (argument, before, after) in [
        ("load.sessions=8", "sessions = 4", "sessions = 8"),
        ("sizing.database_mib = 128", "64 # each", "128 # each"),
        ("solution.name=Large", "\"Small\"", "\"Large\""),
        ("solution.name=\"two words\"", "\"Small\"", "\"two words\""),
        ("solution.name=two words", "\"Small\"", "\"two words\""),
        ("test.performance.duration_s=60", "duration_s = 10", "duration_s = 60"),
        ("test.0.duration_s=60.5", "duration_s = 10", "duration_s = 60.5"),
        ("volume.v.path=/mnt/v", "\"/v\"", "\"/mnt/v\""),
        ("instance.DB.databases.B.name=C", "{ name = \"B\" }", "{ name = \"C\" }"),
        ("load.sessions=4", "", ""),
        ("load.idle_factor=0.5", "sessions = 4\n", "sessions = 4\nidle_factor = 0.5\n"),
        ("under_test.hosts=[\"h*\"]", "", ""),
    ] {
        let solution = with(&[argument]).unwrap_or_else(|error| panic!("{argument}: {error}"));
        let expected = match before {
            "" if argument.starts_with("under_test") => format!("{FILE}\n[under_test]\nhosts = [\"h*\"]\n"),
            "" => FILE.to_owned(),
            before => FILE.replace(before, after),
        };
        assert_eq!(solution.text(), expected, "{argument}");
        assert_eq!(Solution::parse(solution.text(), "again").expect("valid").load, solution.load);
    }
}

#[test]
fn the_last_of_several_settings_of_a_value_counts_and_all_are_kept() {
    let solution = with(&["load.sessions=8", "load.sessions=9"]).expect("valid");
    assert!(solution.text().contains("sessions = 9"));
    let kept: Vec<(&str, &str, &str)> =
        solution.settings().map(|one| (one.path(), one.value(), one.source())).collect();
    assert_eq!(kept, [("load.sessions", "8", "--set"), ("load.sessions", "9", "--set")]);
}

#[test]
fn a_variable_names_the_path_with_double_underscores_and_capitals() {
    let of = |name: &str, value: &str| Setting::of_variable(name, value);
    let setting = of("PROOFLOAD_SET_TEST__PERFORMANCE__DURATION_S", "60").expect("a setting");
    assert_eq!(setting.path(), "test.performance.duration_s");
    assert_eq!(setting.source(), "PROOFLOAD_SET_TEST__PERFORMANCE__DURATION_S");
    let solution = Solution::parse_with(FILE, "small.toml", &[setting]).expect("valid");
    assert!(solution.text().contains("duration_s = 60"));
    assert_eq!(of("PROOFLOAD_SEEDS", "1"), None);
    let wrong = of("PROOFLOAD_SET_LOAD__SESIONS", "1").expect("a setting");
    let error = Solution::parse_with(FILE, "small.toml", &[wrong]).expect_err("misspelt").to_string();
    assert_eq!(error, "PROOFLOAD_SET_LOAD__SESIONS=1: unknown key `sesions` (did you mean `sessions`?)");
}

#[test]
fn a_mistake_of_a_setting_is_told_at_the_setting_and_others_at_their_line_of_the_file() {
    for (argument, message) in [
        ("load.sessions=lots", "`sessions` must be a whole number"),
        ("load.sessions=0", "`sessions` must be a whole number"),
        ("loads.sessions=1", "unknown key `loads`"),
        ("instance.0.volume=W", "no volume under test"),
    ] {
        let told = refused(&[argument]);
        assert!(told.starts_with(&format!("--set {argument}: {message}")), "{told}");
    }

    let error = with(&["load.sesions=1"]).expect_err("misspelt");
    assert_eq!(&error.setting.as_ref().expect("a setting").text()[error.span.clone()], "load.sesions");
    let error = with(&["load.idle_factor=-1"]).expect_err("out of range");
    assert_eq!(&error.setting.as_ref().expect("a setting").text()[error.span.clone()], "-1");

    // The settings before it are longer and shorter than what they replace, and add lines.
    let file = FILE.replace("duration_s = 10", "duration_s = -10");
    let line = 1 + file.lines().position(|line| line.contains("-10")).expect("it is there");
    let before = settings(&["load.idle_factor=0.25", "sizing.database_mib=1024", "solution.name=S"]);
    let error = Solution::parse_with(&file, "small.toml", &before).expect_err("out of range");
    assert_eq!((error.line(), error.setting.clone(), &error.text), (line, None, &file), "{error}");
    assert_eq!(&file[error.span.clone()], "-10");

    let both = Solution::parse_with(&file, "small.toml", &settings(&["load.sessions=-1"]));
    let told: Vec<String> = both.expect_err("two mistakes").to_string().lines().map(str::to_owned).collect();
    assert!(told[0].starts_with("--set load.sessions=-1: "), "{told:?}");
    assert!(told[1].starts_with(&format!("small.toml:{line}: ")), "{told:?}");

    let error = Solution::parse_with("[solution\n", "small.toml", &before).expect_err("no TOML");
    assert_eq!(error.line(), 1, "{error}");
}

#[test]
fn a_path_that_means_no_single_value_is_refused_with_what_there_is() {
    for (argument, message) in [
        ("load=5", "`load` is a table"),
        ("test=5", "`test` is a list of tables"),
        ("test.0=5", "`test.0` is a table"),
        ("load.sessions.x=5", "`load.sessions` is a value and has no keys"),
        ("test.7.logs=5", "no entry of `test` is called `7` (name one by its number: 0 performance"),
        ("test.database_checksum.logs=5", "more than one entry of `test` is called `database_checksum`"),
        ("load..x=5", "this is no path of a value"),
        ("load.mix={insert", "this is no value"),
    ] {
        let told = refused(&[argument]);
        assert!(told.starts_with(&format!("--set {argument}: {message}")), "{told}");
    }
    // Tables of one line are tables, too.
    let line = FILE.replace("[load]\nsessions = 4\n", "").replace("[[host]]", "[load]\nmix = {}\n[[host]]");
    let set = |argument| Solution::parse_with(&line, "small.toml", &settings(&[argument]));
    let text = set("load.mix.read=35").expect_err("the other shares are missing").to_string();
    assert!(text.contains("`insert` is missing"), "{text}");
    let text = set("load.mix.read.much=35").expect_err("no such thing").to_string();
    assert!(text.starts_with("--set load.mix.read.much=35: "), "{text}");
    for argument in ["load.sessions", "=5", ""] {
        assert!(Setting::of_argument(argument).is_err(), "{argument}");
    }
}

#[test]
fn key_without_its_path_is_refused_with_the_paths_that_end_in_it() {
    let stress = "\n[[test]]\nkind = \"stress\"\nduration_s = 6\n";
    let file = format!("{FILE}{stress}{stress}");
    let told = |setting: Setting| {
        let error = Solution::parse_with(&file, "small.toml", &[setting]).expect_err("no such path");
        error.help.clone().expect("help")
    };
    let all = "did you mean `test.performance.duration_s`, `test.3.duration_s` or `test.4.duration_s`?";
    let set = |argument: &str| told(Setting::of_argument(argument).expect("a setting"));
    assert_eq!(set("duration_s=10"), all);
    assert_eq!(set("test.duration_s=10"), all);
    assert_eq!(set("performance.duration_s=10"), "did you mean `test.performance.duration_s`?");
    assert_eq!(
        set("batches_per_s=1"),
        "did you mean `load.batches_per_s`?",
        "a key that the file leaves out"
    );
    assert!(set("test.perf.duration_s=10").starts_with("name one by its number"));
    let variable = Setting::of_variable("PROOFLOAD_SET_PERFORMANCE__DURATION_S", "10").expect("a setting");
    assert_eq!(told(variable), "did you mean `PROOFLOAD_SET_TEST__PERFORMANCE__DURATION_S`?");
}
