//! A network that loses, delays, reorders and tears, for kernels without netem: each host has a TUN device, and
//! a thread carries the IP packets between them.
//!
//! What the wire does to packets of a TCP connection is what a bad network does: TCP sends lost packets again,
//! so a message is late, or it is lost with its connection. No message is lost out of the middle of a
//! connection, and none overtakes another there.

use std::collections::{BTreeMap, BinaryHeap};
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Packets of one direction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Weather {
    /// Whether all packets are lost.
    pub is_cut: bool,
    /// Lost packets, percent.
    pub lost_pct: u64,
    /// Packets that are held back by up to `late_ms`, so that later ones overtake them, percent.
    pub late_pct: u64,
    pub late_ms: u64,
    /// Delay of every packet, ms.
    pub delay_ms: u64,
    /// Whether every connection is reset when it sends data.
    pub is_torn: bool,
}

impl Weather {
    /// Both at once.
    pub fn and(self, other: Weather) -> Weather {
        Weather {
            is_cut: self.is_cut || other.is_cut,
            lost_pct: self.lost_pct.max(other.lost_pct),
            late_pct: self.late_pct.max(other.late_pct),
            late_ms: self.late_ms.max(other.late_ms),
            delay_ms: self.delay_ms.max(other.delay_ms),
            is_torn: self.is_torn || other.is_torn,
        }
    }
}

#[derive(Default)]
struct WireState {
    weather: BTreeMap<(usize, usize), Weather>,
}

/// The wire between hosts 0, 1, 2 and so on, which have the addresses 10.77.0.1, 10.77.0.2, 10.77.0.3 and so on.
pub struct Wire {
    state: Arc<Mutex<WireState>>,
    is_over: Arc<AtomicBool>,
    carrier: Option<JoinHandle<()>>,
}

impl Wire {
    pub fn start(ends: Vec<File>, seed: u64) -> Wire {
        let (state, is_over) = (Arc::new(Mutex::new(WireState::default())), Arc::new(AtomicBool::new(false)));
        let mut carrier = Carrier {
            ends,
            number: Box::new(testkit::numbers(seed)),
            waiting: BinaryHeap::new(),
            delayed: 0,
            state: state.clone(),
        };
        let over = is_over.clone();
        let carrier = std::thread::spawn(move || {
            while !over.load(Ordering::SeqCst) {
                carrier.turn();
            }
        });
        Wire { state, is_over, carrier: Some(carrier) }
    }

    /// Sets the weather for packets from one host to another.
    pub fn set(&self, from: usize, to: usize, weather: Weather) {
        self.state.lock().expect("the carrier lives").weather.insert((from, to), weather);
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::SeqCst);
        if let Some(carrier) = self.carrier.take() {
            let _ = carrier.join();
        }
    }
}

/// Packet in flight. In the order of the heap the packet that is due first is the greatest.
#[derive(PartialEq, Eq)]
struct Waiting {
    due: Instant,
    number: u64,
    to: usize,
    packet: Vec<u8>,
}

impl Ord for Waiting {
    fn cmp(&self, other: &Waiting) -> std::cmp::Ordering {
        (other.due, other.number).cmp(&(self.due, self.number))
    }
}

impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Waiting) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

struct Carrier {
    ends: Vec<File>,
    number: Box<dyn FnMut() -> u64 + Send>,
    waiting: BinaryHeap<Waiting>,
    delayed: u64,
    state: Arc<Mutex<WireState>>,
}

impl Carrier {
    /// Waits for packets, and delivers those that are due.
    fn turn(&mut self) {
        let now = Instant::now();
        let until_due = self.waiting.peek().map(|waiting| waiting.due.saturating_duration_since(now));
        let limit_ms = until_due.map_or(20, |left| (left.as_micros() as u64).div_ceil(1_000).min(20));
        let mut ready: Vec<libc::pollfd> = self.ends.iter().map(|end| readable(end.as_raw_fd())).collect();
        // SAFETY: the pointer and the length are those of the vector.
        unsafe { libc::poll(ready.as_mut_ptr(), ready.len() as libc::nfds_t, limit_ms as i32) };
        for (from, ready) in ready.iter().enumerate() {
            if ready.revents & libc::POLLIN != 0 {
                self.take_all(from);
            }
        }
        let now = Instant::now();
        while self.waiting.peek().is_some_and(|waiting| waiting.due <= now) {
            if let Some(Waiting { to, packet, .. }) = self.waiting.pop() {
                self.give(to, &packet);
            }
        }
    }

