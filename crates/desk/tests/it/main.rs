//! The integration tests of `desk`: one program, which is compiled and linked once.
#![allow(
    clippy::disallowed_methods,
    reason = "tests work with files, connections and threads of the machine"
)]

mod asked;
mod used;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};

use desk::{Desk, Server};
use serde_json::Value;
use testkit::claims::{HONEST, PERFORMANCE};

/// End of a performance test that is over soon.
const SHORT: &str = "duration_s = 60\nwarmup_limit_s = 5\n";

/// A desk on a free port, with its solution file in a folder of its own.
struct Served {
    folder: tempfile::TempDir,
    address: SocketAddr,
    end: Box<dyn Fn()>,
    serving: Option<std::thread::JoinHandle<()>>,
}

impl Served {
    /// Serves a solution that ends with a performance test; `test` holds further lines of that test.
    fn new(test: &str) -> Served {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("writable");
        let file = folder.path().join("small.toml");
        let text = format!("# Ours.\n{}{PERFORMANCE}{test}", HONEST.trim_start());
        std::fs::write(&file, text).expect("writable");
        let server = Server::new("127.0.0.1:0".parse().expect("an address")).expect("a free port");
        let (address, end) = (server.address(), server.ender());
        let desk = Desk::new(&file, address).expect("a token");
        let serving = std::thread::spawn(move || server.serve(desk).expect("it serves"));
        Served { folder, address, end: Box::new(end), serving: Some(serving) }
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("small.toml")
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The token in the page.
    fn token(&self) -> String {
        let page = self.get("/").1;
        let rest = page.split("name=\"token\" content=\"").nth(1).expect("the page has a token");
        rest.split('"').next().expect("it ends").to_owned()
    }

    fn get(&self, path: &str) -> (u16, String) {
        self.raw(&format!("GET {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", self.address), b"")
    }

    /// Sends a POST as the page does. Returns status and body.
    fn post(&self, path: &str, body: &str) -> (u16, Value) {
        let head = format!("Host: {}\r\nX-Proofload-Token: {}\r\n", self.address, self.token());
        let (status, text) = self.post_with(path, &head, body);
        (status, serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}")))
    }

    fn post_with(&self, path: &str, headers: &str, body: &str) -> (u16, String) {
        let length = body.len();
        let head =
            format!("POST {path} HTTP/1.1\r\nConnection: close\r\nContent-Length: {length}\r\n{headers}\r\n");
        self.raw(&head, body.as_bytes())
    }

    /// Sends raw bytes. Returns status and body of the answer.
    fn raw(&self, head: &str, body: &[u8]) -> (u16, String) {
        let mut stream = TcpStream::connect(self.address).expect("it listens");
        stream.write_all(head.as_bytes()).expect("it listens");
        // A refusal may come before all is sent.
        let _ = stream.write_all(body);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        let answer = String::from_utf8_lossy(&answer);
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no head: {answer}"));
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
        (status, body.to_owned())
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        (self.end)();
        if let Some(serving) = self.serving.take() {
            let _ = serving.join();
        }
    }
}

fn entries(folder: &Path) -> Vec<String> {
    let names =
        std::fs::read_dir(folder).expect("readable").map(|entry| entry.expect("readable").file_name());
    let mut names: Vec<String> = names.map(|name| name.to_string_lossy().into_owned()).collect();
    names.sort();
    names
}
