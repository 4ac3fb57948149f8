//! Headers, their damage and their shadows.

use super::*;

fn new(page_bytes: usize) -> DatabaseHeader {
    let now = LogTime::from_unix_ms(1_700_000_000_000);
    DatabaseHeader::new(page_bytes, Signature::new(77, now), now)
}

fn file(header: &mut DatabaseHeader) -> Vec<u8> {
    let page = header.stamped();
    [page, page, &[0; 4096]].concat()
}

#[test]
fn attach_makes_dirty_and_detach_leaves_no_trace_of_logs_needed() {
    let mut header = new(32768);
    assert_eq!((header.state(), header.format()), (DatabaseState::Clean, (1568, 20)));
    let (log, time) = (Signature::new(5, LogTime::from_unix_ms(9)), LogTime::from_unix_ms(1_700_000_001_000));
    header.attach(2, log, LogPosition::new(7, 3, 40), time);
    let (read, copy) = DatabaseHeader::read(&file(&mut header)).unwrap();
    assert_eq!((read.state(), copy), (DatabaseState::Dirty, HeaderCopy::Header));
    assert_eq!((read.generations(), read.log_signature(), read.dbid()), ((7, 7, 7), log, 2));
    header.bytes[680] = 7;
    header.detach(LogPosition::new(8, 1, 40), time);
    let read = DatabaseHeader::parse(header.stamped()).unwrap();
    assert_eq!((read.state(), read.generations()), (DatabaseState::Clean, (0, 0, 0)));
    assert_eq!(LogPosition::get(&read.bytes, at::CONSISTENT), read.detach_position());
    assert!(header.stamped()[668..].iter().all(|&byte| byte == 0));
    assert_eq!(get_u32(header.stamped(), at::FILE_TYPE), 1);
}

#[test]
fn another_format_version_is_refused_by_name_whatever_the_shadow_says() {
    let mut header = new(4096);
    let good = file(&mut header);
    put_u32(&mut header.bytes, at::VERSION, 0x630);
    let mut bytes = file(&mut header);
    bytes[4096..8192].copy_from_slice(&good[4096..8192]);
    let refused = DatabaseHeader::read(&bytes).unwrap_err();
    assert_eq!(refused, HeaderDamage::Format { version: 0x630, update: 20 });
    let text = refused.to_string();
    assert!(text.contains("format version 0x630") && text.contains("reads version 0x620"), "{text}");
}

#[test]
fn the_shadow_stands_in_for_a_damaged_header_of_any_page_size() {
    for page_bytes in [4096, 8192, 16384, 32768] {
        let mut header = new(page_bytes);
        let mut bytes = file(&mut header);
        bytes[300] ^= 4;
        let (read, copy) = DatabaseHeader::read(&bytes).unwrap();
        assert_eq!(read, header);
        assert!(matches!(copy, HeaderCopy::Shadow { header: HeaderDamage::Checksum { .. } }));
        bytes[..page_bytes].fill(0);
        let (read, copy) = DatabaseHeader::read(&bytes).unwrap();
        assert_eq!(read, header);
        assert_eq!(copy, HeaderCopy::Shadow { header: HeaderDamage::Magic { found: 0 } });
        bytes[page_bytes + 300] ^= 4;
        assert_eq!(DatabaseHeader::read(&bytes), Err(HeaderDamage::Magic { found: 0 }));
    }
}

#[test]
fn each_kind_of_damage_has_its_name() {
    let damaged = |at: usize, value: u32, restamp: bool| {
        let mut bytes = new(8192).stamped().to_vec();
        put_u32(&mut bytes, at, value);
        if restamp {
            checksum::stamp_header(&mut bytes);
        }
        DatabaseHeader::parse(&bytes).unwrap_err()
    };
    assert_eq!(damaged(at::PAGE_BYTES, 5000, true), HeaderDamage::PageSize { found: 5000 });
    assert_eq!(damaged(at::PAGE_BYTES, 32768, true), HeaderDamage::Short);
    assert_eq!(damaged(at::FILE_TYPE, 3, true), HeaderDamage::FileType { found: 3 });
    assert_eq!(damaged(at::STATE, 9, true), HeaderDamage::State { found: 9 });
    assert!(matches!(damaged(at::DBTIME, 9, false), HeaderDamage::Checksum { .. }));
    assert_eq!(DatabaseHeader::parse(&[1; 100]), Err(HeaderDamage::Short));
}

