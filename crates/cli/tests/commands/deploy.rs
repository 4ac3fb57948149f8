//! The launchers below `deploy`: what can be checked of them without the systems that they are for.
#![allow(clippy::disallowed_methods, reason = "tests face the operating system")]

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use testkit::claims::HONEST;

use crate::program::{folder_with, output};

fn launcher(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy").join(name)
}

fn read(name: &str) -> String {
    std::fs::read_to_string(launcher(name)).expect("it is part of the project")
}

#[test]
fn systemd_finds_nothing_wrong_with_the_unit_of_the_agent() {
    if !testkit::has_tool("systemd-analyze", &["--version"], "sudo apt-get install -y systemd") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let unit = folder.path().join("proofload-agent.service");
    // The program is not at its installed place here.
    let text = read("systemd/proofload-agent.service")
        .replace("/usr/bin/proofload", env!("CARGO_BIN_EXE_proofload"));
    std::fs::write(&unit, text).expect("writable");
    let output = Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(&unit).output();
    let output = output.expect("it starts");
    let found = String::from_utf8_lossy(&output.stderr);
    // It also looks at the units that this one needs, which are not ours.
    let about_it: Vec<&str> = found.lines().filter(|line| line.contains("proofload-agent")).collect();
    assert!(output.status.success() && about_it.is_empty(), "{found}");
}

#[test]
fn the_slurm_job_starts_an_agent_that_may_write_below_one_folder_only() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).display().to_string();
    for (name, script) in [
        ("srun", "#!/bin/bash\nwhile [[ $1 == --* ]]; do shift; done\nexec \"$@\"\n"),
        ("proofload", "#!/bin/bash\npwd\necho \"$@\"\n"),
    ] {
        std::fs::write(path(name), script).expect("writable");
        std::fs::set_permissions(path(name), PermissionsExt::from_mode(0o755)).expect("ours");
    }
    let output = Command::new("bash")
        .arg(launcher("slurm/agents.sbatch"))
        .arg("/fleet")
        .env("PATH", format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap_or_default()))
        .env("SLURMD_NODENAME", "node1")
        .env("STATE", path("state"))
        .env("VOLUMES", path("volumes"))
        .output()
        .expect("bash starts");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let (state, volumes) = (path("state"), path("volumes"));
    let expected =
        format!("{volumes}\nfleet agent /fleet/agents/node1.toml --state {state} --allow {volumes}\n");
    assert_eq!(said, expected, "{}", String::from_utf8_lossy(&output.stderr));
}

/// Asserts that the answers to the cases of the recipes, which they left in `answers`, merge into those of one run.
fn assert_complete(folder: &Path) {
    let list = ["capacity", "s.toml", "--vary", "disk=A,B", "--vary", "copies=[1],[2]", "--plan-only"];
    let (status, whole, _) = output(folder, &list);
    let (merged_status, merged, stderr) = output(folder, &[&list[..], &["--merge", "answers"]].concat());
    assert_eq!((merged_status, merged), (status, whole), "{stderr}");
}

/// A solution with the disks of the recipes.
fn two_disks() -> tempfile::TempDir {
    let disk = "[[disk]]\nname = \"B\"\ncapacity_gb = 8000\nrpm = 7200\n\n[[volume]]";
    folder_with("s.toml", &HONEST.replace("ST4000NM0023", "A").replacen("[[volume]]", disk, 1))
}

#[test]
fn the_slurm_array_answers_every_case_and_a_lost_one_alone() {
    let folder = two_disks();
    let program = Path::new(env!("CARGO_BIN_EXE_proofload")).parent().expect("it is in a folder");
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap_or_default());
    let task = |index: u32, (count, most): (&str, u32)| {
        let done = Command::new("bash")
            .arg(launcher("slurm/cases.sbatch"))
            .args(["answers", "s.toml", "--vary", "disk=A,B", "--vary", "copies=[1],[2]", "--plan-only"])
            .current_dir(folder.path())
            .envs([("PATH", path.as_str()), (count, "5")])
            .env("SLURM_ARRAY_TASK_ID", index.to_string())
            .env("SLURM_ARRAY_TASK_MAX", most.to_string())
            .output()
            .expect("bash starts");
        assert!(done.status.success(), "{done:?}");
    };
    (1..=5).for_each(|index| task(index, ("UNUSED", 5)));
    assert_complete(folder.path());
    std::fs::remove_file(folder.path().join("answers/case-3.json")).expect("it is there");
    task(3, ("CASES", 3));
    assert_complete(folder.path());
}

#[test]
fn the_pods_of_the_kubernetes_job_answer_every_case() {
    let folder = two_disks();
    let text = read("kubernetes/cases.yaml");
    // A list in brackets is JSON, too.
    let from = text.find("args: [").expect("the container has arguments") + "args: ".len();
    let length = text[from..].find("\n          volumeMounts").expect("the list ends");
    let arguments: Vec<String> = serde_json::from_str(&text[from..from + length]).expect("a list");
    let completions = text.lines().find_map(|line| line.trim().strip_prefix("completions: "));
    let completions: usize = completions.and_then(|number| number.parse().ok()).expect("a number");
    for index in 0..completions {
        let index = index.to_string();
        let of_pod =
            |word: &String| word.replace("$(INDEX)", &index).replace("/solution/solution.toml", "s.toml");
        let arguments: Vec<String> = arguments.iter().map(of_pod).chain(["--plan-only".to_owned()]).collect();
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let (status, _, stderr) = output(folder.path(), &arguments);
        assert_eq!(status, 0, "{stderr}");
    }
    assert_complete(folder.path());
}

#[test]
fn every_launcher_limits_the_folders_that_its_agent_may_write() {
    for name in ["systemd/proofload-agent.service", "slurm/agents.sbatch", "kubernetes/agents.yaml"] {
        let text = read(name);
        let is_start = |line: &&str| line.contains("--state") && !line.starts_with('#');
        let starts: Vec<&str> = text.lines().filter(is_start).collect();
        assert!(
            !starts.is_empty() && starts.iter().all(|line| line.contains("--allow")),
            "{name}: {starts:?}"
        );
    }
}
