//! Hosts of a fleet on this machine, as a user has them: agents, a bus, a controller's place, and what they leave.

use std::io::Write;
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use clocks::Clocks;
use serde_json::Value;

use crate::net::{Net, Program, wait_for};

pub mod clocks;

/// Hosts with their agents, and the folder in which the controller runs.
pub struct TestFleet {
    folder: tempfile::TempDir,
    pub net: Net,
    hosts: usize,
    clocks: Option<Clocks>,
    /// Folder of the runs that the methods below read.
    out: &'static str,
}

impl TestFleet {
    /// Hosts h1 to h4 with credentials, and this solution file.
    pub fn new(solution: &str) -> TestFleet {
        TestFleet::of(solution, Net::new(4), 4, None)
    }

    /// Hosts h1, h2 and so on, with credentials and this solution file. `clocks` are the clocks of the
    /// controller and the hosts.
    pub fn of(solution: &str, net: Net, hosts: usize, clocks: Option<Clocks>) -> TestFleet {
        let folder = testkit::folder_in_memory();
        let fleet = TestFleet { folder, net, hosts, clocks, out: "runs" };
        std::fs::write(fleet.path("solution.toml"), solution).expect("writable");
        let address = format!("{}:4222", fleet.net.controller_address());
        let names: Vec<String> = (1..=hosts).map(|host| format!("h{host}")).collect();
        let made = fleet
            .program(&["fleet", "init", "fleet", "--hosts", &names.join(","), "--address", &address])
            .wait();
        assert_eq!(made, 0, "{}", fleet.all_logs());
        fleet
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Starts the program as the controller.
    pub fn program(&self, arguments: &[&str]) -> Program {
        self.start(0, arguments, "controller.log")
    }

    pub fn agent(&self, host: usize) -> Program {
        self.agent_with(host, &[])
    }

    pub fn agent_with(&self, host: usize, more: &[&str]) -> Program {
        self.agent_of(host, &format!("h{host}"), more)
    }

    /// Starts an agent with the credentials of a host; its state folder and log file have this name.
    pub fn agent_of(&self, host: usize, name: &str, more: &[&str]) -> Program {
        let (credentials, state) = (format!("fleet/agents/h{host}.toml"), format!("state/{name}"));
        let arguments = [&["fleet", "agent", &credentials, "--state", &state], more].concat();
        self.start(host, &arguments, &format!("{name}.log"))
    }

    /// Starts an agent from a copy of the program with more bytes, so that its digest differs from the controller's.
    pub fn agent_of_another_build(&self, host: usize) -> Program {
        let program = self.path("other-build");
        let bytes = std::fs::read(env!("CARGO_BIN_EXE_proofload")).expect("readable");
        // The loader ignores bytes behind the end of an ELF file.
        std::fs::write(&program, [&bytes[..], b"another build"].concat()).expect("writable");
        std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).expect("ours");
        let (credentials, state) = (format!("fleet/agents/h{host}.toml"), format!("state/h{host}"));
        let arguments = ["fleet", "agent", &credentials, "--state", &state];
        let log = self.path(&format!("h{host}.log"));
        self.net.start(host, self.folder.path(), &program.display().to_string(), &arguments, &log)
    }

    fn start(&self, host: usize, arguments: &[&str], log: &str) -> Program {
        let settings = self.clocks.as_ref().map(|clocks| clocks.settings(host)).unwrap_or_default();
        let words = settings.iter().map(String::as_str).chain([env!("CARGO_BIN_EXE_proofload")]);
        let words: Vec<&str> = words.chain(arguments.iter().copied()).collect();
        self.net.start(host, self.folder.path(), "env", &words, &self.path(log))
    }

    /// Puts the state folder of this host's agent on a file system of 4 MiB.
    pub fn small_disk_for_state(&self, host: usize) -> SmallDisk {
        SmallDisk::mounted(self.path(&format!("state/h{host}")), &["-t", "tmpfs", "-o", "size=4m", "tmpfs"])
    }

