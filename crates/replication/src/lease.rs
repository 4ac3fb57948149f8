//! Leases over clocks that drift: when the holder must stop, and when the arbiter may give the lease to another.
//!
//! Every clock is monotonic and counts suspends, and its rate is within `drift_ppm` millionths of true time.
//! The holder counts a lease from the moment at which it *asked*; the arbiter counts from the moment at which it
//! *answered*, which is later. A lease of `lease_ms` on the slowest clock lasts `lease_ms / (1 - d)` of true time;
//! the fastest clock must count `lease_ms * (1 + d) / (1 - d)` to be sure that so much has passed. Both clocks are
//! read in whole milliseconds, which costs a millisecond of either clock.

use crate::types::Timing;

/// Largest error of a clock that is read in whole milliseconds, ms.
const READING_ERROR_MS: u64 = 1;
const MILLION: u64 = 1_000_000;

/// End of a lease on the holder's clock, ms, for a lease that it requested at `asked_at_ms`.
#[must_use]
pub fn holder_end_ms(asked_at_ms: u64, lease_ms: u64) -> u64 {
    asked_at_ms.saturating_add(lease_ms)
}

/// Time that the arbiter must wait on its own clock after its last answer until the lease is certainly over, ms.
///
/// # Panics
/// If a clock may stand still (`drift_ppm` of a million or more).
#[must_use]
pub fn arbiter_wait_ms(timing: &Timing) -> u64 {
    assert!(timing.drift_ppm < MILLION, "a drift bound of {} ppm bounds nothing", timing.drift_ppm);
    let numerator = (timing.lease_ms + READING_ERROR_MS) * (MILLION + timing.drift_ppm);
    numerator.div_ceil(MILLION - timing.drift_ppm) + READING_ERROR_MS
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The holder's clock as slow as it may be, the arbiter's as fast: for many leases and bounds the lease is
    /// over in true time before the arbiter has counted to the end, and a wait without the bound would not do.
    #[test]
    fn the_slowest_holder_has_stopped_before_the_fastest_arbiter_goes_on() {
        for lease_ms in [100, 600, 5_000, 30_000] {
            for drift_ppm in [100, 10_000, 100_000, 400_000] {
                let timing = Timing { lease_ms, drift_ppm, ..timing() };
                let holder_true_us = |ms: u64| ms as f64 * 1e9 / (MILLION - drift_ppm) as f64;
                let arbiter_true_us = |ms: u64| ms as f64 * 1e9 / (MILLION + drift_ppm) as f64;
                // The holder may see its end late by a reading, and the arbiter may have begun to count early by one.
                let holder_stops = holder_true_us(holder_end_ms(0, lease_ms) + READING_ERROR_MS);
                let arbiter_goes_on = arbiter_true_us(arbiter_wait_ms(&timing) - READING_ERROR_MS);
                assert!(arbiter_goes_on >= holder_stops, "{lease_ms} ms, {drift_ppm} ppm");
                assert!(arbiter_true_us(lease_ms) < holder_true_us(lease_ms), "the bound matters");
            }
        }
    }

    fn timing() -> Timing {
        Timing {
            lease_ms: 600,
            renew_ms: 150,
            drift_ppm: 0,
            detect_ms: 400,
            report_ms: 100,
            collect_ms: 200,
            catch_up_ms: 400,
            mount_ms: 500,
            drain_ms: 500,
            resend_ms: 60,
            partner_patience_ms: 150,
            move_back_ms: None,
        }
    }
}