    fn take_all(&mut self, from: usize) {
        let mut bytes = [0; 2_000];
        while let Ok(length @ 20..) = (&self.ends[from]).read(&mut bytes) {
            let packet = &bytes[..length];
            let to = usize::from(packet[19]).wrapping_sub(1);
            // IPv4 to one of the hosts; other packets go nowhere.
            if packet[0] >> 4 == 4 && packet[16..19] == [10, 77, 0] && to < self.ends.len() {
                self.carry(from, to, packet);
            }
        }
    }

    fn carry(&mut self, from: usize, to: usize, packet: &[u8]) {
        let state = self.state.clone();
        let weather = state.lock().expect("no thread panics with it").weather.get(&(from, to)).copied();
        let weather = weather.unwrap_or_default();
        let percent = (self.number)() % 100;
        if weather.is_cut || percent < weather.lost_pct {
            return;
        }
        if let Some(reset) = weather.is_torn.then(|| reset_of(packet)).flatten() {
            self.give(from, &reset);
            return;
        }
        let mut wait_ms = weather.delay_ms;
        if percent < weather.lost_pct + weather.late_pct {
            wait_ms += 1 + (self.number)() % weather.late_ms.max(1);
        }
        if wait_ms == 0 {
            self.give(to, packet);
        } else {
            let due = Instant::now() + Duration::from_millis(wait_ms);
            self.delayed += 1;
            self.waiting.push(Waiting { due, number: self.delayed, to, packet: packet.to_vec() });
        }
    }

    fn give(&self, to: usize, packet: &[u8]) {
        // A full queue loses packets, as any other one does.
        let _ = (&self.ends[to]).write(packet);
    }
}

fn readable(fd: RawFd) -> libc::pollfd {
    libc::pollfd { fd, events: libc::POLLIN, revents: 0 }
}

/// The answer to a TCP packet that ends its connection at the sender, as from a host that does not know the
/// connection.
fn reset_of(packet: &[u8]) -> Option<Vec<u8>> {
    const TCP: u8 = 6;
    const RST: u8 = 4;
    const ACK: u8 = 16;
    let header = usize::from(packet[0] & 15) * 4;
    let segment =
        packet.get(header..header + 20).filter(|segment| packet[9] == TCP && segment[13] & RST == 0)?;
    if segment[13] & ACK == 0 {
        return None;
    }
    let mut reset = vec![0; 40];
    reset[0] = 0x45;
    reset[3] = 40;
    (reset[8], reset[9]) = (64, TCP);
    reset[12..16].copy_from_slice(&packet[16..20]);
    reset[16..20].copy_from_slice(&packet[12..16]);
    let sum = checksum(&reset[..20], 0);
    reset[10..12].copy_from_slice(&sum);
    reset[20..22].copy_from_slice(&segment[2..4]);
    reset[22..24].copy_from_slice(&segment[..2]);
    reset[24..28].copy_from_slice(&segment[8..12]);
    (reset[32], reset[33]) = (5 << 4, RST);
    // The pseudo header: addresses, protocol, length.
    let addresses = ones(&reset[12..20]) + u32::from(TCP) + 20;
    let sum = checksum(&reset[20..], addresses);
    reset[36..38].copy_from_slice(&sum);
    Some(reset)
}

fn ones(bytes: &[u8]) -> u32 {
    bytes.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1])).sum()
}

fn checksum(bytes: &[u8], start: u32) -> [u8; 2] {
    let mut sum = start + ones(bytes);
    while sum > 0xFFFF {
        sum = (sum & 0xFFFF) + (sum >> 16);
    }
    (!sum as u16).to_be_bytes()
}

/// A TUN device of this name in the network of the calling thread: what is read are the packets that the system
/// sends there.
pub fn open_tun(name: &str) -> File {
    const WITHOUT_HEADER: libc::c_short = libc::IFF_NO_PI as libc::c_short;
    let mut options = OpenOptions::new();
    let tun = options.read(true).write(true).custom_flags(libc::O_NONBLOCK).open("/dev/net/tun");
    let tun = tun.expect("TUN devices are there");
    // SAFETY: all bytes zero is a valid value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as libc::c_char;
    }
    request.ifr_ifru.ifru_flags = libc::IFF_TUN as libc::c_short | WITHOUT_HEADER;
    // SAFETY: the file descriptor is open, and the request is of the type that this ioctl takes.
    let made = unsafe { libc::ioctl(tun.as_raw_fd(), libc::TUNSETIFF as _, &mut request) };
    assert_eq!(made, 0, "a TUN device can be made: {}", std::io::Error::last_os_error());
    tun
}