    /// Puts the volume of this host on a file system of 128 MiB, kept on a disk: unbuffered I/O needs one.
    pub fn small_disk_for_volume(&self, host: usize) -> SmallDisk {
        let image = self.path(&format!("volume-h{host}.img"));
        std::fs::File::create(&image).and_then(|file| file.set_len(128 << 20)).expect("writable");
        let made = Command::new("mkfs.ext4").args(["-q", "-F"]).arg(&image).status();
        assert!(made.expect("mkfs.ext4 starts").success(), "{} becomes a file system", image.display());
        SmallDisk::mounted(self.path(&format!("data/h{host}")), &["-o", "loop", &image.display().to_string()])
    }

    pub fn agents(&self) -> Vec<Program> {
        (1..=self.hosts).map(|host| self.agent(host)).collect()
    }

    /// Starts a bus and waits until it listens, because a controller that finds none gives up at once.
    pub fn bus(&self) -> Program {
        let ready = || self.text("bus.log").matches("Server is ready").count();
        let before = ready();
        let arguments = ["-c", "nats-server.conf"];
        let bus = self.net.start(0, &self.path("fleet"), "nats-server", &arguments, &self.path("bus.log"));
        assert!(wait_for(|| ready() > before), "{}", self.all_logs());
        bus
    }

    /// Waits until the bus has ended. It ends shortly after its controller.
    pub fn wait_until_no_bus_listens(&self) {
        let address = format!("{}:4222", self.net.controller_address());
        self.net.enter(0, || {
            let is_gone = || TcpStream::connect(&address).is_err();
            assert!(wait_for(is_gone), "{}", self.all_logs());
        });
    }

    pub fn run(&self, more: &[&str]) -> Program {
        self.program(
            &[&["fleet", "run", "solution.toml", "--fleet", "fleet", "--allow-memory"], more].concat(),
        )
    }

    /// Resumes the run that [`TestFleet::run`] began.
    pub fn resume(&self, more: &[&str]) -> Program {
        let run = self.run_name();
        self.program(&[&["fleet", "resume", "solution.toml", &run, "--fleet", "fleet"], more].concat())
    }

    /// Starts another run beside that of [`TestFleet::run`]; its folder and log have this name.
    pub fn run_beside(&self, name: &str) -> Program {
        let arguments =
            ["fleet", "run", "solution.toml", "--fleet", "fleet", "--allow-memory", "--out", name];
        self.start(0, &arguments, &format!("{name}.log"))
    }

    /// Makes the methods below read the run in this folder.
    pub fn look_at(&mut self, out: &'static str) {
        self.out = out;
    }