/// Shadow with `value` at offset `at`, and a checksum over as many bytes as it gives for a page.
fn shadow_with(header: &mut DatabaseHeader, at: usize, value: u32) -> Vec<u8> {
    let mut shadow = header.stamped().to_vec();
    put_u32(&mut shadow, at, value);
    let covered = match get_u32(&shadow, at::PAGE_BYTES) as usize {
        bytes if is_page_size(bytes) => bytes.min(shadow.len()),
        0 => 4096,
        _ => shadow.len(),
    };
    checksum::stamp_header(&mut shadow[..covered]);
    shadow
}

#[test]
fn a_shadow_that_contradicts_its_header_is_found_and_an_older_one_is_none() {
    let mut header = new(32768);
    let contradiction = |header: &mut DatabaseHeader, at: usize, value: u32| {
        let shadow = shadow_with(header, at, value);
        match header.check_shadow(&shadow) {
            Err(ShadowDamage::Contradicts(what)) => what,
            other => panic!("{at}: {other:?}"),
        }
    };
    for page_bytes in [0, 4096, 8192, 16384, 5000] {
        assert_eq!(contradiction(&mut header, at::PAGE_BYTES, page_bytes), "page size");
    }
    for (field, bytes) in LASTING {
        for at in bytes.step_by(4) {
            let other = !get_u32(&header.bytes, at);
            assert_eq!(contradiction(&mut header, at, other), field, "{at}");
        }
    }
    for at in [at::DETACH, at::UPDATE, at::LAST_OBJID, 700] {
        let closed = "both say that the database was closed, and they differ";
        assert_eq!(contradiction(&mut header, at, 77), closed, "{at}");
    }
    let newer = "its modification counter is the higher one";
    assert_eq!(contradiction(&mut header, at::DBTIME, 1000), newer);
    let mut damaged = header.stamped().to_vec();
    damaged[300] ^= 1;
    assert_eq!(header.check_shadow(&damaged), Err(ShadowDamage::Damaged));
    // A power cut between the two: the shadow is the one of the header before.
    let closed = header.stamped().to_vec();
    let log = Signature::new(5, LogTime::from_unix_ms(9));
    header.attach(1, log, LogPosition::new(7, 3, 40), LogTime::from_unix_ms(1_700_000_001_000));
    header.set_dbtime(100);
    assert_eq!(header.check_shadow(&closed), Ok(()));
    let open = header.stamped().to_vec();
    header.detach(LogPosition::new(8, 1, 40), LogTime::from_unix_ms(1_700_000_002_000));
    assert_eq!((header.check_shadow(&open), header.check_shadow(&header.bytes)), (Ok(()), Ok(())));
}

#[test]
fn other_files_of_ese_are_known_by_name() {
    let typed = |file_type: u32| {
        let mut bytes = vec![0; SECTOR_BYTES];
        put_u32(&mut bytes, at::FILE_TYPE, file_type);
        checksum::stamp_header(&mut bytes);
        bytes
    };
    assert_eq!(OtherFile::of(&typed(3)), Some(OtherFile::Log));
    assert_eq!(OtherFile::of(&typed(4)), Some(OtherFile::Checkpoint));
    assert_eq!(OtherFile::of(&typed(7)), Some(OtherFile::FlushMap));
    assert_eq!([OtherFile::of(&typed(9)), OtherFile::of(&[3; 100])], [None, None]);
    let mut damaged = typed(4);
    damaged[12] ^= 1;
    assert_eq!(OtherFile::of(&damaged), None);
    let mut header = new(8192);
    assert_eq!(OtherFile::of(header.stamped()), None);
    put_u32(&mut header.bytes, at::STATE, DatabaseState::JustCreated as u32);
    assert_eq!(OtherFile::of(header.stamped()), None, "with a checksum it is a database");
    put_u32(&mut header.bytes, 0, 0);
    assert_eq!(OtherFile::of(&header.bytes), Some(OtherFile::TemporaryDatabase));
}

proptest::proptest! {
    #[test]
    fn no_bytes_make_the_parser_panic(
        patch in proptest::collection::vec((0usize..1000, proptest::prelude::any::<u8>()), 0..40), cut in 0usize..40_000,
    ) {
        let mut bytes = file(&mut new(16384));
        patch.into_iter().for_each(|(at, byte)| bytes[at] = byte);
        let _ = DatabaseHeader::read(&bytes[..cut.min(bytes.len())]);
        checksum::stamp_header(&mut bytes[..16384]);
        if let Ok((mut header, _)) = DatabaseHeader::read(&bytes) {
            let _ = (header.state(), header.generations(), header.signature().created().parts());
            header.stamped();
        }
    }
}
