//! What users and operators see, and what must be true in the end.

use super::*;

impl Cluster {
    /// Updates what users and operators see of a database.
    pub(super) fn observe(&mut self, database: DatabaseId, step_us: u64) {
        let spec = self.specs[&database].clone();
        let serving = |state: &Host| {
            let now_ms = state.clock.at_ms(self.now_us);
            let is_running = state.is_up && state.paused_until_us <= self.now_us;
            is_running && state.nodes.get(&database).is_some_and(|node| node.machine.takes_commits(now_ms))
        };
        let is_served = self.hosts.values().any(serving);
        let reports: Vec<replication::Report> = spec
            .copies
            .iter()
            .filter_map(|copy| Some(self.hosts[&copy.host].nodes.get(&database)?.machine.report()))
            .collect();
        let end = reports.iter().map(|report| report.end).max().unwrap_or(Position::START);
        let behind = reports.iter().map(|report| report.end.generations_behind(end)).max().unwrap_or(0);
        let healthy = reports
            .iter()
            .filter(|report| report.mountable && report.end.generations_behind(end) <= CLOSE_GENERATIONS);
        let is_redundant = is_served && healthy.count() == spec.copies.len();
        let now_us = self.now_us;
        let waits = |((name, _), (_, _, since)): (&(CopyName, u64), &(u32, Position, u64))| {
            name.1 == database && now_us > since + STALL_US
        };
        let is_stalled = is_served && self.commits.iter().any(waits);
        let seen = self.seen.get_mut(&database).expect("known");
        seen.queue_max = seen.queue_max.max(behind);
        if is_served {
            seen.current_outage_ms = 0;
        } else {
            seen.outage_ms += step_us / MS;
            seen.current_outage_ms += step_us / MS;
            seen.longest_outage_ms = seen.longest_outage_ms.max(seen.current_outage_ms);
        }
        if is_stalled {
            seen.stalled_ms += step_us / MS;
        }
        if !is_redundant {
            seen.full_redundancy_at_us = now_us + step_us;
        }
    }

    /// Checks the state after all faults have ended and the load has stopped: one active copy, and all copies equal.
    pub fn check_settled(&mut self) -> Result<(), String> {
        for (&database, spec) in &self.specs {
            let active = self.active(database);
            let [holder] = active[..] else {
                let why = self.arbiter.as_ref().and_then(|arbiter| arbiter.why_dismounted(database));
                if self.damaged.contains(&database) && why.is_some() {
                    // What a lost disk held was nowhere else, or the only copy that may be activated has a damaged
                    // page: the arbiter is right not to mount.
                    self.count("settled.dismounted_after_damage");
                    continue;
                }
                return Err(format!("{database:?} has no active copy: {why:?}"));
            };
            let node = &self.hosts[&holder].nodes[&database];
            let epoch = node.machine.active_epoch(self.local_ms(holder)).expect("active");
            let end = node.engine.disk.end();
            let expected = self.history[&database].final_content(epoch, end)?;
            for copy in &spec.copies {
                let node = &self.hosts[&copy.host].nodes[&database];
                let report = node.machine.report();
                if !report.mountable || report.end != end {
                    return Err(format!(
                        "{:?} of {database:?} is not whole or not at {end}: {report:?}",
                        copy.host
                    ));
                }
                let replayed = if copy.host == holder { end } else { report.replayed };
                if replayed != end {
                    return Err(format!(
                        "{:?} of {database:?} has not replayed to {end}: {report:?}",
                        copy.host
                    ));
                }
                if node.engine.cache != expected {
                    return Err(format!("{:?} of {database:?} differs from its history", copy.host));
                }
            }
        }
        Ok(())
    }
}
