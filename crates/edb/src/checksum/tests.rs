use super::*;

const PGNO_OF_PATTERN: u32 = 0x1234;

/// Test pattern of the known answers: top bytes of a linear congruential generator, then the flags word.
fn pattern(page_bytes: usize) -> Vec<u8> {
    let mut bytes = pattern_without_flags(page_bytes);
    put_u32(&mut bytes, FLAGS, 0xA802);
    bytes
}

fn pattern_without_flags(page_bytes: usize) -> Vec<u8> {
    let mut x = 1u32;
    let bytes: Vec<u8> = (0..page_bytes)
        .map(|_| {
            x = x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (x >> 24) as u8
        })
        .collect();
    assert_eq!(bytes[..4], [0x3C, 0x5E, 0x81, 0xB4]);
    bytes
}

#[test]
fn page_sums_equal_the_known_answers() {
    let answers: [(usize, &[u64]); 4] = [
        (4096, &[0x2A4B_55B4_B984_9200]),
        (8192, &[0xD2D6_2D29_B58C_4BA6]),
        (
            16384,
            &[0x54C2_54C2_1008_A409, 0x789D_789D_0C08_CB92, 0x281B_57E4_09A0_C603, 0x631D_1CE2_531B_5F90],
        ),
        (
            32768,
            &[0x2C56_2C56_6D2D_2C9D, 0xCB06_CB06_5ABB_8BA7, 0x898C_898C_6D43_F51C, 0x3498_3498_55EF_3801],
        ),
    ];
    for (page_bytes, expected) in answers {
        let mut page = pattern(page_bytes);
        stamp(&mut page, PGNO_OF_PATTERN);
        let stored: Vec<u64> = PLACES.iter().take(expected.len()).map(|&at| get_u64(&page, at)).collect();
        assert_eq!(stored, expected, "{page_bytes}");
    }
}

#[test]
fn header_sums_equal_the_known_answers() {
    for (page_bytes, expected) in [(4096, 0x0809_45A2), (32768, 0x6616_C88A)] {
        let mut page = pattern_without_flags(page_bytes);
        assert_eq!(header_sum(&page), expected);
        stamp_header(&mut page);
        assert!(header_is_intact(&page));
        page[page_bytes - 1] ^= 1;
        assert!(!header_is_intact(&page));
    }
}

const SIZES: [usize; 4] = [4096, 8192, 16384, 32768];

fn stamped(page_bytes: usize, pgno: u32) -> Vec<u8> {
    let mut page = pattern(page_bytes);
    put_u32(&mut page, PGNO, pgno);
    stamp(&mut page, pgno);
    assert_eq!(verify(&page, pgno), Verdict::Ok);
    page
}

fn flip(page: &mut [u8], bit: u32) {
    page[bit as usize / 8] ^= 1 << (bit % 8);
}

fn correctable(bits: &[u32]) -> Verdict {
    let mut flipped = FlippedBits::default();
    bits.iter().for_each(|&bit| flipped.push(bit));
    Verdict::Correctable { bits: flipped }
}

#[test]
fn every_single_flipped_bit_is_found_and_corrected_except_in_format_flag_and_own_checksum() {
    for page_bytes in SIZES {
        let good = stamped(page_bytes, 7);
        let mut page = good.clone();
        // A prime step reaches every bit position and every block; all bits would take minutes.
        let in_header = 0..600;
        for bit in in_header.chain((600..page_bytes as u32 * 8).step_by(37)) {
            flip(&mut page, bit);
            let verdict = correct(&mut page, 7);
            if bit < 64 || bit == FORMAT_BIT {
                assert!(
                    matches!(verdict, Verdict::Bad | Verdict::WrongNumber { .. }),
                    "{bit} of {page_bytes}"
                );
                flip(&mut page, bit);
            } else {
                assert_eq!(verdict, correctable(&[bit]), "{page_bytes}");
            }
            assert_eq!(page, good);
        }
    }
}

