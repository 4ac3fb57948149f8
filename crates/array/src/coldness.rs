//! How much of a store's data is cold: not written for so long that a background job has treated it (compressed
//! it, say).
//!
//! A store treats an extent when it was not written for a delay, and a write undoes that. Delays are hours to
//! days, a simulation takes minutes. So nothing is aged here: writes are counted by region, and each region is
//! in the state that writes at that rate would have brought it to if they had gone on for long. If the extents
//! of a region are written at random, each r times per second on average, then
//!
//! * an extent is treated, and not written since, with probability exp(-r T), T being the delay: q;
//! * so one write in 1/q undoes the treatment of an extent, and has to be followed by another treatment;
//! * treated parts of an extent that is waiting for its next treatment are as old as that: of m parts one is
//!   written for 1/r on average, the others stay as they were. Of all parts (1-q)^2 / (1-q + q m) are not as
//!   the treatment left them.
//!
//! A job that cannot treat as many extents per second leaves more of them as they are: q is less then in all regions,
//! by the same factor.
//!
//! Shares are worked out every ten seconds from all writes since the begin. Before anything was written all is cold;
//! before as many writes were counted as there are regions, all regions have the same rate.
//!
//! Left out: that writes come in bursts, differences within a region, a hot set that moves (it is averaged with
//! the others).

use crate::mix;
use crate::residency::{exp_minus, of_two_to_32, region_bytes};

const LOOK_NS: u64 = 10_000_000_000;

#[derive(Clone, Copy)]
struct Region {
    writes: u64,
    /// Share of the region's extents that were treated and not written since.
    cold: f64,
}

pub(crate) struct Coldness {
    delay_s: f64,
    /// Number of extents that can be treated per second.
    jobs_per_s: f64,
    region_bytes: u64,
    /// Number of extents of a region.
    extents: f64,
    regions: Vec<Region>,
    writes: u64,
    next_look_ns: u64,
}

impl Coldness {
    /// Creates the model. `regions`: number of regions that `space_bytes` are divided into, as in `Residency`.
    /// `delay_s`: time without a write after which an extent is treated. `jobs_per_s`: extents that can be treated
    /// per second.
    pub fn new(space_bytes: u64, regions: u32, extent_bytes: u64, delay_s: f64, jobs_per_s: f64) -> Coldness {
        let region_bytes = region_bytes(space_bytes, regions, extent_bytes);
        let count = space_bytes.div_ceil(region_bytes).max(1) as usize;
        Coldness {
            delay_s,
            jobs_per_s,
            region_bytes,
            extents: (region_bytes / extent_bytes) as f64,
            regions: vec![Region { writes: 0, cold: 1.0 }; count],
            writes: 0,
            next_look_ns: 0,
        }
    }

    fn region(&self, at: u64) -> usize {
        ((at / self.region_bytes) as usize).min(self.regions.len() - 1)
    }

    /// Counts a write. Returns whether it undoes the treatment of its extent.
    pub fn count_write(&mut self, at: u64) -> bool {
        let index = self.region(at);
        self.regions[index].writes += 1;
        self.writes += 1;
        mix(self.writes) >> 32 < of_two_to_32(self.regions[index].cold)
    }

    /// Whether the extent at a byte, with this hash, was treated and not written since.
    pub fn is_cold(&self, at: u64, hash: u64) -> bool {
        hash >> 32 < of_two_to_32(self.regions[self.region(at)].cold)
    }

    /// Whether a part of an extent, by offset and hash, is still as the treatment left it.
    pub fn is_treated(&self, at: u64, hash: u64, parts: u64) -> bool {
        hash >> 32 < of_two_to_32(treated(self.regions[self.region(at)].cold, parts))
    }

    /// Mean of `of_cold(share of cold extents)` over `ranges` (begin and end, bytes), weighted by bytes.
    pub fn mean(&self, ranges: &[(u64, u64)], of_cold: impl Fn(f64) -> f64) -> f64 {
        let (mut bytes, mut sum) = (0.0, 0.0);
        for (index, region) in self.regions.iter().enumerate() {
            let start = index as u64 * self.region_bytes;
            let end = start + self.region_bytes;
            let inside = ranges.iter().map(|(from, to)| (*to).min(end).saturating_sub((*from).max(start)));
            let inside = inside.sum::<u64>() as f64;
            bytes += inside;
            sum += inside * of_cold(region.cold);
        }
        if bytes > 0.0 { sum / bytes } else { of_cold(1.0) }
    }

