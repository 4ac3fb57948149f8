//! What `--dry-run` tells: the tests with their times, the space on each volume and the memory, and what stands in
//! the way.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use evidence::report::{bytes, duration};
use schemars::JsonSchema;
use serde::Serialize;
use solution::{Deployment, TestSpec};

use crate::preflight::{gib, growth, load_seconds, needs};
use crate::schedule::{self, cache_bytes};

/// What a run would do.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct DryRun {
    /// Version of this form.
    pub schema_version: u32,
    /// Name of the solution.
    pub solution: String,
    /// The tests in their order.
    pub tests: Vec<PlannedTest>,
    /// Seconds that the tests take at least.
    pub least_s: f64,
    /// Seconds that the tests with a known length take at most.
    pub most_s: f64,
    /// What each host needs.
    pub hosts: Vec<HostNeeds>,
    /// Why the run cannot be carried out here; none if nothing is known to stand in its way.
    pub obstacle: Option<String>,
}

/// A test and its times.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct PlannedTest {
    /// Its name.
    pub name: String,
    /// Its kind.
    pub kind: String,
    /// Seconds of its window, where that is fixed.
    pub window_s: Option<f64>,
    /// Most seconds that it takes without its warm-up. None: the storage decides.
    pub most_s: Option<f64>,
    /// Most seconds of its warm-up; 0 of a test without.
    pub warmup_limit_s: f64,
}

/// What a host needs.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct HostNeeds {
    /// The host.
    pub host: String,
    /// The directories that the run writes into.
    pub folders: Vec<FolderNeeds>,
    /// Bytes that all of them still take at most.
    pub bytes: u64,
    /// Bytes of memory that the page caches take at most.
    pub cache_bytes: u64,
    /// Bytes that the databases grow by, where the load has a target.
    pub growth_bytes: Option<u64>,
    /// Seconds of load.
    pub load_s: f64,
}

/// Space in a directory.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct FolderNeeds {
    /// The directory.
    pub folder: PathBuf,
    /// Bytes that the run still writes into it at most.
    pub bytes: u64,
}

impl HostNeeds {
    /// What these deployments of one host need for their tests. `is_here`: the host is this machine, on which
    /// files that exist take no more space.
    pub fn of(parts: &[(&Deployment, &[TestSpec])], is_here: bool) -> HostNeeds {
        let there = |path: &Path| match is_here {
            true => std::fs::metadata(path).map_or(0, |file| file.len()),
            false => 0,
        };
        let folders = needs(parts, there).into_iter().map(|(folder, bytes)| FolderNeeds { folder, bytes });
        let folders: Vec<FolderNeeds> = folders.collect();
        let under_load = parts.iter().filter(|(_, tests)| load_seconds(tests) > 0.0);
        let growth_bytes =
            under_load.map(|(deployment, tests)| growth(deployment, tests)).sum::<Option<f64>>();
        HostNeeds {
            host: parts.first().map_or_else(String::new, |(deployment, _)| deployment.host.clone()),
            bytes: folders.iter().map(|folder| folder.bytes).sum(),
            folders,
            cache_bytes: parts.iter().map(|(deployment, _)| cache_bytes(deployment)).max().unwrap_or(0),
            growth_bytes: growth_bytes.map(|bytes| bytes as u64),
            load_s: parts.iter().map(|(_, tests)| load_seconds(tests)).sum(),
        }
    }

    /// The space in words.
    pub(crate) fn space(&self) -> String {
        let mut text = String::new();
        for FolderNeeds { folder, bytes } in &self.folders {
            let _ = writeln!(text, "  {:<40} up to {} more", folder.display(), gib(*bytes));
        }
        let _ = writeln!(text, "in all up to {} of disk; nothing else is touched", gib(self.bytes));
        text + &self.growth()
    }

    /// The host, its directories and its memory in a line.
    pub fn line(&self) -> String {
        let dirs: Vec<String> = self.folders.iter().map(|needs| needs.folder.display().to_string()).collect();
        let (space, memory) = (gib(self.bytes), bytes(self.cache_bytes as f64));
        format!(
            "{}: below {}; up to {space} of disk; {memory} of memory for page caches",
            self.host,
            dirs.join(", ")
        )
    }

    fn growth(&self) -> String {
        match (self.load_s, self.growth_bytes) {
            (0.0, _) => String::new(),
            (seconds, Some(bytes)) => {
                format!("databases will grow by about {} in {} of load\n", gib(bytes), duration(seconds))
            }
            (_, None) => "growth of the databases is not predicted, since the load has no target; it ends \
                          before a volume is full\n"
                .to_owned(),
        }
    }
}

impl DryRun {
    /// What these tests do on these hosts.
    pub fn new(solution: &str, tests: &[TestSpec], hosts: Vec<HostNeeds>) -> DryRun {
        let (solution, tests) = (solution.to_owned(), schedule::planned(tests));
        let (least_s, most_s) = schedule::span(&tests);
        DryRun { schema_version: 1, solution, tests, least_s, most_s, hosts, obstacle: None }
    }

    /// The tests, the space and the memory for people.
    pub fn text(&self) -> String {
        let mut text = schedule::text(&self.tests);
        for needs in &self.hosts {
            let host = if self.hosts.len() > 1 { format!(", {}", needs.host) } else { String::new() };
            let _ = writeln!(text, "{}{host}: will write below", self.solution);
            text += &needs.space();
            let _ = writeln!(text, "{} of memory for page caches", bytes(needs.cache_bytes as f64));
        }
        text
    }
}
