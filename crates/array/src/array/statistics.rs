//! What is counted, and the report that it becomes.

use super::tiering::TieringState;
use super::{Array, Kind, RebuildStatus, VolumeState};
use crate::drive::Command;
use crate::hardware::Layout;
use crate::raid::Slot;
use crate::report::{DeviceReport, PartKind, PartReport};

/// Requests under way, integrated over time.
///
/// The sum is that of the times at which requests ended less those at which they began. A request that is under way
/// counts as if it ended now.
#[derive(Default, Clone, Copy)]
struct Integral {
    under_way: u32,
    sum_ns: i128,
}

impl Integral {
    /// Restarts at `now_ns` with this number of requests under way; earlier time does not count.
    fn since(now_ns: u64, under_way: u32) -> Integral {
        Integral { under_way, sum_ns: -i128::from(now_ns) * i128::from(under_way) }
    }

    fn begins(&mut self, now_ns: u64) {
        self.under_way += 1;
        self.sum_ns -= i128::from(now_ns);
    }

    fn ends(&mut self, now_ns: u64) {
        self.under_way -= 1;
        self.sum_ns += i128::from(now_ns);
    }

    fn at(&self, now_ns: u64) -> u128 {
        (self.sum_ns + i128::from(now_ns) * i128::from(self.under_way)) as u128
    }
}

/// Requests under way over time, and the time with at least one of them.
#[derive(Default, Clone, Copy)]
struct Load {
    requests: Integral,
    /// Busy periods: the first of several requests begins one, and the last one ends it.
    busy: Integral,
}

impl Load {
    fn begins(&mut self, now_ns: u64) {
        if self.requests.under_way == 0 {
            self.busy.begins(now_ns);
        }
        self.requests.begins(now_ns);
    }

    fn ends(&mut self, now_ns: u64) {
        self.requests.ends(now_ns);
        if self.requests.under_way == 0 {
            self.busy.ends(now_ns);
        }
    }

    /// Keeps the requests under way and forgets everything before `now_ns`.
    fn since(&self, now_ns: u64) -> Load {
        let [requests, busy] = [self.requests, self.busy].map(|sum| Integral::since(now_ns, sum.under_way));
        Load { requests, busy }
    }

    fn busy_ns(&self, now_ns: u64) -> u64 {
        self.busy.at(now_ns) as u64
    }
}

#[derive(Default, Clone, Copy)]
pub(super) struct DriveStatistics {
    load: Load,
    /// Reads under way; the rest of the load are writes and flushes.
    reads_under_way: Integral,
    reads: u64,
    writes: u64,
    read_bytes: u64,
    write_bytes: u64,
}

impl DriveStatistics {
    pub fn begins(&mut self, now_ns: u64, command: &Command) {
        self.load.begins(now_ns);
        if command.is_write() {
            self.writes += 1;
            self.write_bytes += command.bytes;
        } else if command.is_read() {
            self.reads_under_way.begins(now_ns);
            self.reads += 1;
            self.read_bytes += command.bytes;
        }
    }

    pub fn ends(&mut self, now_ns: u64, is_read: bool) {
        self.load.ends(now_ns);
        if is_read {
            self.reads_under_way.ends(now_ns);
        }
    }

    /// Number of accesses that began, and busy time in ns, since the last reset.
    pub fn work(&self, now_ns: u64) -> (u64, u64) {
        (self.reads + self.writes, self.load.busy_ns(now_ns))
    }

    pub fn under_way(&self) -> u32 {
        self.load.requests.under_way
    }
}

#[derive(Default, Clone, Copy)]
pub(super) struct VolumeStatistics {
    load: Load,
    reads: u64,
    writes: u64,
    read_bytes: u64,
    write_bytes: u64,
    read_ns: u128,
    write_ns: u128,
}

impl VolumeStatistics {
    pub fn begins(&mut self, now_ns: u64) {
        self.load.begins(now_ns);
    }

    pub(super) fn ends(&mut self, now_ns: u64, submitted_ns: u64, kind: Kind, bytes: u64) {
        self.load.ends(now_ns);
        let took_ns = u128::from(now_ns - submitted_ns);
        match kind {
            Kind::Read => {
                self.reads += 1;
                self.read_bytes += bytes;
                self.read_ns += took_ns;
            }
            Kind::Write | Kind::WriteThrough => {
                self.writes += 1;
                self.write_bytes += bytes;
                self.write_ns += took_ns;
            }
            _ => {}
        }
    }
}

fn mean_ms(sum_ns: u128, count: u64) -> Option<f64> {
    (count > 0).then(|| sum_ns as f64 / count as f64 / 1e6)
}

