//! Prints how fast pages are verified: 32 KiB pages over 256 MiB, one core.
#![allow(clippy::disallowed_methods, clippy::print_stdout, reason = "a measurement for a person to read")]

use std::hint::black_box;
use std::time::Instant;

const PAGE_BYTES: usize = 32 * 1024;
const REPEATS: usize = 8;

/// Verifies all pages several times and prints the best round: other work on the machine only slows it down.
fn measure(what: &str, bytes: &[u8]) {
    let best_s = (0..REPEATS)
        .map(|_| {
            let start = Instant::now();
            let good = bytes
                .chunks_exact(PAGE_BYTES)
                .zip(1..)
                .filter(|(page, pgno)| {
                    edb::checksum::verify(black_box(page), *pgno) == edb::checksum::Verdict::Ok
                })
                .count();
            assert_eq!(good, bytes.len() / PAGE_BYTES);
            start.elapsed().as_secs_f64()
        })
        .fold(f64::INFINITY, f64::min);
    println!("{what}: {:.1} GB/s", bytes.len() as f64 / best_s / 1e9);
}

/// Reads all bytes once, as a bound for what the memory gives.
fn measure_memory(bytes: &[u8]) {
    let best_s = (0..REPEATS)
        .map(|_| {
            let start = Instant::now();
            let (words, _) = bytes.as_chunks::<8>();
            black_box(words.iter().fold(0, |sum, word| sum ^ u64::from_ne_bytes(*word)));
            start.elapsed().as_secs_f64()
        })
        .fold(f64::INFINITY, f64::min);
    println!("plain XOR over the same memory: {:.1} GB/s", bytes.len() as f64 / best_s / 1e9);
}

fn main() {
    let mut bytes = vec![0u8; 256 << 20];
    let mut x = 1u32;
    for (page, pgno) in bytes.chunks_exact_mut(PAGE_BYTES).zip(1..) {
        for byte in page.iter_mut() {
            x = x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            *byte = (x >> 24) as u8;
        }
        edb::page::PageMut::new(page).finish(pgno);
    }
    measure("256 MiB", &bytes);
    measure("1 MiB, again and again", &bytes[..1 << 20]);
    measure_memory(&bytes);
}