    pub fn text(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    /// All log files as one text, for the message of a failed assertion.
    pub fn all_logs(&self) -> String {
        let files = std::fs::read_dir(self.folder.path()).into_iter().flatten().flatten();
        let names = files.map(|file| file.file_name().to_string_lossy().into_owned());
        let mut names: Vec<String> = names.filter(|name| name.ends_with(".log")).collect();
        names.sort_unstable();
        names.iter().map(|name| format!("== {name}\n{}\n", self.text(name))).collect()
    }

    /// Journal of the first host's drill, as far as it is written.
    pub fn first_journal(&self) -> Option<String> {
        std::fs::read_to_string(self.hosts_db(1)?.with_file_name("drill.jsonl")).ok()
    }

    /// Sets the calendar of a host this far ahead; the fleet must have been made with clocks.
    pub fn set_calendar(&self, host: usize, ahead_ms: i64) {
        self.clocks.as_ref().expect("it has clocks").set_calendar(host, ahead_ms);
    }

    /// Keeps the files after the test, and returns their folder.
    pub fn keep(&mut self) -> PathBuf {
        self.folder.disable_cleanup(true);
        self.folder.path().to_owned()
    }

    /// The folder of the only run.
    pub fn run_folder(&self) -> PathBuf {
        let mut runs = std::fs::read_dir(self.path(self.out)).expect("there are runs");
        runs.next().expect("there is one").expect("readable").path()
    }

    pub fn run_name(&self) -> String {
        let name = self.run_folder().file_name().map(|name| name.to_string_lossy().into_owned());
        format!("runs/{}", name.unwrap_or_default())
    }

    /// Report of the only run. Fails if `lint` finds anything in the run.
    pub fn report(&self) -> Value {
        crate::program::assert_lint_finds_nothing(self.folder.path(), &self.run_folder());
        let text = std::fs::read_to_string(self.run_folder().join("report.json")).expect("there is a report");
        serde_json::from_str(&text).expect("JSON")
    }

    /// Waits until the first host measures.
    pub fn wait_until_measuring(&self) {
        let begun = || self.hosts_db(1).is_some_and(|db| window_is_open(&db));
        assert!(wait_for(begun), "no window has opened\n{}", self.all_logs());
    }

    fn hosts_db(&self, host: usize) -> Option<PathBuf> {
        let runs = std::fs::read_dir(self.path(&format!("state/h{host}/runs"))).ok()?;
        Some(runs.flatten().next()?.path().join("run.db"))
    }

    /// Verdicts of the rule, by host: what was measured and how it came out.
    pub fn took_part(&self) -> Vec<(String, u64, String)> {
        let report = self.report();
        let verdicts = report["run_verdicts"].as_array().expect("a list");
        let of_rule = verdicts.iter().filter(|verdict| verdict["rule"] == "host_took_part");
        of_rule
            .map(|verdict| {
                let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
                let measured = verdict["measured"].as_f64().unwrap_or(-1.0) as u64;
                (text(&verdict["host"]), measured, text(&verdict["outcome"]))
            })
            .collect()
    }

    /// Asserts that the run passed, as far as the machine does not decide it: how often a small cache stalls, and
    /// whether any I/O falls into a short window.
    pub fn assert_passed(&self, status: i32) {
        assert!((0..2).contains(&status), "{status}\n{}", self.all_logs());
        let report = self.report();
        let tests = report["tests"].as_array().expect("a list").iter().map(|test| &test["verdicts"]);
        let verdicts = tests.chain([&report["run_verdicts"]]).filter_map(Value::as_array).flatten();
        let is_open = |verdict: &&Value| verdict["outcome"] == "fail" || verdict["outcome"] == "unproved";
        let failed: Vec<&Value> = verdicts.filter(is_open).collect();
        let is_of_machine = |verdict: &&Value| {
            let rule = verdict["rule"].as_str().unwrap_or_default();
            rule == "page_fault_stalls" || (rule.contains("_latency_") && verdict["measured"].is_null())
        };
        assert!(
            failed.iter().all(is_of_machine) && status == i32::from(!failed.is_empty()),
            "{status}, {failed:?}\n{}",
            self.all_logs()
        );
    }

    pub fn assert_everyone_took_part(&self, tests: u64) {
        let expected: Vec<_> =
            (1..=self.hosts).map(|host| (format!("h{host}"), tests, "pass".to_owned())).collect();
        assert_eq!(self.took_part(), expected, "{}", self.all_logs());
    }

    pub fn events(&self) -> String {
        let report = self.report();
        let events = report["events"].as_array().expect("a list");
        let texts = events.iter().map(|event| format!("{}: {}", event["host"], event["text"]));
        texts.collect::<Vec<_>>().join("\n")
    }
}

/// File system that a test can fill; it is unmounted with the value.
pub struct SmallDisk(PathBuf);

impl SmallDisk {
    fn mounted(folder: PathBuf, what: &[&str]) -> SmallDisk {
        std::fs::create_dir_all(&folder).expect("writable");
        let mounted = Command::new("mount").args(what).arg(&folder).status();
        assert!(mounted.expect("mount starts").success(), "{} can be mounted", folder.display());
        SmallDisk(folder)
    }

    /// Fills it to the last byte.
    pub fn fill(&self) {
        let mut file = std::fs::File::create(self.0.join("ballast")).expect("it has room for a name");
        while file.write_all(&[1; 4096]).is_ok() {}
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}

fn window_is_open(db: &Path) -> bool {
    let sql = "SELECT count(*) FROM test WHERE window_start_ms IS NOT NULL";
    let output = Command::new(env!("CARGO_BIN_EXE_proofload"))
        .args(["sql", &db.parent().expect("a folder").display().to_string(), sql])
        .output()
        .expect("the program starts");
    String::from_utf8_lossy(&output.stdout).lines().any(|line| line.trim() == "1")
}
