//! What can go wrong, and the tools to choose it: clocks, parties, random numbers.

use replication::{DatabaseId, HostId};

/// Virtual time is in microseconds.
pub const MS: u64 = 1_000;

/// A small generator of random numbers (splitmix64): tests only.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Random(seed.wrapping_mul(0x2545_f491_4f6c_dd1d) ^ 0x9e37_79b9_7f4a_7c15)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit.max(1)
    }

    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high.saturating_sub(low) + 1)
    }

    pub fn chance(&mut self, per_thousand: u64) -> bool {
        self.below(1000) < per_thousand
    }
}

/// Clock with its own start and rate.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    pub offset_us: u64,
    pub rate_ppm: i64,
}

impl Clock {
    pub fn at_ms(self, now_us: u64) -> u64 {
        let rate = (1_000_000 + self.rate_ppm) as u128;
        ((u128::from(now_us) * rate / 1_000_000) as u64 + self.offset_us) / 1_000
    }
}

/// Sender or receiver of messages: the copies of a host, or the arbiter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Party {
    Arbiter,
    Host(HostId),
}

/// A fault, or its end.
#[derive(Debug, Clone)]
pub enum Fault {
    CrashHost { host: HostId, down_ms: u64 },
    KillHost(HostId),
    RestartHost(HostId),
    PauseHost { host: HostId, ms: u64 },
    CrashArbiter { down_ms: u64 },
    RestartArbiter,
    Cut { left: Vec<Party>, right: Vec<Party>, ms: u64 },
    Weather { loss: u64, doubling: u64, late: u64, ms: u64 },
    DamagePage { host: HostId, database: DatabaseId, page: u32 },
    FailDisk { host: HostId, database: DatabaseId, replaced_after_ms: u64 },
    ReplaceDisk { host: HostId, database: DatabaseId },
    Backup { database: DatabaseId },
    Move { database: DatabaseId, target: HostId },
    Heal,
    StopClients,
}
