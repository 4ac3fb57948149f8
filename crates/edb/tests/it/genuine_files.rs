//! Databases written by the genuine engine. They lie beside the project, not in it; without them nothing is
//! tested here.

use edb::checksum::{Verdict, correct};
use edb::header::{DatabaseHeader, DatabaseState, HeaderCopy};
use edb::page::{MAX_PAGE_BYTES, PageRef};
use edb::verify::{Counts, Finding, OwnedStep, check_page, last_owned_page, last_page, page_offset};

fn pages(file: &[u8], page_bytes: usize) -> impl Iterator<Item = (u32, &[u8])> {
    (1..=last_page(file.len() as u64, page_bytes)).map(move |pgno| {
        let start = page_offset(pgno, page_bytes) as usize;
        (pgno, &file[start..start + page_bytes])
    })
}

#[test]
fn header_shadow_and_every_page_of_genuine_files_are_good() {
    for (name, initialised, file) in testkit::genuine_databases() {
        let (header, copy) = DatabaseHeader::read(&file[..2 * MAX_PAGE_BYTES]).expect(name);
        assert_eq!(
            (copy, header.state(), header.format()),
            (HeaderCopy::Header, DatabaseState::Clean, (1568, 20)),
            "{name}"
        );
        let page_bytes = header.page_bytes();
        assert_eq!(DatabaseHeader::parse(&file[page_bytes..]).as_ref(), Ok(&header), "{name}");
        let mut counts = Counts::default();
        for (pgno, page) in pages(&file, page_bytes) {
            let finding = check_page(page, pgno);
            assert!(
                matches!(finding, Finding::Good { .. } | Finding::Uninitialised),
                "{name} {pgno}: {finding:?}"
            );
            counts.add(finding);
            if finding != Finding::Uninitialised {
                assert_eq!(PageRef::new(page).check_order(), Ok(()), "{name} {pgno}");
            }
        }
        assert!(counts.is_success());
        assert_eq!(counts.seen - counts.uninitialised, initialised, "{name}");
        assert!(counts.dbtime_max <= header.dbtime(), "{name}");
    }
}

#[test]
fn a_thousand_flipped_bits_per_genuine_file_are_found_and_corrected() {
    const FORMAT_FLAG: u64 = 36 * 8 + 13;
    for (name, _, file) in testkit::genuine_databases() {
        let page_bytes = DatabaseHeader::parse(&file).expect(name).page_bytes();
        let used: Vec<_> = pages(&file, page_bytes)
            .filter(|(pgno, page)| check_page(page, *pgno) != Finding::Uninitialised)
            .collect();
        let mut next = testkit::numbers(1);
        let mut corrected = 0;
        while corrected < 1000 {
            let (pgno, good) = used[next() as usize % used.len()];
            let bit = next() % (page_bytes as u64 * 8);
            // The checksum does not cover itself, and the format flag is never "corrected".
            if bit < 64 || bit == FORMAT_FLAG {
                continue;
            }
            let mut page = good.to_vec();
            page[bit as usize / 8] ^= 1 << (bit % 8);
            let verdict = correct(&mut page, pgno);
            assert!(
                matches!(verdict, Verdict::Correctable { bits } if bits.as_slice() == [bit as u32]),
                "{verdict:?}"
            );
            assert_eq!(page, good, "{name} {pgno}");
            corrected += 1;
        }
    }
}

#[test]
fn the_last_owned_page_lies_in_the_file() {
    for (name, _, file) in testkit::genuine_databases() {
        let page_bytes = DatabaseHeader::parse(&file).expect(name).page_bytes();
        let end = last_page(file.len() as u64, page_bytes);
        let mut pgno = 1;
        let last = loop {
            let start = page_offset(pgno, page_bytes) as usize;
            match last_owned_page(&file[start..start + page_bytes], pgno).expect(name) {
                OwnedStep::Read(next) => pgno = next,
                OwnedStep::Last(last) => break last,
            }
        };
        assert!(last <= end && last >= 254, "{name}: {last} of {end}");
        if name == "large" {
            assert_eq!((last, end), (510, 766));
        }
    }
}
