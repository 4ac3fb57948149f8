//! A limit on reads or on writes as Linux sets it for a control group: some operations or bytes in each slice of time.
//! Until they are used up, requests pass as if there were no limit; the others wait for the next slice, in their order.
//!
//! What passes too much, because the last request was large, counts in the next slices.
//!
//! Limits: slices begin at the same times everywhere; what a slice leaves is lost.

use std::collections::VecDeque;

use serde::Deserialize;
use world::Time;
use world::sim::{StorageOp, StorageRequest};

/// Limit as `calibrate` found it.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Throttle {
    pub(crate) is_in_bytes: bool,
    pub(crate) per_s: f64,
    pub(crate) slice_ms: f64,
    /// Operations that a sync counts as.
    pub(crate) per_sync: f64,
}

impl Throttle {
    pub(crate) fn is_whole(&self) -> bool {
        let is_above_0 = |value: f64| value.is_finite() && value > 0.0;
        is_above_0(self.per_s) && is_above_0(self.slice_ms) && (0.0..=1e3).contains(&self.per_sync)
    }

    /// What a request counts as.
    fn counts(&self, request: &StorageRequest) -> f64 {
        match request.op {
            StorageOp::Sync => self.per_sync,
            _ if self.is_in_bytes => request.bytes as f64,
            StorageOp::Read | StorageOp::Write => 1.0,
        }
    }

    /// What it limits, for people.
    pub(crate) fn text(&self) -> String {
        match self.is_in_bytes {
            true => format!("{:.1} MiB a second", self.per_s / f64::from(1 << 20)),
            false => format!("{:.0} a second", self.per_s),
        }
    }

    fn slice_ns(&self) -> u64 {
        ((self.slice_ms * 1e6) as u64).max(1)
    }
}

/// Limit of one place in use.
#[derive(Default)]
pub(crate) struct Gate {
    slice: u64,
    passed: f64,
    waiting: VecDeque<StorageRequest>,
}

impl Gate {
    /// Takes a request. Returns it if it passes at once.
    pub fn submit(
        &mut self,
        throttle: &Throttle,
        now: Time,
        request: StorageRequest,
    ) -> Option<StorageRequest> {
        self.waiting.push_back(request);
        if self.waiting.len() == 1 { self.release(throttle, now) } else { None }
    }

    /// The next request that waited, if it passes now.
    pub fn release(&mut self, throttle: &Throttle, now: Time) -> Option<StorageRequest> {
        let most = throttle.per_s * throttle.slice_ms / 1e3;
        let slice = now.ns / throttle.slice_ns();
        self.passed = (self.passed - most * (slice - self.slice) as f64).max(0.0);
        self.slice = slice;
        let next = self.waiting.pop_front_if(|_| self.passed < most)?;
        self.passed += throttle.counts(&next);
        Some(next)
    }

    /// Beginning of the next slice, if a request waits for it.
    pub fn opens(&self, throttle: &Throttle) -> Option<Time> {
        (!self.waiting.is_empty()).then(|| Time { ns: (self.slice + 1) * throttle.slice_ns() })
    }
}

#[cfg(test)]
mod tests {
    use world::sim::{FileId, RequestId, VolumeId};

    use super::*;

    /// Ids of requests by the ms at which they pass; all come at 5 ms.
    fn passed(throttle: Throttle, sizes: &[u64]) -> Vec<(u64, u64)> {
        let (mut gate, mut now, mut passed) = (Gate::default(), Time { ns: 5_000_000 }, Vec::new());
        for (id, bytes) in (0..).zip(sizes) {
            let (volume, file, op) = (VolumeId(1), FileId(1), StorageOp::Write);
            let id = RequestId(id);
            let request = StorageRequest { id, lane: None, volume, file, op, offset: 0, bytes: *bytes };
            passed.extend(gate.submit(&throttle, now, request).map(|one| (5, one.id.0)));
        }
        while let Some(at) = gate.opens(&throttle) {
            assert!(at > now);
            now = at;
            while let Some(one) = gate.release(&throttle, now) {
                passed.push((now.ns / 1_000_000, one.id.0));
            }
        }
        passed
    }

    #[test]
    fn a_slice_lets_its_share_through_at_once_and_the_others_wait_in_their_order() {
        let throttle = Throttle { is_in_bytes: false, per_s: 20.0, slice_ms: 100.0, per_sync: 0.0 };
        assert_eq!(passed(throttle, &[1; 5]), [(5, 0), (5, 1), (100, 2), (100, 3), (200, 4)]);
    }

    #[test]
    fn what_a_large_request_takes_too_much_is_taken_from_the_next_slices() {
        let throttle = Throttle { is_in_bytes: true, per_s: 1000.0, slice_ms: 100.0, per_sync: 0.0 };
        assert_eq!(passed(throttle, &[60, 250, 60, 60, 60]), [(5, 0), (5, 1), (300, 2), (300, 3), (400, 4)]);
    }
}
