//! The launchers below `deploy`: what can be checked of them without the systems that they are for.
#![allow(clippy::disallowed_methods, reason = "tests face the operating system")]

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

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
