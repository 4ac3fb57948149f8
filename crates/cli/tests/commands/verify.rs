//! `proofload verify` on databases that the genuine engine wrote, whole and damaged.
#![allow(clippy::disallowed_methods, reason = "tests face the operating system")]

use std::path::Path;
use std::process::Command;

use edb::header::DatabaseHeader;
use edb::identity::{LogTime, Signature};
use workload::template::TemplateDatabase;
use world::TemplatePages;

/// Page size of the genuine database that the tests damage.
const PAGE_BYTES: usize = 32768;
/// Where a header says how long a page is.
const PAGE_BYTES_AT: usize = 236;
/// The checksum does not cover itself, and the flag that tells its form is never corrected.
const NOT_COVERED: [std::ops::Range<u64>; 2] = [0..64, 36 * 8 + 13..36 * 8 + 14];

fn verify(folder: &Path, file: &[u8], repair_to: Option<&Path>) -> (i32, String) {
    let path = folder.join("file.edb");
    std::fs::write(&path, file).expect("writable");
    let mut command = Command::new(env!("CARGO_BIN_EXE_proofload"));
    command.arg("verify").arg(&path);
    if let Some(to) = repair_to {
        command.arg("--repair-to").arg(to);
    }
    let output = command.output().expect("it starts");
    assert!(std::fs::read(&path).expect("readable") == file, "the file itself is only read");
    (output.status.code().unwrap_or(-1), String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The genuine database that the tests damage, and its initialised pages.
fn large() -> Option<(Vec<usize>, Vec<u8>)> {
    let (_, initialised, file) =
        testkit::genuine_databases().into_iter().find(|(name, ..)| *name == "large")?;
    let all = 1..=file.len() / PAGE_BYTES - 2;
    let pages: Vec<usize> = all.filter(|pgno| file[place_of(*pgno)].iter().any(|byte| *byte != 0)).collect();
    assert_eq!(pages.len() as u64, initialised);
    Some((pages, file))
}

fn place_of(pgno: usize) -> std::ops::Range<usize> {
    (pgno + 1) * PAGE_BYTES..(pgno + 2) * PAGE_BYTES
}

#[test]
fn genuine_databases_are_accepted() {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, initialised, file) in testkit::genuine_databases() {
        let (status, stdout) = verify(folder.path(), &file, None);
        let page_bytes =
            file[PAGE_BYTES_AT..PAGE_BYTES_AT + 4].try_into().map(u32::from_le_bytes).expect("four bytes");
        let pages = file.len() / page_bytes as usize - 2;
        let expected =
            format!("{pages} pages seen, 0 bad, 0 correctable, {} uninitialised", pages as u64 - initialised);
        assert!(status == 0 && stdout.contains(&expected), "{name}: {stdout}");
    }
}

#[test]
fn every_flipped_bit_is_found_and_repaired_in_a_copy() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some((pages, file)) = large() else { return };
    let mut next = testkit::numbers(7);
    let mut flipped = 0;
    for round in 0.. {
        if flipped >= 1000 {
            break;
        }
        let mut damaged = file.clone();
        for pgno in &pages {
            let page = &mut damaged[place_of(*pgno)];
            let bit = loop {
                let bit = next() % (PAGE_BYTES as u64 * 8);
                if !NOT_COVERED.iter().any(|bits| bits.contains(&bit)) {
                    break bit as usize;
                }
            };
            page[bit / 8] ^= 1 << (bit % 8);
            flipped += 1;
        }
        let repaired = folder.path().join(format!("repaired-{round}.edb"));
        let (status, stdout) = verify(folder.path(), &damaged, Some(&repaired));
        assert_eq!(status, 1);
        assert!(stdout.contains(&format!("0 bad, {} correctable", pages.len())), "{stdout}");
        assert!(std::fs::read(&repaired).expect("there is a copy") == file, "the copy is as the file was");
    }
}

#[test]
fn wrong_pages_lost_headers_and_lost_ends_are_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some((pages, file)) = large() else { return };
    let said = |file: &[u8], what: &str| {
        let (status, stdout) = verify(folder.path(), file, None);
        assert!(status == 1 && stdout.contains(what), "{what}: {stdout}");
    };
    let mut misplaced = file.clone();
    misplaced.copy_within(place_of(pages[5]), place_of(pages[6]).start);
    said(&misplaced, &format!("page {}: holds the bytes of page {}", pages[6], pages[5]));
    for (start, what) in [
        (0, "header: damaged; the shadow is good"),
        (PAGE_BYTES, "shadow header: damaged; the header is good"),
    ] {
        let mut lost = file.clone();
        lost[start..start + PAGE_BYTES].fill(0);
        said(&lost, what);
    }
    let mut broken = file.clone();
    broken[place_of(pages[7])][1000..1100].fill(0x5A);
    said(&broken, &format!("page {}: wrong checksum", pages[7]));
    said(&file[..300 * PAGE_BYTES], "the file is cut off: the database owns 510 pages, the file has 298");
    let mut lost = file;
    lost[..2 * PAGE_BYTES].fill(0);
    assert_eq!(verify(folder.path(), &lost, None).0, 2, "no header at all");
}

