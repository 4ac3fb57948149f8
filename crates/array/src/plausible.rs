//! What a kind of drive can do. A model takes any value; one beyond these bounds describes no drive that there is.

use crate::assumptions::Assumptions;
use crate::hardware::{DriveModel, FlashDrive, RotatingDisk};

/// Value of a drive, with the least and the largest that drives of its kind can have.
type Bound = (&'static str, f64, f64, f64);

/// The fastest disks that were sold turn 15,000 times a minute and seek in 2.9 ms on average (data sheets of 15,000 rpm
/// families); two actuators reach twice the rate of one, some 550 MB/s.
fn of_disk(disk: &RotatingDisk) -> Vec<Bound> {
    vec![
        ("rpm", f64::from(disk.rpm), 3_600.0, 15_000.0),
        ("seek_average_ms", disk.seek_average_ms, 2.0, 30.0),
        ("seek_track_ms", disk.seek_track_ms, 0.1, 5.0),
        ("seek_full_ms", disk.seek_full_ms, 4.0, 60.0),
        ("outer_mb_per_s", disk.outer_mb_per_s, 1.0, 600.0),
        ("inner_mb_per_s", disk.inner_mb_per_s, 1.0, 600.0),
        ("command_ms", disk.command_ms, 0.01, 5.0),
    ]
}

/// The fastest flash drives read 4 KiB in some 10 us (3D XPoint), ordinary ones in 50 to 100 us; PCIe 5.0 x4 moves
/// 16 GB/s, and the fastest data sheets print some 3,300,000 reads per second.
fn of_flash(drive: &FlashDrive) -> Vec<Bound> {
    vec![
        ("read_us", drive.read_us, 8.0, 5_000.0),
        ("write_us", drive.write_us, 4.0, 10_000.0),
        ("read_iops", drive.read_iops, 1_000.0, 4_000_000.0),
        ("write_iops", drive.write_iops, 100.0, 2_000_000.0),
        ("read_mb_per_s", drive.read_mb_per_s, 50.0, 16_000.0),
        ("write_mb_per_s", drive.write_mb_per_s, 20.0, 16_000.0),
    ]
}

impl Assumptions {
    /// Values beyond what the kind of drive can do, a phrase each.
    pub fn doubtful(&self) -> Vec<String> {
        let models = self.names("drive").into_iter().filter_map(|name| Some((self.drive(&name).ok()?, name)));
        let doubts = models.flat_map(|(model, name)| {
            let (kind, bounds) = match &model {
                DriveModel::Rotating(disk) => ("disks", of_disk(disk)),
                DriveModel::Flash(drive) => ("flash drives", of_flash(drive)),
            };
            let beyond =
                bounds.into_iter().filter(|(_, value, least, most)| !(*least..=*most).contains(value));
            let says = move |(key, value, least, most)| {
                format!("drive {name}: {key} is {value}, {kind} have {least} to {most}")
            };
            beyond.map(says).collect::<Vec<_>>()
        });
        doubts.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shipped_drives_can_do_what_they_state_and_an_impossible_one_is_named() {
        assert_eq!(Assumptions::shipped().doubtful(), [""; 0]);
        let source = "source = \"assumption: a drive that no maker builds\"";
        let text = format!(
            "[drive.ST4000NM0023]\nrpm = {{ value = 30000, {source} }}\nseek_average_ms = {{ value = 0.01, {source} }}\n"
        );
        let doubts = Assumptions::shipped().with(&text).expect("whole").doubtful();
        assert_eq!(
            doubts,
            [
                "drive ST4000NM0023: rpm is 30000, disks have 3600 to 15000",
                "drive ST4000NM0023: seek_average_ms is 0.01, disks have 2 to 30",
            ]
        );
    }
}
