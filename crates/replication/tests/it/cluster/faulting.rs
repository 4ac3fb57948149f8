//! What goes wrong, and how it is put right.

use super::*;

impl Cluster {
    pub(super) fn start_arbiter(&mut self) {
        self.arbiter_life += 1;
        // Its clock may begin anew.
        self.arbiter_clock.offset_us = self.random.below(10_000 * MS);
        let now_ms = self.arbiter_clock.at_ms(self.now_us);
        let databases =
            self.specs.values().map(|spec| (spec.clone(), self.arbiter_records[&spec.id].clone()));
        self.arbiter = Some(Arbiter::new(databases.collect::<Vec<_>>(), None, now_ms));
    }

    pub(super) fn start_host(&mut self, host: HostId) {
        let offset = self.random.below(10_000 * MS);
        let state = self.hosts.get_mut(&host).expect("known");
        state.is_up = true;
        state.boot += 1;
        state.paused_until_us = 0;
        state.clock.offset_us = offset;
        let failed = state.failed.clone();
        let (failed, whole): (BTreeMap<_, _>, BTreeMap<_, _>) =
            std::mem::take(&mut state.disks).into_iter().partition(|(database, _)| failed.contains(database));
        state.disks = failed;
        for (database, disk) in whole {
            self.start_node((host, database), disk);
        }
        let state = &self.hosts[&host];
        let damaged: Vec<(DatabaseId, u32)> = state
            .nodes
            .iter()
            .flat_map(|(&database, node)| node.engine.disk.damaged.iter().map(move |&page| (database, page)))
            .collect();
        for (database, page) in damaged {
            let _ = self.input((host, database), Input::PageDamaged { page });
        }
    }

    pub(super) fn stop_host(&mut self, host: HostId) {
        let mut half_done = Vec::new();
        let databases: Vec<DatabaseId> = self.hosts[&host].nodes.keys().copied().collect();
        for _ in &databases {
            half_done.push(self.random.chance(500));
        }
        let state = self.hosts.get_mut(&host).expect("known");
        state.is_up = false;
        for ((database, mut node), happened) in std::mem::take(&mut state.nodes).into_iter().zip(half_done) {
            if let (true, Some((_, op))) = (happened, node.engine.queue.pop_front()) {
                node.engine.carry_out(&op);
            }
            state.disks.insert(database, node.engine.disk);
        }
        self.commits.retain(|((name, _), _), _| *name != host);
    }

    fn damage_page(&mut self, host: HostId, database: DatabaseId, page: u32) -> Result<(), String> {
        let is_damaged = |state: &Host| {
            state.nodes.get(&database).is_some_and(|node| !node.engine.disk.damaged.is_empty())
        };
        // One damaged page at a time: two of one page may be all there is of it.
        let is_late = self.hosts.values().any(is_damaged) || self.hosts[&host].paused_until_us > self.now_us;
        let Some(node) = self.node((host, database)).filter(|_| !is_late) else { return Ok(()) };
        // A page that only the cache has is not on disk to be damaged.
        let (number, disk) = (page as usize, &mut node.engine.disk);
        if disk.pages[number] != node.engine.cache[number] || disk.meta.patch.is_some() {
            return Ok(());
        }
        disk.damaged.insert(page);
        self.damaged.insert(database);
        self.input((host, database), Input::PageDamaged { page })
    }

    pub(super) fn fault(&mut self, fault: Fault) -> Result<(), String> {
        self.say(|| format!("{fault:?}"));
        self.count_event("fault", &fault);
        match fault {
            Fault::CrashHost { host, down_ms } => {
                if self.hosts[&host].is_up {
                    self.stop_host(host);
                    self.at(down_ms * MS, Happening::Fault(Fault::RestartHost(host)));
                }
            }
            Fault::KillHost(host) => self.stop_host(host),
            Fault::RestartHost(host) => {
                if !self.hosts[&host].is_up {
                    self.start_host(host);
                }
            }
            Fault::PauseHost { host, ms } => {
                self.hosts.get_mut(&host).expect("known").paused_until_us = self.now_us + ms * MS;
            }
            Fault::CrashArbiter { down_ms } => {
                self.arbiter = None;
                self.at(down_ms * MS, Happening::Fault(Fault::RestartArbiter));
            }
            Fault::RestartArbiter => {
                if self.arbiter.is_none() {
                    self.start_arbiter();
                }
            }
            Fault::Cut { left, right, ms } => {
                let until = self.now_us + ms * MS;
                self.cuts.push((left.into_iter().collect(), right.into_iter().collect(), until));
            }
            Fault::Weather { loss, doubling, late, ms } => {
                self.weather = Weather { loss, doubling, late, until_us: self.now_us + ms * MS };
            }
            Fault::DamagePage { host, database, page } => {
                return self.damage_page(host, database, page);
            }
            Fault::FailDisk { host, database, replaced_after_ms } => {
                return self.fail_disk(host, database, replaced_after_ms);
            }
            Fault::ReplaceDisk { host, database } => self.replace_disk(host, database),
            Fault::Backup { database } => {
                for host in self.active(database) {
                    let Some(node) = self.node((host, database)) else { continue };
                    let below = node.engine.disk.end().generation;
                    self.input((host, database), Input::BackedUp { below })?;
                }
            }
            Fault::Move { database, target } => {
                return self.arbiter_input(ArbiterInput::Move { database, target });
            }
            Fault::Heal => self.heal(),
            Fault::StopClients => self.clients_run = false,
        }
        Ok(())
    }

    /// Everything is put right.
    fn heal(&mut self) {
        self.cuts.clear();
        self.weather = Weather::default();
        if self.arbiter.is_none() {
            self.start_arbiter();
        }
        for host in self.hosts.keys().copied().collect::<Vec<_>>() {
            self.hosts.get_mut(&host).expect("known").paused_until_us = 0;
            if !self.hosts[&host].is_up {
                self.start_host(host);
            }
            for database in self.hosts[&host].failed.clone() {
                self.replace_disk(host, database);
            }
        }
    }

    pub(super) fn fail_disk(
        &mut self,
        host: HostId,
        database: DatabaseId,
        replaced_after_ms: u64,
    ) -> Result<(), String> {
        // One disk at a time: two lost disks may well be all that held a commit.
        let others_are_whole = self.specs[&database].others(host).all(|copy| {
            let node = self.hosts[&copy.host].nodes.get(&database);
            node.is_some_and(|node| node.machine.report().mountable)
        });
        if !others_are_whole || self.hosts[&host].paused_until_us > self.now_us {
            return Ok(());
        }
        self.count("fault.disk_lost");
        self.damaged.insert(database);
        self.input((host, database), Input::DiskFailed)?;
        let state = self.hosts.get_mut(&host).expect("known");
        state.nodes.remove(&database);
        state.disks.insert(database, Disk::empty());
        state.failed.insert(database);
        self.commits.retain(|(name, _), _| *name != (host, database));
        self.at(replaced_after_ms * MS, Happening::Fault(Fault::ReplaceDisk { host, database }));
        Ok(())
    }

    pub(super) fn replace_disk(&mut self, host: HostId, database: DatabaseId) {
        let state = self.hosts.get_mut(&host).expect("known");
        if state.failed.remove(&database) && state.is_up {
            // The agent counts a replaced disk as a new start of this copy only.
            state.boot += 1;
            let disk = state.disks.remove(&database).expect("an empty one");
            self.start_node((host, database), disk);
        }
    }
}
