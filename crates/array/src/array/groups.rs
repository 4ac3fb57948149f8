//! Work on groups: reads, writes with parity, destaging.

use super::tiering::column;
use super::{Array, Happening, JobId, Kind};
use crate::cache::Destage;

impl Array {
    /// Reads a range of a group for a job, which waits for it.
    #[inline]
    pub(super) fn read_drives(&mut self, id: JobId, group: usize, start: u64, bytes: u64, pin: Option<u64>) {
        match self.tiering[group] {
            None => self.read_raid(id, group, start, bytes, pin),
            Some(_) => self.read_tiers(id, group, start, bytes, pin),
        }
    }

    fn read_tiers(&mut self, id: JobId, group: usize, start: u64, bytes: u64, pin: Option<u64>) {
        self.count_on_slices(id, group, start, bytes);
        for (raid, start, bytes) in self.places(group, start, bytes) {
            self.read_raid(id, raid, start, bytes, pin);
        }
    }

    /// Reads a range of a group's own drives for a job.
    #[inline]
    pub(super) fn read_raid(&mut self, id: JobId, raid: usize, start: u64, bytes: u64, pin: Option<u64>) {
        if let Some((drive, byte)) = self.groups[raid].only_place(start, bytes) {
            self.issue_read(id, (drive, byte, bytes));
            return;
        }
        let statistics = &self.drive_statistics;
        let mut accesses = std::mem::take(&mut self.planned);
        let queued = |drive: usize| statistics[drive].under_way();
        match self.groups[raid].plan_read((start, bytes), pin, queued, &mut accesses) {
            Ok(()) => self.issue(id, &accesses, false),
            Err(_) => self.job(id).lost = true,
        }
        accesses.clear();
        self.planned = accesses;
    }

    /// Writes a range of a group for a job, which waits for it.
    pub(super) fn write_drives(&mut self, id: JobId, group: usize, start: u64, bytes: u64) {
        self.refresh_cached(group, start, bytes);
        self.count_on_slices(id, group, start, bytes);
        for (raid, start, bytes) in self.places(group, start, bytes) {
            match self.groups[raid].plan_write(start, bytes) {
                Ok((reads, writes)) if reads.is_empty() => self.issue(id, &writes, true),
                Ok((reads, writes)) => {
                    self.job(id).then_write.extend(writes);
                    self.issue(id, &reads, false);
                }
                Err(_) => self.job(id).lost = true,
            }
        }
    }

    /// Makes a job write what it reads to a range of a group.
    pub(super) fn copy_to(&mut self, id: JobId, group: usize, start: u64, bytes: u64) {
        for (raid, start, bytes) in self.places(group, start, bytes) {
            self.copy_to_raid(id, raid, start, bytes);
        }
    }

    /// Makes a job write what it reads to a range of a group's own drives.
    pub(super) fn copy_to_raid(&mut self, id: JobId, raid: usize, start: u64, bytes: u64) {
        match self.groups[raid].plan_write(start, bytes) {
            Ok((reads, writes)) => {
                self.issue(id, &reads, false);
                self.job(id).then_write.extend(writes);
            }
            Err(_) => self.job(id).lost = true,
        }
    }

    /// Issues the destages that a controller's cache has decided on.
    pub(super) fn drain_destages(&mut self, controller: usize) {
        loop {
            let Some(cache) = &mut self.controllers[controller].cache else { return };
            if cache.due.is_empty() {
                break;
            }
            let due = std::mem::take(&mut cache.due);
            for destage in due {
                let kind = Kind::Destage { controller: controller as u32, destage };
                let id = self.new_job(kind);
                self.job(id).bytes = destage.bytes;
                self.job(id).remaining = 1;
                self.write_drives(id, destage.group as usize, destage.start, destage.bytes);
                self.part_done(id);
            }
        }
        self.plan_gathering(controller);
    }

    /// Sets the timer at which gathered writes are destaged.
    fn plan_gathering(&mut self, controller: usize) {
        let (groups, tiering) = (&self.groups, &self.tiering);
        let state = &mut self.controllers[controller];
        let Some(cache) = &mut state.cache else { return };
        let next_ns =
            cache.release_gathered(self.now_ns, |key| column(groups, tiering, key.0 as usize, key.1));
        let more = !cache.due.is_empty();
        if let Some(due_ns) = next_ns
            && state.gather_due_ns.is_none()
        {
            state.gather_due_ns = Some(due_ns);
            self.at(due_ns, Happening::Gather(controller as u32));
        }
        if more {
            self.drain_destages(controller);
        }
    }

    pub(super) fn gather_due(&mut self, controller: usize) {
        self.controllers[controller].gather_due_ns = None;
        self.plan_gathering(controller);
    }

    /// Tells a cache that writes wait for room.
    pub(super) fn press(&mut self, controller: usize) {
        let (groups, tiering) = (&self.groups, &self.tiering);
        if let Some(cache) = &mut self.controllers[controller].cache {
            cache.press(|key| column(groups, tiering, key.0 as usize, key.1));
        }
        self.drain_destages(controller);
    }

    /// Handles the end of a destage, which makes room for waiting writes.
    pub(super) fn destaged(&mut self, controller: usize, destage: Destage) {
        let (groups, tiering) = (&self.groups, &self.tiering);
        if let Some(cache) = &mut self.controllers[controller].cache {
            let group = destage.group as usize;
            cache.written(destage, |at| column(groups, tiering, group, at));
        }
        self.drain_destages(controller);
        while let Some(id) = self.controllers[controller].waiting.front().copied() {
            let bytes = self.job(id).bytes;
            let state = &mut self.controllers[controller];
            let unprotected = !state.protected || !state.alive;
            if !unprotected && state.cache.as_ref().is_some_and(|cache| !cache.has_room(bytes)) {
                self.press(controller);
                return;
            }
            state.waiting.pop_front();
            let volume = self.job(id).volume as usize;
            let target = self.volumes[volume].placement.target;
            match self.hardware.group_of(target).filter(|_| !unprotected) {
                Some(group) => self.write_cached(id, controller, group),
                None => self.arrive(id),
            }
        }
    }
}
