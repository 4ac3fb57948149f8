//! Any bytes as the start of a database, as a checkpoint, as a catalog of sums: parsers never panic.
#![no_main]

use edb::checkpoint::Checkpoint;
use edb::checksum::stamp_header;
use edb::header::DatabaseHeader;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let mut bytes = vec![0; 2 * 32768];
    let used = data.len().min(bytes.len());
    bytes[..used].copy_from_slice(&data[..used]);
    let _ = DatabaseHeader::read(&bytes[..used]);
    let _ = Checkpoint::read(&bytes);
    // Random bytes never have the right checksum: give it to them.
    for size in [4096, 8192, 16384, 32768] {
        stamp_header(&mut bytes[..size]);
        let _ = Checkpoint::read(&bytes);
        if let Ok((mut header, _)) = DatabaseHeader::read(&bytes) {
            let _ = (header.state(), header.generations(), header.signature().created().parts());
            assert!(DatabaseHeader::parse(header.stamped()).is_ok());
        }
    }
});