#[test]
fn sectors_that_changed_places_are_found_in_a_database_of_ours() {
    let folder = tempfile::tempdir().expect("a folder");
    let (_, mut file) = ours();
    let (status, stdout) = verify(folder.path(), &file, None);
    assert!(status == 0 && stdout.contains("not seen: exchanged sectors of a changed page"), "{stdout}");
    let is_exchanged = |file: &mut [u8], pgno: usize| {
        let page = &mut file[place_of(pgno)];
        if edb::is_zero(page) {
            return false;
        }
        let before = page.to_vec();
        let (one, other) = page.split_at_mut(1024);
        one[512..].swap_with_slice(&mut other[..512]);
        edb::checksum::stamp(page, pgno as u32);
        let is_leaf = edb::page::PageRef::new(page).is_leaf();
        let is_whole = is_leaf && edb::page::PageRef::new(page).validate().is_ok() && page != &before[..];
        if !is_whole {
            page.copy_from_slice(&before);
        }
        is_whole
    };
    let last = file.len() / PAGE_BYTES - 2;
    let pgno = (64..last).find(|pgno| is_exchanged(&mut file, *pgno)).expect("a leaf with payloads");
    let (status, stdout) = verify(folder.path(), &file, None);
    let said = format!("page {pgno}: right checksum, but an entry is not one that was written");
    assert!(status == 1 && stdout.contains(&said), "{stdout}");
}

/// A file of ours, whole.
fn ours() -> (TemplateDatabase, Vec<u8>) {
    let template = TemplateDatabase::of_size(PAGE_BYTES as u32, 16 << 20, 64, 7, 25).expect("room");
    let mut file = vec![0; template.pages() as usize * PAGE_BYTES];
    for (index, page) in (0..).zip(file.chunks_exact_mut(PAGE_BYTES)) {
        template.fill(index, page);
    }
    (template, file)
}

/// Bits 1 of two words cancel out in the checksum, so the third bit, of another place, seems to be the only
/// flipped one.
#[test]
fn three_flipped_payload_bits_that_look_like_one_are_not_repaired_into_a_wrong_page() {
    let folder = tempfile::tempdir().expect("a folder");
    let (template, mut file) = ours();
    let leaf = template.layout().runs[1].first() as usize;
    for bit in [9000 * 8 + 1, 9400 * 8 + 1, 9800 * 8] {
        file[place_of(leaf)][bit / 8] ^= 1 << (bit % 8);
    }
    let repaired = folder.path().join("repaired.edb");
    let (status, stdout) = verify(folder.path(), &file, Some(&repaired));
    let what = format!("page {leaf}: looks like a single flipped bit, but more are wrong");
    assert!(status == 1 && stdout.contains(&what) && stdout.contains(" 1 bad, 0 correctable"), "{stdout}");
    assert!(std::fs::read(&repaired).expect("there is a copy") == file, "nothing is made worse");
}

#[test]
fn a_tail_that_is_no_whole_page_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let (_, mut file) = ours();
    file.extend_from_slice(&[7; 1000]);
    let (status, stdout) = verify(folder.path(), &file, None);
    assert!(status == 1 && stdout.contains("1,000 bytes behind the last whole page"), "{stdout}");
}

/// With pages of 4 KiB a few MiB make trees of three levels. ESE leaves only the last entry of a level without a key.
#[test]
fn a_database_with_three_levels_of_pages_is_whole() {
    const SMALL: usize = 4096;
    let folder = tempfile::tempdir().expect("a folder");
    let template = TemplateDatabase::of_size(SMALL as u32, 24 << 20, 64, 7, 25).expect("room");
    let mut file = vec![0; template.pages() as usize * SMALL];
    for (index, page) in (0..).zip(file.chunks_exact_mut(SMALL)) {
        template.fill(index, page);
    }
    let run = template.layout().runs.iter().find(|run| run.levels.len() > 1).expect("a tree of three levels");
    let first = run.levels[1].first as usize + 1;
    let page = edb::page::PageRef::new(&file[first * SMALL..(first + 1) * SMALL]);
    assert!(page.nodes().all(|node| node.key_len() > 0), "it is not the last page of its level");
    let (status, stdout) = verify(folder.path(), &file, None);
    assert!(status == 0 && stdout.contains(" 0 bad"), "{stdout}");
}

/// A file of ours tells what it was made with.
#[test]
fn pages_that_a_database_was_made_with_are_missed_when_they_are_zero() {
    let folder = tempfile::tempdir().expect("a folder");
    let (template, mut file) = ours();
    let (status, whole) = verify(folder.path(), &file, None);
    assert!(status == 0 && !whole.contains(" 0 uninitialised"), "free pages are zero: {whole}");
    let leaf = template.layout().runs[0].first() as usize;
    file[place_of(leaf)].fill(0);
    let (status, stdout) = verify(folder.path(), &file, None);
    let what = format!("page {leaf}: was lost: it is zero, and the database uses it");
    assert!(status == 1 && stdout.contains(&what) && stdout.contains(" 1 bad"), "{stdout}");
}