impl Array {
    pub(super) fn clear_statistics(&mut self) {
        let now_ns = self.now_ns;
        self.statistics_since_ns = now_ns;
        for statistics in &mut self.drive_statistics {
            let load = statistics.load.since(now_ns);
            let reads_under_way = Integral::since(now_ns, statistics.reads_under_way.under_way);
            *statistics = DriveStatistics { load, reads_under_way, ..DriveStatistics::default() };
        }
        for volume in &mut self.volumes {
            let load = volume.statistics.load.since(now_ns);
            volume.statistics = VolumeStatistics { load, ..VolumeStatistics::default() };
        }
        self.links.iter_mut().for_each(crate::links::LinkState::reset_statistics);
        for state in &mut self.controllers {
            (state.reads, state.writes, state.hits, state.misses) = (0, 0, 0, 0);
            (state.waits, state.busy_ns, state.data_busy_ns) = (0, 0, 0);
            state.dirty_max_bytes = state.cache.as_ref().map_or(0, |cache| cache.dirty_bytes());
        }
        self.log_stores.iter_mut().for_each(|state| (state.hits, state.misses) = (0, 0));
        self.read_caches.iter_mut().for_each(|state| (state.hits, state.misses) = (0, 0));
        self.replicated.iter_mut().for_each(|state| (state.hits, state.misses) = (0, 0));
        self.tiering.iter_mut().flatten().for_each(TieringState::reset_statistics);
        self.unplaced_requests = 0;
        self.failed_requests = 0;
    }

    pub(super) fn make_report(&self) -> DeviceReport {
        let now_ns = self.now_ns;
        let length_ns = (now_ns - self.statistics_since_ns).max(1) as f64;
        let drives = (0..self.hardware.drives.len()).map(|index| self.drive_report(index, length_ns));
        let links = (0..self.hardware.links.len()).map(|index| self.link_report(index, length_ns));
        let controllers =
            (0..self.hardware.controllers.len()).map(|index| self.controller_report(index, length_ns));
        let pools = (0..self.hardware.groups.len()).filter_map(|index| self.pool_report(index));
        let volumes = self.volumes.iter().map(|volume| volume_report(volume, now_ns, length_ns));
        DeviceReport {
            seconds: length_ns / 1e9,
            parts: (drives.chain(links).chain(controllers).chain(self.store_reports()).chain(pools))
                .chain(volumes)
                .collect(),
            unplaced_requests: self.unplaced_requests,
            failed_requests: self.failed_requests,
        }
    }

    fn drive_report(&self, index: usize, length_ns: f64) -> PartReport {
        let statistics = &self.drive_statistics[index];
        let mut part = PartReport::new(PartKind::Drive, &self.hardware.drives[index].name);
        (part.reads, part.writes) = (statistics.reads, statistics.writes);
        (part.read_bytes, part.write_bytes) = (statistics.read_bytes, statistics.write_bytes);
        part.busy_share = statistics.load.busy_ns(self.now_ns) as f64 / length_ns;
        let all_ns = statistics.load.requests.at(self.now_ns);
        let read_ns = statistics.reads_under_way.at(self.now_ns);
        part.mean_queue = Some(all_ns as f64 / length_ns);
        part.read_ms = mean_ms(read_ns, statistics.reads);
        part.write_ms = mean_ms(all_ns - read_ns, statistics.writes);
        let place = self.drive_slots[index];
        let is_given_up = place.is_some_and(|(group, slot)| self.is_given_up(group, slot));
        part.state = match place.map(|(group, slot)| self.groups[group].slots[slot]) {
            _ if self.drives[index].is_dead() => "lost".into(),
            Some(Slot::Rebuilding(_)) if is_given_up => "data lost, not rebuilt to the end".into(),
            Some(Slot::Rebuilding(_)) => "rebuilding".into(),
            _ => self.replicated.iter().find_map(|state| state.health.words(index)).unwrap_or_default(),
        };
        part
    }

    fn link_report(&self, index: usize, length_ns: f64) -> PartReport {
        let state = &self.links[index];
        let mut part = PartReport::new(PartKind::Link, &self.hardware.links[index].name);
        part.reads = state.commands;
        (part.write_bytes, part.read_bytes) = (state.bytes[0], state.bytes[1]);
        let busiest = state.busy_ns[0].max(state.busy_ns[1]).max(state.command_busy_ns);
        part.busy_share = busiest as f64 / length_ns;
        let lost = (!state.alive).then(|| "lost".to_owned());
        let states: Vec<String> = lost.into_iter().chain(self.behind(index)).collect();
        part.state = states.join(", ");
        part
    }

