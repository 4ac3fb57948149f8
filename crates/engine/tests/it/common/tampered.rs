//! Log files that were removed, or whose headers were changed, while they were closed.

use edb::log::SEGMENT_BYTES;

use super::stage::{Ground, Grounds};

/// Bytes of a log header that may have any value, because no reader uses them. All other bytes are checked.
const MEANINGLESS: [std::ops::Range<usize>; 3] = [72..639, 640..667, 671..4092];
const FLAGS: usize = 639;
const RECORD_FORMAT: usize = 4092;

/// Paths of the ground's log files: closed logs from the oldest, the current log, the checkpoint.
fn log_files(grounds: &Grounds) -> Vec<String> {
    let all = grounds.files(Ground::Crashed).files().map(|(path, _)| path);
    let of_stream =
        all.filter(|path| path.starts_with("/log/") && !path.contains("tmp") && !path.ends_with(".jrs"));
    let mut paths: Vec<String> = of_stream.map(str::to_owned).collect();
    // Digits come before the dot of the current one's name.
    paths.sort_by_key(|path| (path.ends_with(".chk"), path.as_str() == "/log/E00.log", path.clone()));
    paths
}

/// Opens the ground without each subset of its log files. The opening must be refused with the name of a file, or
/// lose nothing. Returns the number of subsets, the number of refusals, and the failures.
pub fn remove_each_subset(grounds: &Grounds) -> (u32, u32, Vec<String>) {
    let paths = log_files(grounds);
    let (mut refused, mut failed) = (0, Vec::new());
    for subset in 1..1 << paths.len() {
        let mut files = grounds.files(Ground::Crashed).clone();
        let removed: Vec<&String> =
            paths.iter().enumerate().filter(|(n, _)| subset >> n & 1 == 1).map(|(_, path)| path).collect();
        removed.iter().for_each(|path| files.remove(path));
        // After a crash no header says how far the newest log reached (docs/faults.md).
        let newest_alone = removed.iter().all(|path| path.ends_with("/E00.log") || path.ends_with(".chk"));
        match open(grounds, &files, newest_alone) {
            Ok(true) => refused += 1,
            Ok(false) => {}
            Err(error) => failed.push(format!("without {removed:?}: {error}")),
        }
    }
    ((1 << paths.len()) - 1, refused, failed)
}

/// Opens the ground with each byte of each log header changed under a valid checksum; the opening must be refused by
/// name. Returns the number of bytes, and the failures.
pub fn change_each_header_byte(grounds: &Grounds) -> (u32, Vec<String>) {
    let paths: Vec<String> = log_files(grounds).into_iter().filter(|path| path.ends_with(".log")).collect();
    let (mut changed, mut failed) = (0, Vec::new());
    for (place, path) in paths.iter().enumerate() {
        // The oldest follows none of these, and none follows the newest.
        let unlinked = if place == 0 { 24..32 } else { 0..0 };
        let unfollowed = if place + 1 == paths.len() { 16..24 } else { 0..0 };
        for at in 4..SEGMENT_BYTES {
            let is_free = at == FLAGS
                || MEANINGLESS.iter().chain([&unlinked, &unfollowed]).any(|range| range.contains(&at));
            if is_free {
                continue;
            }
            changed += 1;
            let mut files = grounds.files(Ground::Crashed).clone();
            files.change(path, |bytes| {
                // The record format before this one is read, too.
                bytes[at] ^= if at == RECORD_FORMAT { 2 } else { 1 };
                edb::checksum::stamp_header(&mut bytes[..SEGMENT_BYTES]);
            });
            match open(grounds, &files, false) {
                Ok(true) => {}
                Ok(false) => failed
                    .push(format!("byte {at} of the header of {path} was changed, and nobody has noticed")),
                Err(error) => failed.push(format!("byte {at} of the header of {path}: {error}")),
            }
        }
    }
    (changed, failed)
}

/// Returns whether the opening is refused. If it is not, checks that every row exists, unless the newest log
/// `may_be_missed`.
fn open(grounds: &Grounds, files: &super::snapshot::Snapshot, may_be_missed: bool) -> Result<bool, String> {
    let (sim, mut stage) = grounds.stage_over_files(files, Ground::Crashed);
    let refused = sim.run_until(stage.open());
    match refused {
        Err(error) => {
            let text = error.to_string();
            let is_named = text.contains("/log") || text.contains("/db");
            if is_named { Ok(true) } else { Err(format!("the error does not name the file: {text}")) }
        }
        Ok(()) if may_be_missed => Ok(false),
        Ok(()) => sim.run_until(stage.judge_rows()).map(|()| false),
    }
}