    /// Recomputes each region's share of cold extents, at most every 10 s. Returns whether it did.
    pub fn look(&mut self, now_ns: u64) -> bool {
        if now_ns < self.next_look_ns || self.writes == 0 || now_ns == 0 {
            return false;
        }
        self.next_look_ns = now_ns + LOOK_NS;
        let seconds = now_ns as f64 / 1e9;
        let mean = self.writes as f64 / self.regions.len() as f64;
        let is_known = self.writes >= self.regions.len() as u64;
        let mut jobs_per_s = 0.0;
        for region in &mut self.regions {
            let writes = if is_known { region.writes as f64 } else { mean };
            let per_s = writes / seconds;
            region.cold = exp_minus(per_s / self.extents * self.delay_s);
            jobs_per_s += per_s * region.cold;
        }
        if jobs_per_s > self.jobs_per_s {
            let kept = self.jobs_per_s / jobs_per_s;
            self.regions.iter_mut().for_each(|region| region.cold *= kept);
        }
        true
    }
}

/// Share of the parts, `parts` per extent, that are as the treatment left them, if this share of the extents is cold.
pub(crate) fn treated(cold: f64, parts: u64) -> f64 {
    let warm = 1.0 - cold;
    1.0 - warm * warm / (warm + cold * parts as f64)
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;

    const EXTENTS: u64 = 4096;
    const PARTS: u64 = 32;

    /// Reference model that ages extents one by one: shares of cold extents and treated parts, and treatments per
    /// second.
    fn aged(writes_per_s: u64, delay_s: u64, jobs_per_s: u64, seconds: u64) -> (f64, f64, f64) {
        let mut written = vec![0u32; EXTENTS as usize];
        let mut last_s = vec![0u64; EXTENTS as usize];
        // Writes in their order: those that are the last of their extent begin a treatment.
        let mut in_turn: VecDeque<(u64, usize)> = VecDeque::new();
        let (mut dice, mut jobs) = (0, 0);
        for second in 1..=seconds {
            for _ in 0..writes_per_s {
                dice += 1;
                let extent = (mix(dice) % EXTENTS) as usize;
                written[extent] |= 1 << (mix(dice ^ 1 << 60) % PARTS);
                last_s[extent] = second;
                in_turn.push_back((second, extent));
            }
            let mut begun = 0;
            while let Some((at, extent)) = in_turn.front().copied() {
                let is_last = last_s[extent] == at && written[extent] != 0;
                if second < at + delay_s || (is_last && begun == jobs_per_s) {
                    break;
                }
                in_turn.pop_front();
                if is_last {
                    written[extent] = 0;
                    begun += 1;
                    jobs += if second > seconds / 2 { 1 } else { 0 };
                }
            }
        }
        let cold = written.iter().filter(|parts| **parts == 0).count() as f64 / EXTENTS as f64;
        let changed: u32 = written.iter().map(|parts| parts.count_ones()).sum();
        let as_left = 1.0 - f64::from(changed) / (EXTENTS * PARTS) as f64;
        (cold, as_left, jobs as f64 / (seconds / 2) as f64)
    }

    #[test]
    fn shares_and_jobs_are_those_of_extents_that_are_aged() {
        for (writes_per_s, delay_s, jobs_per_s) in
            [(10, 200, 1000), (40, 100, 1000), (40, 200, 1000), (60, 30, 8), (20, 2000, 1000)]
        {
            let seconds = 20_000;
            let (cold, as_left, jobs) = aged(writes_per_s, delay_s, jobs_per_s, seconds);
            let mut model = Coldness::new(EXTENTS << 20, 1, 1 << 20, delay_s as f64, jobs_per_s as f64);
            let writes = writes_per_s * seconds;
            for _ in 0..writes {
                model.count_write(0);
            }
            assert!(model.look(seconds * 1_000_000_000));
            let undone = (0..writes).filter(|_| model.count_write(0)).count() as f64 / seconds as f64;
            let all = [(0, EXTENTS << 20)];
            let modelled = model.mean(&all, |cold| cold);
            let modelled_parts = model.mean(&all, |cold| treated(cold, PARTS));
            let all = (cold, modelled, as_left, modelled_parts, jobs, undone);
            assert!((cold - modelled).abs() < 0.03, "{all:?}");
            assert!((as_left - modelled_parts).abs() < 0.05, "{all:?}");
            assert!((jobs - undone).abs() < 0.05 * jobs.max(1.0), "{all:?}");
        }
    }

    #[test]
    fn what_nobody_writes_is_cold_and_regions_are_told_apart() {
        let mut model = Coldness::new(8 << 20, 8, 64 << 10, 60.0, 1e9);
        assert_eq!(model.mean(&[(0, 8 << 20)], |cold| cold), 1.0, "before anything is known");
        for _ in 0..6 {
            model.count_write(0);
        }
        assert!(model.look(1_000_000_000) && !model.look(2_000_000_000), "every ten seconds");
        let share = |model: &Coldness, mib: u64| model.mean(&[(mib << 20, (mib + 1) << 20)], |cold| cold);
        assert_eq!(share(&model, 0), share(&model, 7), "too few writes to tell regions apart");
        for _ in 0..6 {
            model.count_write(0);
        }
        assert!(model.look(12_000_000_000));
        assert!(share(&model, 0) < 0.05 && share(&model, 7) > 0.999);
    }
}
