//! Synchronous copy to an array at another site.
//!
//! * A write is acknowledged when both this array and its partner have it. To the partner it crosses the link
//!   between the sites, takes the time that this array takes to acknowledge, and the answer comes back: one
//!   round trip, so each km of distance costs twice its light in fibre. Reads stay here.
//! * When the link is lost, writes either wait until it is back, or go on here alone. Then the regions that
//!   they change are noted, and copied when the link is back, with the settings of rebuilds. A write to a
//!   region that is still to be copied does not wait for the partner.
//!
//! The partner is taken to be like this array with as many writes and no reads: its drives are not modelled,
//! and never hold a write up. Left out: protocols with two round trips per write, several links, a failover to
//! the partner, consistency groups, writes on their way when the link is lost (they are acknowledged as if they
//! had arrived).

use std::collections::BTreeSet;

use world::Time;

use super::{Array, Happening, JobId, Kind, NO_DRIVE, RebuildStatus, ns};
use crate::hardware::{Target, WhenLinkLost};
use crate::links::Way;

#[derive(Default)]
pub(super) struct RemoteCopyState {
    /// Writes that wait for the link to the other site.
    waiting: Vec<JobId>,
    /// Regions that differ from the partner: volume, number.
    changed: BTreeSet<(u32, u64)>,
    /// Largest size of `changed` since it was last empty.
    most: usize,
    copying: u32,
    in_sync_since: Option<Time>,
}

impl Array {
    /// Progress of the resynchronisation after a lost link; `None` if there was none.
    pub fn resync(&self, remote_copy: usize) -> Option<RebuildStatus> {
        let state = self.remote_copies.get(remote_copy)?;
        let left = state.changed.len() + state.copying as usize;
        match state.in_sync_since {
            _ if left > 0 => Some(RebuildStatus::UnderWay(1.0 - left as f64 / state.most as f64)),
            since => since.map(RebuildStatus::Ended),
        }
    }

    /// Sends a write also to the partner, if its volume has one; the job waits for both.
    pub(super) fn copy_to_partner(&mut self, id: JobId) {
        let volume = self.job(id).volume as usize;
        let copies = &self.hardware.remote_copies;
        let Some(index) = copies.iter().position(|copy| copy.volumes.contains(&volume)) else { return };
        let (link, region_bytes) = (copies[index].link, copies[index].region_bytes);
        let suspends = copies[index].when_link_lost == WhenLinkLost::Suspend;
        let alive = self.links[link].alive;
        if !alive && !suspends {
            self.job(id).remaining += 1;
            self.remote_copies[index].waiting.push(id);
            return;
        }
        let (start, bytes) = (self.job(id).volume_byte, self.job(id).bytes);
        let regions = start / region_bytes..=(start + bytes - 1) / region_bytes;
        let regions: BTreeSet<(u32, u64)> = regions.map(|region| (volume as u32, region)).collect();
        let state = &mut self.remote_copies[index];
        if !alive {
            state.changed.extend(regions);
            state.most = state.changed.len() + state.copying as usize;
        } else if !regions.is_subset(&state.changed) {
            self.job(id).remaining += 1;
            self.send_to_partner(id, index);
        }
    }

    /// Sends the data of a job to the partner; the job goes on when the answer is back.
    fn send_to_partner(&mut self, id: JobId, index: usize) {
        let (bytes, copy) = (self.job(id).bytes, &self.hardware.remote_copies[index]);
        let link = &mut self.links[copy.link];
        let handled_ns = link.command(self.now_ns);
        let there_ns = link.send(handled_ns, Way::Down, bytes) + ns(copy.acknowledge_us);
        let back_ns = link.send(there_ns, Way::Up, 0);
        self.at(back_ns, Happening::Done { job: id, drive: NO_DRIVE, read_bytes: 0 });
    }

    /// Handles a restored link: waiting requests go on, and changed regions are copied.
    pub(super) fn link_is_back(&mut self, link: usize) {
        for index in 0..self.hardware.remote_copies.len() {
            if self.hardware.remote_copies[index].link != link {
                continue;
            }
            let waiting = std::mem::take(&mut self.remote_copies[index].waiting);
            waiting.into_iter().for_each(|id| self.send_to_partner(id, index));
            self.remote_copies[index].in_sync_since = Some(Time { ns: self.now_ns });
            for _ in self.remote_copies[index].copying..self.hardware.rebuild.steps.max(1) {
                self.copy_changed(index);
            }
        }
    }

    /// Reads the next changed region for the partner.
    fn copy_changed(&mut self, index: usize) {
        let region_bytes = self.hardware.remote_copies[index].region_bytes;
        let state = &mut self.remote_copies[index];
        if !self.links[self.hardware.remote_copies[index].link].alive {
            return;
        }
        let Some((volume, region)) = state.changed.pop_first() else {
            if state.copying == 0 {
                state.in_sync_since = Some(Time { ns: self.now_ns });
                state.most = 0;
            }
            return;
        };
        state.copying += 1;
        let id = self.new_job(Kind::ReadChanged { remote_copy: index as u32 });
        let start = region * region_bytes;
        let bytes = region_bytes.min(self.volumes[volume as usize].placement.bytes - start);
        self.job(id).bytes = bytes;
        self.job(id).remaining = 1;
        match self.volumes[volume as usize].placement.target {
            Target::Group { group, first_byte } => {
                self.read_drives(id, group, first_byte + start, bytes, None)
            }
            Target::Thin { pool } => self.read_chunks(id, volume as usize, pool, (start, bytes), None),
            Target::LogStore { .. } | Target::ReplicatedStore { .. } => {}
        }
        self.part_done(id);
    }

    /// Sends a changed region that was read over the link.
    pub(super) fn changed_read(&mut self, id: JobId, index: usize) {
        self.job(id).kind = Kind::SendChanged { remote_copy: index as u32 };
        self.job(id).remaining = 1;
        self.send_to_partner(id, index);
    }

    /// Handles the arrival of a changed region at the partner.
    pub(super) fn changed_copied(&mut self, index: usize) {
        self.remote_copies[index].copying -= 1;
        self.copy_changed(index);
    }

    /// Backlog of a link between sites for people.
    pub(super) fn behind(&self, link: usize) -> Option<String> {
        let index = self.hardware.remote_copies.iter().position(|copy| copy.link == link)?;
        let (copy, state) = (&self.hardware.remote_copies[index], &self.remote_copies[index]);
        let left = (state.changed.len() + state.copying as usize) as u64 * copy.region_bytes;
        (left > 0).then(|| format!("{:.1} MiB to copy", left as f64 / f64::from(1 << 20)))
    }
}
