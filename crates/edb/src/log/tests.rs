use super::*;
use proptest::prelude::*;

const SEGMENTS: u16 = 8;

fn header(generation: u32) -> LogHeader {
    let time = |n: u32| LogTime::from_unix_ms(1_700_000_000_000 + u64::from(n) * 1000);
    LogHeader {
        generation,
        segments: SEGMENTS,
        page_bytes: 32768,
        created: time(generation),
        previous_created: time(generation - 1),
        signature: Signature::new(4711, time(0)),
        circular: true,
    }
}

fn time() -> LogTime {
    LogTime::from_unix_ms(1_700_000_000_500)
}

fn empty_file(generation: u32) -> Vec<u8> {
    let mut bytes = vec![0; usize::from(SEGMENTS) * SEGMENT_BYTES];
    bytes[..SEGMENT_BYTES].copy_from_slice(&header(generation).encode());
    bytes
}

/// Full segments, as one write.
fn take_written(builder: &mut LogBuilder) -> Vec<Segment> {
    let mut segments = builder.take_full();
    let mut write = LogPosition::default();
    for segment in &mut segments {
        if segment.position.generation() != write.generation() {
            write = segment.position;
        }
        segment.stamp(write.segment());
    }
    segments
}

/// Writes segments to the files of generations 1, 2, ...
fn write(files: &mut Vec<Vec<u8>>, builder: &mut LogBuilder) {
    for segment in take_written(builder) {
        let generation = segment.position.generation();
        while files.len() < generation as usize {
            files.push(empty_file(files.len() as u32 + 1));
        }
        let at = usize::from(segment.position.segment()) * SEGMENT_BYTES;
        files[generation as usize - 1][at..at + SEGMENT_BYTES].copy_from_slice(&segment.bytes[..]);
    }
}

fn records_of(files: &[LogFile]) -> Vec<Vec<u8>> {
    let (mut records, mut found) = (Records::new(), Vec::new());
    for segment in files.iter().flat_map(LogFile::segments) {
        records.push(segment, |_, record| found.push(record.to_vec())).unwrap();
    }
    found
}

fn read(files: &[Vec<u8>]) -> Vec<LogFile> {
    files.iter().map(|file| LogFile::read(file.clone()).unwrap()).collect()
}

proptest! {
    #[test]
    fn records_come_back_whole_and_in_order_across_segments_and_logs(
        lens in proptest::collection::vec((1usize..30_000, 0u8..3), 1..40), short in proptest::collection::vec(1usize..90, 0..200),
    ) {
        let mut builder = LogBuilder::new(1, 1, SEGMENTS, RecordChain::default());
        let (mut files, mut written) = (Vec::new(), Vec::new());
        for (n, (len, flush)) in short.into_iter().map(|len| (len, 0)).chain(lens).enumerate() {
            let record: Vec<u8> = (0..len).map(|i| (i + n) as u8).collect();
            let before = builder.position();
            let end = builder.append(&record, time());
            prop_assert!(end > before && end == builder.position());
            written.push(record);
            match flush {
                1 => builder.seal(),
                2 => write(&mut files, &mut builder),
                _ => {}
            }
        }
        builder.seal();
        write(&mut files, &mut builder);
        let files = read(&files);
        prop_assert_eq!(records_of(&files), written);
        for pair in files.windows(2) {
            prop_assert_eq!(pair[0].tail(), Tail::Full);
            prop_assert!(pair[1].header().follows(pair[0].header()));
        }
    }

    #[test]
    fn no_bytes_make_the_readers_panic(
        patch in proptest::collection::vec((0usize..SEGMENT_BYTES * 8, any::<u8>()), 0..60), restamp in any::<bool>(),
    ) {
        let mut builder = LogBuilder::new(1, 1, SEGMENTS, RecordChain::default());
        let mut files = Vec::new();
        for _ in 0..5 {
            builder.append(&[7; 3000], time());
        }
        write(&mut files, &mut builder);
        let file = &mut files[0];
        patch.into_iter().for_each(|(at, byte)| file[at] = byte);
        for number in 0..SEGMENTS {
            let segment = &mut file[usize::from(number) * SEGMENT_BYTES..][..SEGMENT_BYTES];
            match (restamp, number) {
                (false, _) => {}
                (true, 0) => checksum::stamp_header(segment),
                (true, _) if get_u32(segment, 36) == 0x2000 => checksum::stamp(segment, number.into()),
                (true, _) => {}
            }
        }
        if let Ok(log) = LogFile::read(file.clone()) {
            let mut records = Records::new();
            for segment in log.segments() {
                let _ = records.push(segment, |_, _| {});
            }
        }
    }
}

