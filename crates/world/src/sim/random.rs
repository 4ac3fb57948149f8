//! Independent random streams from one seed, so that drawing more from one never changes another.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// Purpose of a random stream.
#[derive(Debug, Clone, Copy)]
pub(super) enum Use {
    Faults = 1,
    PowerCut = 2,
    Storage = 3,
    Network = 4,
    Clock = 5,
    Host = 6,
}

/// Random stream for a purpose; `instance` distinguishes hosts.
pub(super) fn stream(seed: u64, purpose: Use, instance: u64) -> ChaCha8Rng {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    random.set_stream((instance << 8) | purpose as u64);
    random
}

/// Draws a number in `0..limit` (0 if `limit` is 0).
pub(super) fn below(random: &mut ChaCha8Rng, limit: u64) -> u64 {
    ((u128::from(random.next_u64()) * u128::from(limit)) >> 64) as u64
}

/// Draws true with a probability; draws nothing if it is 0 or 1.
pub(super) fn chance(random: &mut ChaCha8Rng, probability: f64) -> bool {
    if probability <= 0.0 {
        return false;
    }
    probability >= 1.0 || ((random.next_u64() >> 11) as f64) < probability * (1u64 << 53) as f64
}
