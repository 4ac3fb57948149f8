//! A flash drive: channels, a mixture of service times, and writes that collection holds to its steady rate.
//!
//! * Reads: a fixed time, or the slow time for a share of them (drawn from the seed), on the channel of the
//!   address. The number of channels follows from reads per second at full queue times the time of one read.
//! * Writes: acknowledged after a fixed time while tokens last. A token is a byte; tokens come back at the
//!   steady rate of random writes and hold `write_burst_bytes` at most. Without tokens a write waits for them:
//!   the stall that collection causes, driven by the volume written.
//! * Both share the interface of the drive, one direction each.
//!
//! Left out: wear, the translation table, trim, erase suspension, temperature, sequential writes that need no
//! collection.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::Rng;

use super::{Command, Done, Op};
use crate::hardware::FlashDrive;

const SMALL_BYTES: u64 = 4096;

pub(super) struct Flash {
    capacity_bytes: u64,
    read_ns: u64,
    write_ns: u64,
    slow_read_ns: u64,
    slow_below: u64,
    read_bytes_per_us: u64,
    write_bytes_per_us: u64,
    channels: Vec<u64>,
    read_free_ns: u64,
    write_free_ns: u64,
    tokens: u64,
    tokens_max: u64,
    tokens_per_s: u64,
    tokens_at_ns: u64,
    slowness: u64,
    busy_until_ns: u64,
    random: ChaCha8Rng,
}

pub(crate) fn check(drive: &FlashDrive) -> Result<(), String> {
    let positive = [
        drive.read_us,
        drive.write_us,
        drive.read_iops,
        drive.read_mb_per_s,
        drive.write_mb_per_s,
        drive.write_iops,
    ];
    if positive.iter().any(|number| !number.is_finite() || *number <= 0.0) {
        return Err("times and rates must be above zero".into());
    }
    if !(0.0..=1.0).contains(&drive.slow_read_share) || drive.capacity_bytes < 1 << 30 {
        return Err("the share of slow reads lies in 0..=1, the capacity is 1 GiB at least".into());
    }
    Ok(())
}

impl Flash {
    pub fn new(drive: &FlashDrive, random: ChaCha8Rng) -> Flash {
        let channels = (drive.read_iops * drive.read_us / 1e6).ceil().max(1.0) as usize;
        Flash {
            capacity_bytes: drive.capacity_bytes,
            read_ns: (drive.read_us * 1e3) as u64,
            write_ns: (drive.write_us * 1e3) as u64,
            slow_read_ns: (drive.slow_read_us * 1e3) as u64,
            slow_below: (drive.slow_read_share * (1u64 << 32) as f64) as u64,
            read_bytes_per_us: (drive.read_mb_per_s as u64).max(1),
            write_bytes_per_us: (drive.write_mb_per_s as u64).max(1),
            channels: vec![0; channels],
            read_free_ns: 0,
            write_free_ns: 0,
            tokens: drive.write_burst_bytes,
            tokens_max: drive.write_burst_bytes.max(1),
            tokens_per_s: (drive.write_iops * SMALL_BYTES as f64) as u64,
            tokens_at_ns: 0,
            slowness: 1024,
            busy_until_ns: 0,
            random,
        }
    }

    pub fn capacity_bytes(&self) -> u64 {
        self.capacity_bytes
    }

    pub fn set_slowness(&mut self, factor: f64) {
        self.slowness = (factor * 1024.0) as u64;
    }

    pub fn is_idle(&self, now_ns: u64) -> bool {
        self.busy_until_ns <= now_ns
    }

    pub fn submit(&mut self, now_ns: u64, command: Command) -> Done {
        let at_ns = match command.op {
            Op::Read => self.read(now_ns, command),
            Op::Write | Op::DeferredWrite => self.write(now_ns, command.bytes),
            Op::Flush => now_ns + self.write_ns,
        };
        self.busy_until_ns = self.busy_until_ns.max(at_ns);
        command.done(at_ns)
    }

    fn read(&mut self, now_ns: u64, command: Command) -> u64 {
        let slow = (self.random.next_u64() >> 32) < self.slow_below;
        let sense_ns = if slow { self.slow_read_ns } else { self.read_ns } * self.slowness / 1024;
        let count = self.channels.len() as u64;
        let channel = &mut self.channels[(command.start / SMALL_BYTES % count) as usize];
        let sensed = now_ns.max(*channel) + sense_ns;
        *channel = sensed;
        // A large read senses on many channels at once: the interface is what it waits for.
        let sent = sensed.max(self.read_free_ns) + command.bytes * 1_000 / self.read_bytes_per_us;
        self.read_free_ns = sent;
        sent
    }

    fn write(&mut self, now_ns: u64, bytes: u64) -> u64 {
        let received = now_ns.max(self.write_free_ns) + bytes * 1_000 / self.write_bytes_per_us;
        let earned = u128::from(received.saturating_sub(self.tokens_at_ns)) * u128::from(self.tokens_per_s)
            / 1_000_000_000;
        let tokens = (u128::from(self.tokens) + earned).min(u128::from(self.tokens_max)) as u64;
        self.tokens_at_ns = self.tokens_at_ns.max(received);
        let stall_ns = if tokens >= bytes {
            self.tokens = tokens - bytes;
            0
        } else {
            let wait = u128::from(bytes - tokens) * 1_000_000_000 / u128::from(self.tokens_per_s);
            self.tokens = 0;
            self.tokens_at_ns += wait as u64;
            wait as u64
        };
        self.write_free_ns = received + stall_ns;
        self.write_free_ns + self.write_ns * self.slowness / 1024
    }
}
