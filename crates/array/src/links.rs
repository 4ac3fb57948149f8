//! Links and adapters: latency, a data rate each way, and a time per command.
//!
//! First come, first served, each way on its own. Left out: packets and their loss, congestion control, half duplex.

use crate::hardware::Link;

/// Direction of data on a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// Away from the host.
    Down = 0,
    /// Towards the host.
    Up = 1,
}

pub(crate) struct LinkState {
    latency_ns: u64,
    kb_per_s: u64,
    command_ns: u64,
    free_ns: [u64; 2],
    command_free_ns: u64,
    pub alive: bool,
    pub busy_ns: [u64; 2],
    pub command_busy_ns: u64,
    pub bytes: [u64; 2],
    pub commands: u64,
}

impl LinkState {
    pub fn new(link: &Link) -> LinkState {
        LinkState {
            latency_ns: (link.latency_us * 1e3) as u64,
            kb_per_s: (link.mb_per_s * 1e3) as u64,
            command_ns: (link.command_us * 1e3) as u64,
            free_ns: [0; 2],
            command_free_ns: 0,
            alive: true,
            busy_ns: [0; 2],
            command_busy_ns: 0,
            bytes: [0; 2],
            commands: 0,
        }
    }

    /// Passes a command over the link. Returns the time when it has been handled.
    pub fn command(&mut self, now_ns: u64) -> u64 {
        self.commands += 1;
        self.command_free_ns = self.command_free_ns.max(now_ns) + self.command_ns;
        self.command_busy_ns += self.command_ns;
        self.command_free_ns
    }

    /// Sends bytes. Returns the time when the last has arrived, latency included.
    pub fn send(&mut self, now_ns: u64, way: Way, bytes: u64) -> u64 {
        if bytes == 0 || self.kb_per_s == 0 {
            return now_ns + self.latency_ns;
        }
        let way = way as usize;
        let takes_ns = bytes * 1_000_000 / self.kb_per_s;
        self.free_ns[way] = self.free_ns[way].max(now_ns) + takes_ns;
        self.busy_ns[way] += takes_ns;
        self.bytes[way] += bytes;
        self.free_ns[way] + self.latency_ns
    }

    pub fn reset_statistics(&mut self) {
        self.busy_ns = [0; 2];
        self.command_busy_ns = 0;
        self.bytes = [0; 2];
        self.commands = 0;
    }
}
