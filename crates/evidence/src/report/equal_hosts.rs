//! Hosts that the solution file describes alike, and the I/O that each of them achieved.
//!
//! Limits: hosts count as alike if they have equal instances and databases. Processors and disks are not compared.

use std::collections::BTreeMap;

use results::IoClass;

use super::model::TestReport;
use super::text::{bare, significant};
use crate::run_data::RunData;

/// The slowest and the fastest of hosts that are described alike: name, transactional I/O per second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Unequal<'a> {
    slow: (&'a str, f64),
    fast: (&'a str, f64),
}

impl Unequal<'_> {
    /// I/O of the slowest in percent of the fastest.
    pub fn percent(&self) -> f64 {
        100.0 * self.slow.1 / self.fast.1
    }

    /// Both hosts in words, with their I/O per second.
    pub fn text(&self, test: &str) -> String {
        let (slow, fast) = (self.slow.0, self.fast.0);
        let [slow_iops, fast_iops] = [self.slow, self.fast].map(|(_, iops)| significant(iops));
        let percent = bare(self.percent());
        format!(
            "{slow} achieved {slow_iops} transactional I/O per second in {test}, {percent} % of the {fast_iops} of {fast}, \
             which has equal databases"
        )
    }
}

/// The two hosts of a load test that are described alike and differ most; `None` where no two are alike.
pub fn most_unequal<'a>(data: &'a RunData, test: &TestReport) -> Option<Unequal<'a>> {
    let mut groups: BTreeMap<_, Vec<(&str, f64)>> = BTreeMap::new();
    for host in &data.hosts {
        let name = host.name.as_str();
        groups.entry(description(data, name)).or_default().push((name, iops(test, name)));
    }
    let pairs =
        groups.into_iter().filter(|(described, _)| !described.0.is_empty()).filter_map(|(_, hosts)| {
            let slow = *hosts.iter().min_by(|a, b| a.1.total_cmp(&b.1))?;
            let fast = *hosts.iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
            (hosts.len() > 1 && fast.1 > 0.0).then_some(Unequal { slow, fast })
        });
    pairs.min_by(|a, b| a.percent().total_cmp(&b.percent()))
}

/// Setup of a host, by which hosts are compared: log file and cache sizes of its instances, page sizes of its
/// databases.
fn description(data: &RunData, host: &str) -> (Vec<(u64, u64)>, Vec<u32>) {
    let instances = data.instances.iter().filter(|instance| instance.host == host);
    let databases = data.databases.iter().filter(|database| database.origin.host == host);
    let mut instances: Vec<_> = instances.map(|one| (one.log_file_bytes, one.cache_max_bytes)).collect();
    let mut databases: Vec<_> = databases.map(|database| database.page_bytes).collect();
    instances.sort_unstable();
    databases.sort_unstable();
    (instances, databases)
}

/// Transactional I/O per second of a host in the measured window.
fn iops(test: &TestReport, host: &str) -> f64 {
    let classes = [IoClass::TransactionalRead, IoClass::TransactionalWrite].map(IoClass::name);
    let rows = test.hosts.iter().filter(|row| row.host == host && classes.contains(&&*row.measure));
    rows.map(|row| row.figures.per_s).sum()
}
