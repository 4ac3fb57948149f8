//! Leases over clocks that drift: when the holder must stop, and when the arbiter may give the lease to another.
//!
//! Every clock is monotonic and its rate is within `drift_ppm` millionths of true time. The holder counts a lease from the
//! moment at which it *asked*; the arbiter counts from the moment at which it *answered*, which is later. A lease of
//! `lease_ms` on the slowest clock lasts `lease_ms / (1 - d)` of true time; the fastest clock must count
//! `lease_ms * (1 + d) / (1 - d)` to be sure that so much has passed. Both clocks are read in whole milliseconds, which
//! costs one of them on either side.

use crate::types::Timing;

/// Error of a clock reading, of the holder's and of the arbiter's together.
const READING_ERROR_MS: u64 = 2;
const MILLION: u64 = 1_000_000;

/// The holder's end of a lease that it asked for at `asked_at_ms`, on its own clock.
#[must_use]
pub fn holder_end_ms(asked_at_ms: u64, lease_ms: u64) -> u64 {
    asked_at_ms.saturating_add(lease_ms)
}

/// How long after its last answer the arbiter must wait on its own clock before the lease is over for certain.
///
/// # Panics
/// If a clock may stand still (`drift_ppm` of a million or more).
#[must_use]
pub fn arbiter_wait_ms(timing: &Timing) -> u64 {
    assert!(timing.drift_ppm < MILLION, "a drift bound of {} ppm bounds nothing", timing.drift_ppm);
    let numerator = timing.lease_ms * (MILLION + timing.drift_ppm);
    numerator.div_ceil(MILLION - timing.drift_ppm) + READING_ERROR_MS
}