    fn controller_report(&self, index: usize, length_ns: f64) -> PartReport {
        let state = &self.controllers[index];
        let mut part = PartReport::new(PartKind::Controller, &self.hardware.controllers[index].name);
        (part.reads, part.writes) = (state.reads, state.writes);
        (part.cache_hits, part.cache_misses) = (state.hits, state.misses);
        (part.write_waits, part.dirty_max_bytes) = (state.waits, state.dirty_max_bytes);
        part.busy_share = state.busy_ns.max(state.data_busy_ns) as f64 / length_ns;
        part.state = match (state.alive, state.protected) {
            (false, _) => "lost".into(),
            (true, false) if state.cache.is_some() => "cache unprotected".into(),
            _ => String::new(),
        };
        part
    }

    /// Reports of the caches in front of drives, except those of controllers: log-structured stores, replicated
    /// stores, read caches.
    fn store_reports(&self) -> Vec<PartReport> {
        let part = |kind, name: &str, hits, misses, state| PartReport {
            cache_hits: hits,
            cache_misses: misses,
            state,
            ..PartReport::new(kind, name)
        };
        let logs = self.hardware.log_stores.iter().zip(&self.log_stores);
        let logs = logs.map(|(store, state)| {
            part(PartKind::Store, &store.name, state.hits, state.misses, String::new())
        });
        let replicated = self.hardware.replicated_stores.iter().zip(&self.replicated);
        let replicated = replicated.map(|(store, state)| {
            let words: Vec<String> =
                state.health.repairs().into_iter().chain(state.cold_data.words()).collect();
            part(PartKind::Store, &store.name, state.hits, state.misses, words.join(", "))
        });
        let caches = self.hardware.read_caches.iter().zip(&self.read_caches).enumerate();
        let caches = caches.map(|(index, (cache, state))| {
            let words = self.read_cache_state(index);
            part(PartKind::ReadCache, &cache.name, state.hits, state.misses, words)
        });
        logs.chain(replicated).chain(caches).collect()
    }

    /// Report of a group that is a pool.
    fn pool_report(&self, index: usize) -> Option<PartReport> {
        let group = &self.hardware.groups[index];
        let thin = self.hardware.thin_pools.iter().position(|pool| pool.group == index);
        let tiering = self.tiering[index].as_ref();
        if thin.is_none() && tiering.is_none() && !matches!(group.layout, Layout::DynamicPool { .. }) {
            return None;
        }
        let mut part = PartReport::new(PartKind::Pool, &group.name);
        let mut states: Vec<String> = thin.map(|pool| self.thin_state(pool)).into_iter().collect();
        if let Some(tiering) = tiering {
            (part.reads, part.writes) = tiering.served();
            states.push(tiering.state());
        }
        if let Some(RebuildStatus::UnderWay(share)) = self.rebalance(index) {
            states.push(format!("rebalancing, {:.1} % moved", share * 100.0));
        }
        part.state = states.join(", ");
        Some(part)
    }
}

fn volume_report(volume: &VolumeState, now_ns: u64, length_ns: f64) -> PartReport {
    let statistics = &volume.statistics;
    let name = format!("{}:{}", volume.placement.host, volume.placement.path);
    let mut part = PartReport::new(PartKind::Volume, &name);
    (part.reads, part.writes) = (statistics.reads, statistics.writes);
    (part.read_bytes, part.write_bytes) = (statistics.read_bytes, statistics.write_bytes);
    part.busy_share = statistics.load.busy_ns(now_ns) as f64 / length_ns;
    part.mean_queue = Some(statistics.load.requests.at(now_ns) as f64 / length_ns);
    part.read_ms = mean_ms(statistics.read_ns, statistics.reads);
    part.write_ms = mean_ms(statistics.write_ns, statistics.writes);
    part
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_load_is_what_was_under_way_in_each_nanosecond(
            steps in proptest::collection::vec((0u64..50, 0u8..5), 1..80),
        ) {
            let (mut load, mut now_ns) = (Load::default(), 0);
            let (mut under_way, mut requests_ns, mut busy_ns) = (0u64, 0, 0);
            for (passes_ns, step) in steps {
                now_ns += passes_ns;
                requests_ns += passes_ns * under_way;
                busy_ns += if under_way > 0 { passes_ns } else { 0 };
                match step {
                    0 | 1 => {
                        load.begins(now_ns);
                        under_way += 1;
                    }
                    2 | 3 if under_way > 0 => {
                        load.ends(now_ns);
                        under_way -= 1;
                    }
                    4 => {
                        load = load.since(now_ns);
                        (requests_ns, busy_ns) = (0, 0);
                    }
                    _ => {}
                }
                prop_assert_eq!(load.requests.at(now_ns), u128::from(requests_ns));
                prop_assert_eq!(load.busy_ns(now_ns), busy_ns);
            }
        }
    }
}