/// One log with two full segments and a partial third, and its records.
fn small_log() -> (Vec<u8>, Vec<Vec<u8>>) {
    let mut builder = LogBuilder::new(1, 1, SEGMENTS, RecordChain::default());
    let written: Vec<Vec<u8>> = (0..9u8).map(|n| vec![n; 1000]).collect();
    written.iter().for_each(|record| {
        builder.append(record, time());
    });
    builder.seal();
    let mut files = Vec::new();
    write(&mut files, &mut builder);
    (files.remove(0), written)
}

fn segment(file: &mut [u8], number: usize) -> &mut [u8; SEGMENT_BYTES] {
    &mut file.as_chunks_mut().0[number]
}

#[test]
fn a_segment_with_the_sum_of_the_last_number_there_is_is_bad() {
    let (mut file, _) = small_log();
    let segment = segment(&mut file, 2);
    crate::checksum::stamp(&mut segment[..], u32::MAX);
    assert_eq!(judge_segment(segment, 1, 2), SegmentState::Bad);
}

#[test]
fn a_torn_segment_ends_the_log_before_it() {
    let (mut file, _) = small_log();
    segment(&mut file, 3)[512..].fill(0);
    let log = LogFile::read(file).unwrap();
    assert_eq!((log.end(), log.tail()), (3, Tail::Broken));
}

#[test]
fn a_flipped_bit_is_corrected_only_where_the_log_goes_on() {
    let (mut file, written) = small_log();
    segment(&mut file, 3)[2000] ^= 8;
    let log = LogFile::read(file.clone()).unwrap();
    assert_eq!((log.end(), log.tail()), (3, Tail::Broken));
    segment(&mut file, 1)[2000] ^= 8;
    let log = LogFile::read(file).unwrap();
    assert_eq!((log.corrected(), records_of(&[log]).len()), (1, 8));
    let (mut file, _) = small_log();
    segment(&mut file, 2)[2000] ^= 8;
    let log = LogFile::read(file).unwrap();
    assert_eq!(log.corrected(), 1);
    assert_eq!(records_of(&[log]), written);
}

/// Torn write of regular data: sectors of zeros in a run of one byte. The parity of the segment is the same.
fn tear_within_a_run(segment: &mut [u8; SEGMENT_BYTES], number: u32) {
    let run =
        segment.as_chunks_mut::<512>().0.iter_mut().skip(1).find(|s| s.iter().all(|b| *b == s[0] && *b != 0));
    run.expect("a sector within a run").fill(0);
    assert_eq!(checksum::verify(segment, number), checksum::Verdict::Ok);
}

#[test]
fn a_tear_that_the_segment_checksum_passes_ends_the_log_at_its_record() {
    let (mut file, written) = small_log();
    tear_within_a_run(segment(&mut file, 2), 2);
    let mut log = LogFile::read(file.clone()).unwrap();
    assert_eq!((log.tail(), log.end()), (Tail::Empty, 4));
    let mut records = Records::new();
    let damage = log.segments().find_map(|segment| records.push(segment, |_, _| {}).err());
    assert!(matches!(damage, Some(LogDamage::RecordChecksum { .. })), "{damage:?}");
    assert!(log.cut_at_bad_record(&Records::new()));
    assert_eq!((log.tail(), log.end()), (Tail::Broken, 2));
    assert_eq!(records_of(&[log]), written[..4]);
}

#[test]
fn a_missing_record_is_found_at_the_next_one_and_writing_goes_on_behind_the_cut() {
    let (mut file, written) = small_log();
    // As if the segment had ended with its second record.
    let end = DATA_START + 2 * (frame::WHOLE_HEADER + 1000 + RECORD_SUM_BYTES);
    segment(&mut file, 1)[end..].fill(0);
    checksum::stamp(segment(&mut file, 1), 1);
    let mut log = LogFile::read(file.clone()).unwrap();
    assert!(log.cut_at_bad_record(&Records::new()));
    assert_eq!((log.end(), log.tail()), (2, Tail::Broken));
    let mut records = Records::new();
    log.segments().for_each(|segment| records.push(segment, |_, _| {}).unwrap());
    let mut builder = LogBuilder::new(1, log.end(), SEGMENTS, records.chain());
    builder.append(b"behind the cut", time());
    builder.seal();
    segment(&mut file, 3).fill(0);
    *segment(&mut file, 2) = *take_written(&mut builder)[0].bytes;
    let log = LogFile::read(file).unwrap();
    let expected: Vec<Vec<u8>> = written[..2].iter().cloned().chain([b"behind the cut".to_vec()]).collect();
    assert_eq!(records_of(&[log]), expected);
}

