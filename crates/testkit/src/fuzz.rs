//! Inputs from outside, changed at random, for code that must never panic on them: a fuzzer that stable Rust runs.
//!
//! Input `n` of a target is a function of `n` and of its seeds, so a failure can be repeated. Without a look at
//! which code an input reaches, the seeds have to be good: whole files of each kind.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::{Duration, Instant};

use crate::numbers;

/// Time that each fuzz target gets in the normal tests, s.
const SECONDS: u64 = 2;
/// Largest size of an input, bytes.
const INPUT_BYTES_MAX: usize = 1 << 20;
/// Numbers at which arithmetic tends to fail.
const EDGES: [u64; 10] = [0, 1, 0x7F, 0xFF, 0x7FFF, 0xFFFF, 0x7FFF_FFFF, 0xFFFF_FFFF, 1 << 63, u64::MAX];

/// Fuzzes `target` for 2 s, or `PROOFLOAD_FUZZ_SECONDS`: each input is a seed with a few changes. Returns the number
/// of inputs.
///
/// # Panics
/// As `target` does; the input is then kept in a file that a message names.
pub fn fuzz(name: &str, seeds: &[Vec<u8>], target: impl Fn(&[u8])) -> u64 {
    let seconds = std::env::var("PROOFLOAD_FUZZ_SECONDS").ok().and_then(|text| text.parse().ok());
    let (started, limit) = (Instant::now(), Duration::from_secs(seconds.unwrap_or(SECONDS)));
    let mut count = 0;
    while started.elapsed() < limit {
        let input = input(seeds, count);
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| target(&input))) {
            let kept = std::env::temp_dir().join(format!("proofload-fuzz-{name}-{count}"));
            let wrote = std::fs::write(&kept, &input);
            eprintln!("input {count} of {name} failed; it is kept in {} ({wrote:?})", kept.display());
            resume_unwind(panic);
        }
        count += 1;
    }
    eprintln!("{name}: {count} inputs");
    count
}

/// Creates input number `n`.
fn input(seeds: &[Vec<u8>], n: u64) -> Vec<u8> {
    // Neighbouring seeds of this generator give like numbers at first.
    let mut next = numbers(n.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    for _ in 0..4 {
        next();
    }
    let mut below = move |end: usize| (next() % end.max(1) as u64) as usize;
    let mut input = seeds[below(seeds.len())].clone();
    for _ in 0..=below(8) {
        change(&mut input, seeds, &mut below);
    }
    input.truncate(INPUT_BYTES_MAX);
    input
}

fn change(input: &mut Vec<u8>, seeds: &[Vec<u8>], below: &mut impl FnMut(usize) -> usize) {
    let at = below(input.len());
    let end = (at + 1 + below(400)).min(input.len());
    match below(8) {
        0 | 1 if at < input.len() => input[at] ^= 1 << below(8),
        2 if at < input.len() => input[at] = below(256) as u8,
        3 => {
            let width = [1, 2, 4, 8][below(4)];
            let edge = EDGES[below(EDGES.len())].to_le_bytes();
            input.iter_mut().skip(at).zip(&edge[..width]).for_each(|(byte, new)| *byte = *new);
        }
        4 if at < end => drop(input.drain(at..end)),
        5 if at < end => {
            let again = input[at..end].to_vec();
            input.splice(at..at, again);
        }
        6 => {
            // The rest of another seed.
            let other = &seeds[below(seeds.len())];
            input.truncate(at);
            input.extend_from_slice(&other[below(other.len()).min(other.len())..]);
        }
        _ => {
            let random: Vec<u8> = (0..below(16)).map(|_| below(256) as u8).collect();
            input.splice(at..at, random);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_input_is_a_function_of_its_number() {
        let seeds = [vec![1; 100], vec![2; 50]];
        let inputs: Vec<Vec<u8>> = (0..200).map(|n| input(&seeds, n)).collect();
        assert_eq!(inputs, (0..200).map(|n| input(&seeds, n)).collect::<Vec<_>>());
        let different: std::collections::BTreeSet<&Vec<u8>> = inputs.iter().collect();
        assert!(different.len() > 190, "{} of 200 differ", different.len());
    }

    #[test]
    #[should_panic(expected = "planted")]
    fn a_planted_bug_is_found() {
        let seed = b"length=0010 and a body of some bytes".to_vec();
        fuzz("planted", &[seed], |bytes| {
            assert!(!bytes.starts_with(b"length=0010") || bytes.len() >= 20, "planted");
        });
    }
}