#[test]
fn one_flipped_bit_in_each_block_is_corrected_even_inside_a_stored_checksum() {
    for page_bytes in [16384, 32768] {
        let good = stamped(page_bytes, 9);
        let block_bits = page_bytes as u32 * 2;
        for first in [STORED_SUMS_BITS.start, 400, STORED_SUMS_BITS.end - 1, 5000] {
            let bits = [first, block_bits + 3, 2 * block_bits + 9999, 4 * block_bits - 1];
            let mut page = good.clone();
            bits.iter().for_each(|&bit| flip(&mut page, bit));
            assert_eq!(correct(&mut page, 9), correctable(&bits));
            assert_eq!(page, good);
        }
    }
}

#[test]
fn two_flipped_bits_in_one_block_are_refused_and_left_alone() {
    for page_bytes in SIZES {
        let good = stamped(page_bytes, 9);
        for (a, b) in [(64, 65), (1000, 1032), (700, 20_001), (9_000, 32_000)] {
            let mut page = good.clone();
            flip(&mut page, a);
            flip(&mut page, b);
            let found = page.clone();
            assert_eq!(correct(&mut page, 9), Verdict::Bad, "{a} {b} of {page_bytes}");
            assert_eq!(page, found);
        }
    }
}

/// A block's stored sum names a bit by its number and the complement of that; garbage may name a number that no bit
/// has.
#[test]
fn a_sum_that_names_a_bit_behind_the_block_corrects_nothing() {
    for page_bytes in [4096, 16384] {
        let mut page = stamped(page_bytes, 9);
        [5000, 47, 63].into_iter().for_each(|bit| flip(&mut page, bit));
        let found = page.clone();
        assert_eq!(verify(&page, 9), Verdict::Bad);
        assert_eq!(correct(&mut page, 9), Verdict::Bad);
        assert_eq!(page, found);
    }
}

#[test]
fn a_page_of_another_number_is_named_by_that_number() {
    for page_bytes in SIZES {
        assert_eq!(verify(&stamped(page_bytes, 9), 10), Verdict::WrongNumber { claimed: 9 });
    }
    let mut page = stamped(32768, 9);
    put_u32(&mut page, PGNO, 8);
    stamp(&mut page, 9);
    assert_eq!(verify(&page, 9), Verdict::WrongNumber { claimed: 8 }, "the number in the header counts too");
}

#[test]
fn a_zero_page_is_uninitialised_and_one_bit_in_it_is_not() {
    for page_bytes in SIZES {
        let mut page = vec![0; page_bytes];
        assert_eq!(verify(&page, 3), Verdict::Uninitialised);
        page[page_bytes - 1] = 1;
        assert_eq!(verify(&page, 3), Verdict::Bad);
    }
}

#[test]
fn an_old_format_page_is_judged_by_its_xor_and_number_and_never_corrected() {
    for flags in [0x0802, 0x2802] {
        let mut page = pattern(4096);
        put_u32(&mut page, FLAGS, flags);
        put_u32(&mut page, 4, 12);
        stamp_header(&mut page);
        let good = page.clone();
        assert_eq!(correct(&mut page, 12), Verdict::Ok);
        assert_eq!(page, good, "valid, even if the flag claims the new format");
        if flags == 0x0802 {
            assert_eq!(verify(&page, 13), Verdict::WrongNumber { claimed: 12 });
            flip(&mut page, 5000);
            assert_eq!(verify(&page, 12), Verdict::Bad);
        }
    }
}

proptest::proptest! {
    #[test]
    fn the_vector_path_equals_the_definition(
        words in proptest::collection::vec(proptest::prelude::any::<u32>(), 7..200),
        block_bytes in proptest::sample::select(vec![4096usize, 8192]),
    ) {
        let block: Vec<u8> = words.iter().cycle().take(block_bytes / 4).flat_map(|word| word.to_le_bytes()).collect();
        proptest::prop_assert_eq!(kernel::block_bits(&block), kernel::block_bits_portable(&block));
    }
}