#[test]
fn segments_of_an_older_log_in_a_reused_file_are_not_the_log() {
    let (mut old, _) = small_log();
    old[..SEGMENT_BYTES].copy_from_slice(&header(2).encode());
    let log = LogFile::read(old.clone()).unwrap();
    assert_eq!((log.end(), log.tail(), log.segments().count()), (1, Tail::Stale, 0));
    let mut builder = LogBuilder::new(2, 1, SEGMENTS, RecordChain::default());
    builder.append(b"the only record", time());
    builder.seal();
    *segment(&mut old, 1) = *take_written(&mut builder)[0].bytes;
    let log = LogFile::read(old).unwrap();
    assert_eq!((log.end(), log.tail()), (2, Tail::Stale));
    assert_eq!(records_of(&[log]), [b"the only record"]);
}

#[test]
fn a_segment_in_the_wrong_place_is_not_the_log() {
    let (mut file, _) = small_log();
    let second = *segment(&mut file, 2);
    *segment(&mut file, 1) = second;
    let log = LogFile::read(file).unwrap();
    assert_eq!((log.end(), log.tail()), (1, Tail::Broken));
}

#[test]
fn headers_survive_and_their_damage_has_a_name() {
    let good = header(7);
    assert_eq!(LogHeader::parse(&good.encode()), Ok(good));
    assert!(good.follows(&header(6)) && !good.follows(&header(5)) && !good.follows(&header(7)));
    let other = LogHeader { signature: Signature::new(1, time()), ..header(6) };
    assert!(!good.follows(&other));
    let damaged = |at: usize, restamp: bool| {
        let mut bytes = good.encode();
        bytes[at] ^= 4;
        if restamp {
            checksum::stamp_header(&mut bytes);
        }
        LogHeader::parse(&bytes).unwrap_err()
    };
    assert_eq!(damaged(100, false), LogHeaderDamage::Checksum);
    assert_eq!(damaged(667, true), LogHeaderDamage::FileType { found: 7 });
    assert!(matches!(damaged(8, true), LogHeaderDamage::Geometry { segment_bytes: 4100, .. }));
    let beyond = LogHeader { generation: GENERATION_MAX + 1, ..good };
    assert_eq!(LogHeader::parse(&beyond.encode()), Err(LogHeaderDamage::Generation { found: 0x8000_0000 }));
    assert_eq!(damaged(36, true), LogHeaderDamage::Format { found: [8, 4004, 5] });
    assert_eq!(damaged(SEGMENT_BYTES - 4, true), LogHeaderDamage::Records { found: 5 });
    assert!(matches!(LogFile::read(good.encode().to_vec()), Err(LogDamage::Short { .. })));
}

#[test]
fn names_are_those_of_the_genuine_engine() {
    let names = LogNames::new("E00");
    assert_eq!([names.current(), names.next(), names.checkpoint()], ["E00.log", "E00tmp.log", "E00.chk"]);
    assert_eq!(names.closed(0xABC), "E0000000ABC.log");
    assert_eq!(names.reserve(2), "E00res00002.jrs");
    assert_eq!(names.generation_of("E0000000ABC.log"), Some(0xABC));
    assert_eq!(names.generation_of("E0000ABC.log"), Some(0xABC));
    for other in ["E00.log", "E00tmp.log", "E00+0000ABC.log", "E0100000ABC.log", "E00.chk", "E00res00001.jrs"]
    {
        assert_eq!(names.generation_of(other), None, "{other}");
    }
}

/// Log of `segments` segments with one record each. `writes`: number of the first segment of each write.
fn log_of_writes(segments: u16, writes: &[u16]) -> Vec<u8> {
    let mut builder = LogBuilder::new(1, 1, segments, RecordChain::default());
    let mut file = vec![0; usize::from(segments) * SEGMENT_BYTES];
    file[..SEGMENT_BYTES].copy_from_slice(&LogHeader { segments, ..header(1) }.encode());
    let end = *writes.last().expect("the end of the last write");
    for number in 1..end {
        builder.append(&[7; 3500], time());
        builder.seal();
        let mut full = builder.take_full().remove(0);
        full.stamp(*writes.iter().rfind(|first| **first <= number).expect("a write"));
        *segment(&mut file, number.into()) = *full.bytes;
    }
    file
}