/// The space trees of a genuine database say which pages are in use.
#[test]
fn verify_finds_every_used_page_of_a_genuine_database_that_became_zero() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some((pages, file)) = large() else { return };
    let mut damaged = file.clone();
    pages.iter().skip(1).step_by(20).for_each(|pgno| damaged[place_of(*pgno)].fill(0));
    let lost: Vec<_> = pages.iter().skip(1).step_by(40).collect();
    let (status, stdout) = verify(folder.path(), &damaged, None);
    assert!(status == 1 && stdout.contains("was lost"), "{stdout}");
    // Where a lost page is one that the space trees need, they do not tell of others.
    let mut alone = 0;
    for pgno in lost {
        let mut damaged = file.clone();
        damaged[place_of(*pgno)].fill(0);
        let (status, stdout) = verify(folder.path(), &damaged, None);
        assert!(status == 1 && stdout.contains(&format!("page {pgno}: was lost")), "{stdout}");
        alone += 1;
    }
    assert!(alone > 5, "{alone}");
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let Some((pages, mut file)) = large() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    pages.iter().for_each(|pgno| file[place_of(*pgno)][100] ^= 1);
    let path = folder.path().join("file.edb");
    std::fs::write(&path, &file).expect("writable");
    let mut child = Command::new(env!("CARGO_BIN_EXE_proofload"))
        .arg("verify")
        .arg(&path)
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("it starts");
    drop(child.stdout.take());
    assert_eq!(child.wait().expect("it ends").code(), Some(1), "damage was found, whoever reads of it");
}

#[test]
fn shadow_that_contradicts_its_header_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let (_, file) = ours();
    for page_bytes in [0u32, 4096, 8192, 16384, 32768] {
        let mut changed = file.clone();
        let shadow = &mut changed[PAGE_BYTES..2 * PAGE_BYTES];
        // With its own size, another field that a closed database has twice.
        let (at, value) = if page_bytes == 32768 { (212, 7777) } else { (PAGE_BYTES_AT, page_bytes) };
        shadow[at..at + 4].copy_from_slice(&value.to_le_bytes());
        let covered = if page_bytes == 0 { 4096 } else { page_bytes as usize };
        edb::checksum::stamp_header(&mut shadow[..covered]);
        let (status, stdout) = verify(folder.path(), &changed, None);
        let said = "shadow header: contradicts the header";
        assert!(status == 1 && stdout.contains(said), "{page_bytes}: {stdout}");
    }
}

#[test]
fn other_files_of_ese_are_refused_by_what_they_are() {
    let folder = tempfile::tempdir().expect("a folder");
    let now = LogTime::from_unix_ms(1_700_000_000_000);
    let position = edb::identity::LogPosition::new(3, 1, 40);
    let checkpoint = edb::checkpoint::Checkpoint { position, signature: Signature::new(77, now) }.encode();
    let mut temporary = DatabaseHeader::new(4096, Signature::new(77, now), now).stamped().to_vec();
    temporary[52] = 1;
    temporary[..4].fill(0);
    let mut log = vec![0; 4096];
    log[667] = 3;
    edb::checksum::stamp_header(&mut log);
    for (name, bytes, what) in [
        ("E00.chk", [checkpoint, checkpoint].concat(), "a checkpoint of ESE"),
        ("tmp.edb", [&temporary[..], &[0; 8192]].concat(), "a temporary database of ESE"),
        ("E00.log", [&log[..], &[0; 4096]].concat(), "a log of ESE"),
    ] {
        std::fs::write(folder.path().join(name), bytes).expect("writable");
        let (status, stdout, stderr) = crate::program::output(folder.path(), &["verify", name]);
        assert!(status == 2 && stderr.contains(what), "{name}: {stdout}{stderr}");
    }
}

#[test]
fn database_of_another_format_version_is_refused_by_name() {
    let now = LogTime::from_unix_ms(1_700_000_000_000);
    let mut header = DatabaseHeader::new(4096, Signature::new(77, now), now);
    let mut page = header.stamped().to_vec();
    page[8..12].copy_from_slice(&0x630u32.to_le_bytes());
    edb::checksum::stamp_header(&mut page);
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("other.edb"), [&page[..], &page, &[0; 4096]].concat())
        .expect("writable");
    let (status, stdout, stderr) = crate::program::output(folder.path(), &["verify", "other.edb"]);
    assert_eq!(status, 2, "{stdout}{stderr}");
    for words in
        ["other.edb", "format version 0x630", "reads version 0x620", "program that made the database"]
    {
        assert!(stderr.contains(words), "{words}: {stderr}");
    }
}
