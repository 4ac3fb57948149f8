//! Hosts on this machine: a network namespace each, joined by a bridge in a namespace of its own or by a
//! [`Wire`], and programs in them.

use std::fs::{File, OpenOptions};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

pub mod wire;

use testkit::PATIENCE;
use wire::{Wire, open_tun};

/// Whether namespaces can be made here; says what is skipped if not.
pub fn can_run() -> bool {
    // Asked once: tests that ask at the same moment would be in each other's way.
    static CAN: OnceLock<bool> = OnceLock::new();
    let can = *CAN.get_or_init(|| {
        let nats = testkit::has_tool("nats-server", &["--version"], "sudo apt-get install -y nats-server");
        let ip = testkit::has_tool("ip", &["-V"], "sudo apt-get install -y iproute2");
        let name = format!("plprobe{}", std::process::id());
        nats && ip && run("ip", &["netns", "add", &name]) && run("ip", &["netns", "del", &name])
    });
    if !can {
        testkit::skip("fleets in network namespaces; run the tests as root");
    }
    can
}

fn run(program: &str, arguments: &[&str]) -> bool {
    let status = Command::new(program).args(arguments).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

fn must(program: &str, arguments: &[&str]) {
    assert!(run(program, arguments), "{program} {}", arguments.join(" "));
}

/// Waits until `done` holds; says whether it came to that.
pub fn wait_for(done: impl Fn() -> bool) -> bool {
    let started = Instant::now();
    while started.elapsed() < PATIENCE {
        if done() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    false
}

/// A controller (number 0) and hosts (from 1) on one network.
pub struct Net {
    prefix: String,
    hosts: usize,
    wire: Option<Wire>,
}

impl Net {
    pub fn new(hosts: usize) -> Net {
        let net = Net::unjoined(hosts);
        let switch = net.switch();
        must("ip", &["netns", "add", &switch]);
        must("ip", &["-n", &switch, "link", "add", "br0", "type", "bridge"]);
        must("ip", &["-n", &switch, "link", "set", "br0", "up"]);
        for host in 0..=hosts {
            let (space, port) = (net.space(host), format!("port{host}"));
            must(
                "ip",
                &[
                    "-n", &switch, "link", "add", &port, "type", "veth", "peer", "name", "eth0", "netns",
                    &space,
                ],
            );
            must("ip", &["-n", &switch, "link", "set", &port, "master", "br0", "up"]);
            net.set_address(host);
        }
        net
    }

    /// Hosts whose packets a [`Wire`] carries. The seed draws which packets it loses.
    pub fn on_wire(hosts: usize, seed: u64) -> Net {
        let mut net = Net::unjoined(hosts);
        let ends = (0..=hosts).map(|host| net.enter(host, || open_tun("eth0"))).collect();
        (0..=hosts).for_each(|host| net.set_address(host));
        net.wire = Some(Wire::start(ends, seed));
        net
    }

    fn unjoined(hosts: usize) -> Net {
        static NETS: AtomicU32 = AtomicU32::new(0);
        let number = NETS.fetch_add(1, Ordering::SeqCst);
        let net = Net { prefix: format!("pl{}x{number}", std::process::id()), hosts, wire: None };
        (0..=hosts).for_each(|host| must("ip", &["netns", "add", &net.space(host)]));
        net
    }

    fn set_address(&self, host: usize) {
        let space = self.space(host);
        must("ip", &["-n", &space, "addr", "add", &format!("10.77.0.{}/24", host + 1), "dev", "eth0"]);
        must("ip", &["-n", &space, "link", "set", "lo", "up"]);
        must("ip", &["-n", &space, "link", "set", "eth0", "up"]);
    }

    /// Wire of [`Net::on_wire`].
    pub fn wire(&self) -> &Wire {
        self.wire.as_ref().expect("the hosts are on a wire")
    }

    fn switch(&self) -> String {
        format!("{}sw", self.prefix)
    }

    fn space(&self, host: usize) -> String {
        format!("{}h{host}", self.prefix)
    }

    pub fn controller_address(&self) -> &'static str {
        "10.77.0.1"
    }

    /// Runs `work` on a thread in the network of a host.
    pub fn enter<T: Send>(&self, host: usize, work: impl FnOnce() -> T + Send) -> T {
        let space = File::open(format!("/run/netns/{}", self.space(host))).expect("it exists");
        std::thread::scope(|scope| {
            let done = scope.spawn(move || {
                // SAFETY: the file descriptor is open; only this thread changes its network.
                let entered =
                    unsafe { libc::setns(std::os::fd::AsRawFd::as_raw_fd(&space), libc::CLONE_NEWNET) };
                assert_eq!(entered, 0, "the namespace can be entered");
                work()
            });
            done.join().expect("it went well")
        })
    }

    /// Pulls or plugs the cable of a host.
    pub fn plug(&self, host: usize, is_in: bool) {
        let state = if is_in { "up" } else { "down" };
        must("ip", &["-n", &self.switch(), "link", "set", &format!("port{host}"), state]);
    }

    /// Makes the network to a host slow: 24 kbit/s and room for one packet, so that any greeting waits.
    pub fn degrade(&self, host: usize) {
        let bucket = "tbf rate 24kbit burst 1540 limit 4kb";
        let port = format!("port{host}");
        let (switch, words): (String, Vec<&str>) = (self.switch(), bucket.split(' ').collect());
        let command = ["netns", "exec", &switch, "tc", "qdisc", "add", "dev", &port, "root"];
        must("ip", &[&command[..], &words].concat());
    }

    /// Number of packets to a host that waited because its network was slow.
    pub fn delayed(&self, host: usize) -> u64 {
        let (switch, port) = (self.switch(), format!("port{host}"));
        let output = Command::new("ip")
            .args(["netns", "exec", &switch, "tc", "-s", "qdisc", "show", "dev", &port])
            .output()
            .expect("tc starts");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let after = text.split("overlimits ").nth(1).unwrap_or_default();
        after.split([',', ' ']).next().and_then(|number| number.parse().ok()).unwrap_or(0)
    }

    /// Starts a program on a host; its output is appended to `log`.
    pub fn start(
        &self,
        host: usize,
        folder: &Path,
        program: &str,
        arguments: &[&str],
        log: &Path,
    ) -> Program {
        let log = OpenOptions::new().create(true).append(true).open(log).expect("writable");
        let space = self.space(host);
        let child = Command::new("ip")
            .args(["netns", "exec", &space, program])
            .args(arguments)
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a file"))
            .stderr(log)
            .spawn()
            .expect("ip starts");
        Program(child)
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        self.wire = None;
        for space in (0..=self.hosts).map(|host| self.space(host)).chain([self.switch()]) {
            run("ip", &["netns", "del", &space]);
        }
    }
}

/// A running program; killed when dropped.
pub struct Program(Child);

impl Program {
    pub fn id(&self) -> u32 {
        self.0.id()
    }

    /// Waits for the end of the program. Returns its exit status; -1 after a signal, -2 if it hangs.
    pub fn wait(mut self) -> i32 {
        let started = Instant::now();
        loop {
            if let Some(status) = self.0.try_wait().expect("a child") {
                return status.code().unwrap_or(-1);
            }
            if started.elapsed() > PATIENCE {
                return -2;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Kills it as a power cut of its process would.
    pub fn kill(mut self) {
        self.0.kill().expect("it runs");
        self.0.wait().expect("it ends");
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