fn lost(file: &[u8]) -> Option<(u16, u16, u16)> {
    let log = LogFile::read(file.to_vec()).unwrap();
    log.lost().map(|LostSegment { segment, proof, good }| (segment, proof, good))
}

fn rest(file: &[u8]) -> (u16, u16) {
    let rest = LogFile::read(file.to_vec()).unwrap().rest();
    (rest.segments, rest.unexplained)
}

#[test]
fn a_good_segment_of_a_later_write_proves_that_a_damaged_one_was_durable() {
    let file = log_of_writes(12, &[1, 3, 4, 7, 9]);
    assert_eq!((lost(&file), rest(&file)), (None, (0, 0)));
    for (damaged, proof) in [(1, 3), (2, 3), (3, 4), (4, 7), (5, 7), (6, 7)] {
        let mut file = file.clone();
        segment(&mut file, damaged).fill(0);
        let good = 8 - damaged as u16;
        assert_eq!(lost(&file), Some((damaged as u16, proof, good)), "segment {damaged}");
    }
}

#[test]
fn the_last_write_may_be_torn_in_any_of_its_segments() {
    let file = log_of_writes(12, &[1, 4, 9]);
    for torn in 1u32..1 << 5 {
        let mut file = file.clone();
        for number in (4..9).filter(|number| torn >> (number - 4) & 1 == 1) {
            segment(&mut file, number)[1024..].fill(0);
        }
        assert_eq!(lost(&file), None, "{torn:b}");
        let behind = 5 - torn.trailing_zeros() as u16;
        assert_eq!(rest(&file), (behind, 0), "{torn:b}");
    }
}

#[test]
fn only_a_distant_segment_proves_damage_in_a_log_that_names_no_writes() {
    let mut old = log_of_writes(200, &[1, 198]);
    for number in 1..198 {
        put_u16(segment(&mut old, number), AT_WRITE, 0);
        checksum::stamp(segment(&mut old, number), number as u32);
    }
    for damaged in [1usize, 40, 69, 70, 100, 197] {
        let mut file = old.clone();
        segment(&mut file, damaged).fill(0);
        let expected =
            (damaged + 128 < 198).then(|| (damaged as u16, damaged as u16 + 128, 197 - damaged as u16));
        assert_eq!(lost(&file), expected, "segment {damaged}");
        if expected.is_none() {
            assert_eq!(rest(&file), (197 - damaged as u16, 0), "segment {damaged}");
        }
    }
}

#[test]
fn bytes_that_no_write_can_have_put_there_are_not_explained() {
    let mut file = log_of_writes(200, &[1, 4, 9]);
    segment(&mut file, 5)[1024..].fill(0);
    segment(&mut file, 131)[7] = 1;
    assert_eq!((lost(&file), rest(&file)), (None, (5, 0)));
    segment(&mut file, 132)[7] = 1;
    assert_eq!((lost(&file), rest(&file)), (None, (6, 1)));
}

#[test]
fn the_mark_of_a_copy_counts_in_the_place_of_the_writes_of_the_active_copy() {
    let file = log_of_writes(12, &[1, 3, 4, 7, 9]);
    for stretch in 1..=9u16 {
        let mut file = file.clone();
        *segment(&mut file, 11) = mark(1, 12, stretch..9);
        assert_eq!(lost(&file), None, "stretch from {stretch}");
        for damaged in 1..9 {
            let mut file = file.clone();
            segment(&mut file, damaged).fill(0);
            let found = lost(&file).map(|(segment, proof, _)| (segment, proof));
            let expected = (stretch > damaged as u16).then_some((damaged as u16, 11));
            assert_eq!(found, expected, "stretch from {stretch}, segment {damaged}");
        }
        // The next stretch has begun, and its mark is lost.
        *segment(&mut file, 11) = mark(1, 12, stretch.min(8)..8);
        for damaged in 1..9 {
            let mut file = file.clone();
            segment(&mut file, damaged).fill(0);
            let found = lost(&file).map(|(segment, ..)| segment);
            assert_eq!(
                found,
                (damaged < 8).then_some(damaged as u16),
                "stretch from {stretch}, segment {damaged}"
            );
        }
        segment(&mut file, 11)[3000] = 1;
        segment(&mut file, 11)[3001] = 1;
        segment(&mut file, 2).fill(0);
        assert_eq!(lost(&file), None, "a mark that cannot be read");
    }
}
