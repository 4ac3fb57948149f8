//! What hosts, in one process or in many, write down for the test, and what the test wants of them: files in
//! one folder. What a killed process has written is there.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use replication::{DatabaseId, HostId, Position, Report};

/// Acknowledged commit, and the epoch in which its copy was active.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Acknowledged {
    pub unix_ns: u64,
    pub database: DatabaseId,
    pub epoch: u64,
    pub host: HostId,
    /// The row that it wrote.
    pub row: u32,
}

#[derive(Clone)]
pub struct Board(PathBuf);

impl Board {
    pub fn new(folder: &Path) -> Board {
        fs::create_dir_all(folder).expect("writable");
        Board(folder.to_owned())
    }

    /// Whether the test asks for `what`: of all hosts, or of the host that the name contains.
    pub fn is_wanted(&self, what: &str) -> bool {
        self.0.join(what).exists()
    }

    pub fn want(&self, what: &str, is_wanted: bool) {
        let path = self.0.join(what);
        if is_wanted { fs::write(path, "") } else { fs::remove_file(path) }.expect("writable");
    }

    pub fn acknowledged(&self, host: HostId, database: DatabaseId, epoch: u64, row: u32) {
        let path = self.0.join(format!("acknowledged-{}", host.0));
        let unix_ns = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_nanos();
        let line = format!("{unix_ns} {} {epoch} {} {row}\n", database.0, host.0);
        let mut file = fs::OpenOptions::new().create(true).append(true).open(path).expect("writable");
        file.write_all(line.as_bytes()).expect("writable");
    }

    pub fn is_at(&self, report: &Report) {
        let name = format!("copy-{}-{}", report.database.0, report.host.0);
        let (end, replayed) = (report.end, report.replayed);
        let text = format!("{} {} {} {}", end.generation, end.offset, replayed.generation, replayed.offset);
        fs::write(self.0.join("new-".to_owned() + &name), text).expect("writable");
        fs::rename(self.0.join("new-".to_owned() + &name), self.0.join(name)).expect("writable");
    }

    fn files(&self, prefix: &str) -> Vec<(String, String)> {
        let entries = fs::read_dir(&self.0).expect("readable").flatten();
        let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
        let named = names.filter_map(|name| name.strip_prefix(prefix).map(str::to_owned));
        named
            .map(|name| {
                let text = fs::read_to_string(self.0.join(format!("{prefix}{name}"))).expect("readable");
                (name, text)
            })
            .collect()
    }

    /// All acknowledged commits in the order of their times.
    pub fn history(&self) -> Vec<Acknowledged> {
        let mut history = Vec::new();
        for (_, text) in self.files("acknowledged-") {
            // A killed process leaves half a line.
            for line in text.split_inclusive('\n').filter(|line| line.ends_with('\n')) {
                let numbers: Vec<u64> =
                    line.split_whitespace().map(|word| word.parse().expect("ours")).collect();
                history.push(Acknowledged {
                    unix_ns: numbers[0],
                    database: DatabaseId(numbers[1] as u16),
                    epoch: numbers[2],
                    host: HostId(numbers[3] as u16),
                    row: numbers[4] as u32,
                });
            }
        }
        history.sort_by_key(|acknowledged| acknowledged.unix_ns);
        history
    }

    /// End of the log and replayed position of each copy.
    pub fn copies(&self, database: DatabaseId) -> BTreeMap<HostId, (Position, Position)> {
        let place = |(host, text): (String, String)| {
            let numbers: Vec<u32> = text.split(' ').map(|word| word.parse().expect("ours")).collect();
            let position = |at: usize| Position { generation: numbers[at], offset: numbers[at + 1] };
            (HostId(host.parse().expect("ours")), (position(0), position(2)))
        };
        self.files(&format!("copy-{}-", database.0)).into_iter().map(place).collect()
    }
}

/// Asserts that only one host acknowledges in an epoch, and that no host does in an epoch after a later one has
/// begun.
pub fn assert_never_two_active(history: &[Acknowledged]) {
    let mut reigns: BTreeMap<DatabaseId, (u64, HostId)> = BTreeMap::new();
    for now in history {
        let (epoch, host) = reigns.entry(now.database).or_insert((now.epoch, now.host));
        assert!(now.epoch >= *epoch, "{now:?} came after epoch {epoch} of {host:?}");
        assert!(now.epoch > *epoch || now.host == *host, "{now:?}, and {host:?} in the same epoch");
        (*epoch, *host) = (now.epoch, now.host);
    }
}
