//! The geometry and the arm of a rotating disk: where a byte is, and how long the head needs to get there.
//!
//! * Seek curve with three parameters and a breakpoint at a third of the stroke: track + a sqrt(d) below, linear above
//!   (shape: Ruemmler and Wilkes, "An introduction to disk drive modeling", 1994). `a` is solved so that the mean over
//!   two random tracks (density 2(1-d)) is the average seek of the data sheet.
//! * Rotation by exact angle: an angle is a fraction of a turn in 32 bits, so arithmetic wraps as the platter does.
//! * Zones of equal width whose rate falls linearly from outer to inner. The rate is the sustained one, so head
//!   and track switches are in it: a zone is one spiral.
//!
//! Left out: serpentine order of heads, spare sectors, thermal recalibration, drift of the spindle speed.

use std::hint::select_unpredictable;

use crate::hardware::RotatingDisk;

const ZONES: usize = 40;
const BUCKETS: usize = 4096;

#[derive(Clone, Copy)]
struct Zone {
    first_byte: u64,
    /// End of the zone; the last zone has none.
    end_byte: u64,
    bytes_per_turn: u64,
    turns_per_byte: f64,
    /// Time per byte, in 2^-20 ns.
    transfer_per_byte: u64,
    /// Radius at the first byte, as a share of the stroke.
    radius: f64,
    /// Change of the radius per byte, as a share of the stroke.
    radius_per_byte: f64,
    /// Angle of the first byte.
    phase: u32,
}

/// Position of the head at which an access can start.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spot {
    /// Radius as a share of the stroke, 0 = outermost.
    pub radius: f64,
    /// Angle in 2^-32 of a turn.
    pub angle: u32,
    /// Settling time of the head there, ns. Computed once, because the queue compares commands often.
    settle_ns: u32,
    zone: u32,
}

pub(super) struct Mechanics {
    zones: Vec<Zone>,
    /// Zone of the first byte of each of `BUCKETS` equal parts of the disk.
    zone_of_bucket: [u8; BUCKETS],
    /// Logarithm (base 2) of the bytes per bucket.
    bucket_shift: u32,
    pub turn_ns: u64,
    angles_per_ns: f64,
    /// Rotation speed: 2^48 / ns per turn.
    turns_per_ns_2_48: u64,
    track_ns: f64,
    root_ns: f64,
    linear_from_ns: f64,
    linear_ns: f64,
    /// Distance below which two radii are the same track, as a share of the stroke.
    same_track: f64,
    write_settle_ns: u32,
    pub capacity_bytes: u64,
}

const BREAK: f64 = 1.0 / 3.0;

impl Mechanics {
    pub fn new(disk: &RotatingDisk) -> Mechanics {
        let turn_ns = 60_000_000_000 / u64::from(disk.rpm);
        let turn_s = turn_ns as f64 / 1e9;
        // Zones of equal width hold bytes in proportion to their rate.
        let rate = |zone: usize| {
            let middle = (zone as f64 + 0.5) / ZONES as f64;
            (disk.outer_mb_per_s + (disk.inner_mb_per_s - disk.outer_mb_per_s) * middle) * 1e6
        };
        let sum: f64 = (0..ZONES).map(rate).sum();
        let mut zones = Vec::with_capacity(ZONES);
        let mut first_byte = 0;
        for index in 0..ZONES {
            let bytes = (disk.capacity_bytes as f64 * rate(index) / sum) as u64;
            let bytes_per_turn = (rate(index) * turn_s) as u64;
            zones.push(Zone {
                first_byte,
                end_byte: if index == ZONES - 1 { u64::MAX } else { first_byte + bytes },
                bytes_per_turn,
                turns_per_byte: 1.0 / bytes_per_turn as f64,
                transfer_per_byte: (turn_ns << 20) / bytes_per_turn,
                radius: index as f64 / ZONES as f64,
                radius_per_byte: 1.0 / ZONES as f64 / bytes as f64,
                phase: (index as u32).wrapping_mul(0x9E37_79B9),
            });
            first_byte += bytes;
        }
        let mut bucket_shift = 0;
        while disk.capacity_bytes >> bucket_shift >= BUCKETS as u64 {
            bucket_shift += 1;
        }
        let mut zone_of_bucket = [0; BUCKETS];
        for (bucket, zone) in zone_of_bucket.iter_mut().enumerate() {
            let byte = (bucket as u64) << bucket_shift;
            *zone = (zones.partition_point(|zone| zone.first_byte <= byte) - 1) as u8;
        }
        let turns = disk.capacity_bytes as f64 / (sum / ZONES as f64 * turn_s);
        let (track, root, at_break) = seek_curve(disk);
        let linear = (disk.seek_full_ms - at_break) / (1.0 - BREAK);
        Mechanics {
            zones,
            zone_of_bucket,
            bucket_shift,
            turn_ns,
            angles_per_ns: (1u64 << 32) as f64 / turn_ns as f64,
            turns_per_ns_2_48: (1 << 48) / turn_ns,
            track_ns: track * 1e6,
            root_ns: root * 1e6,
            linear_from_ns: (at_break - linear * BREAK) * 1e6,
            linear_ns: linear * 1e6,
            same_track: 1.0 / turns,
            write_settle_ns: (disk.write_settle_ms * 1e6) as u32,
            capacity_bytes: disk.capacity_bytes,
        }
    }

    fn zone(&self, byte: u64) -> usize {
        let bucket = ((byte >> self.bucket_shift) as usize).min(BUCKETS - 1);
        let mut zone = self.zone_of_bucket[bucket] as usize;
        while self.zones[zone].end_byte <= byte {
            zone += 1;
        }
        zone
    }

    pub fn spot(&self, byte: u64, write: bool) -> Spot {
        let index = self.zone(byte);
        let zone = &self.zones[index];
        // By way of `i64`, for which processors have an instruction.
        let into = (byte - zone.first_byte) as i64 as f64;
        let turns = into * zone.turns_per_byte;
        let part_of_turn = turns - f64::from(turns as u32);
        Spot {
            radius: zone.radius + into * zone.radius_per_byte,
            angle: ((part_of_turn * (1u64 << 32) as f64) as u32).wrapping_add(zone.phase),
            settle_ns: if write { self.write_settle_ns } else { 0 },
            zone: index as u32,
        }
    }

    /// Time in which bytes pass under the head, from a position on, ns.
    pub fn transfer_ns(&self, spot: Spot, bytes: u64) -> u64 {
        (bytes * self.zones[spot.zone as usize].transfer_per_byte) >> 20
    }

    /// Bytes that pass under the head in a time, from a byte on; at most `limit`.
    pub fn passed_bytes(&self, byte: u64, ns: u64, limit: u64) -> u64 {
        let bytes_per_turn = self.zones[self.zone(byte)].bytes_per_turn;
        let (turns, rest_ns) = (ns / self.turn_ns, ns % self.turn_ns);
        if turns > limit / bytes_per_turn {
            return limit;
        }
        (turns * bytes_per_turn + rest_ns * bytes_per_turn / self.turn_ns).min(limit)
    }

    /// Angle under the head at a time.
    pub fn angle_at(&self, ns: u64) -> u32 {
        ((ns % self.turn_ns) as i64 as f64 * self.angles_per_ns) as u32
    }

    /// Time for seek, settling and rotation to `spot`, from a radius and the present angle, ns.
    #[inline]
    pub fn reach_ns(&self, radius: f64, angle_now: u32, spot: &Spot) -> u64 {
        // Both halves of the curve are worked out: which one holds is a coin's throw, and a branch would cost more.
        let distance = (spot.radius - radius).abs();
        let root = self.track_ns + self.root_ns * distance.sqrt();
        let line = self.linear_from_ns + self.linear_ns * distance;
        let arm = select_unpredictable(distance <= BREAK, root, line);
        let seek_ns = select_unpredictable(distance < self.same_track, 0.0, arm) as u32;
        let arm_ns = u64::from(seek_ns + spot.settle_ns);
        let turned = ((arm_ns * self.turns_per_ns_2_48) >> 16) as u32;
        let wait = spot.angle.wrapping_sub(angle_now.wrapping_add(turned));
        arm_ns + ((u64::from(wait) * self.turn_ns) >> 32)
    }
}

/// Parameters of the seek curve: track seek, slope over the square root, and seek at the breakpoint, ms.
fn seek_curve(disk: &RotatingDisk) -> (f64, f64, f64) {
    let (average, track, full) = (disk.seek_average_ms, disk.seek_track_ms, disk.seek_full_ms);
    let root_of_break = BREAK.sqrt();
    // Shares of the density 2(1-d): below the breakpoint, above it, of sqrt(d) below it, and of the linear ramp above.
    let below = 2.0 * BREAK - BREAK * BREAK;
    let above = 1.0 - below;
    let roots = 4.0 / 3.0 * BREAK * root_of_break - 4.0 / 5.0 * BREAK * BREAK * root_of_break;
    let ramp = (1.0 - BREAK) * (1.0 - BREAK) / 3.0;
    let root = (average - below * track - (above - ramp) * track - ramp * full)
        / (roots + (above - ramp) * root_of_break);
    (track, root, track + root * root_of_break)
}

/// Refuses a disk with contradictory figures, or with a seek or settling above 100 ms, since both are added in 32 bits
/// of ns.
pub(crate) fn check(disk: &RotatingDisk) -> Result<(), String> {
    let (track, root, at_break) = seek_curve(disk);
    let numbers = [
        disk.outer_mb_per_s,
        disk.inner_mb_per_s,
        disk.seek_average_ms,
        disk.seek_track_ms,
        disk.seek_full_ms,
        disk.write_settle_ms,
        disk.command_ms,
        disk.interface_mb_per_s,
        disk.age_bound_queues,
    ];
    if numbers.iter().any(|number| !number.is_finite() || *number < 0.0) {
        return Err("a rate or time is negative or not a number".into());
    }
    if !(1_000..=30_000).contains(&disk.rpm) {
        return Err(format!("{} revolutions per minute: give 1,000 to 30,000", disk.rpm));
    }
    if disk.inner_mb_per_s <= 0.1 || disk.outer_mb_per_s < disk.inner_mb_per_s {
        return Err("the outer rate must be the higher one, and the inner one above 0.1 MB/s".into());
    }
    if disk.interface_mb_per_s <= 0.0 || disk.capacity_bytes < 1 << 30 || disk.queue_depth == 0 {
        return Err("interface rate, capacity (1 GiB at least) and queue depth must be set".into());
    }
    if root < 0.0 || at_break < track || at_break > disk.seek_full_ms || disk.seek_full_ms > 100.0 {
        return Err(format!(
            "seeks of {track} (track), {} (average), {} ms (full stroke) make no rising curve: check the data sheet",
            disk.seek_average_ms, disk.seek_full_ms
        ));
    }
    if disk.write_settle_ms > 100.0 {
        return Err(format!("a settling time of {} ms: give 0 to 100", disk.write_settle_ms));
    }
    if !disk.physical_sector_bytes.is_power_of_two() || disk.physical_sector_bytes < 512 {
        return Err("physical sectors have 512 or 4096 bytes".into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drive::tests::nearline_4tb;

    #[test]
    fn the_seek_curve_meets_its_three_parameters() {
        let disk = nearline_4tb();
        let mechanics = Mechanics::new(&disk);
        let (_, root, at_break) = seek_curve(&disk);
        assert!((root - 14.73).abs() < 0.01 && (at_break - 9.1).abs() < 0.1, "{root} {at_break}");
        let seek_ms = |distance: f64| {
            let spot = Spot { radius: distance, angle: 0, settle_ns: 0, zone: 0 };
            // The least over all angles: no rotation.
            let best = (0..4096u32).map(|k| mechanics.reach_ns(0.0, k << 20, &spot)).min();
            best.unwrap_or_default() as f64 / 1e6
        };
        assert!((seek_ms(1.0) - 16.5).abs() < 0.01, "{}", seek_ms(1.0));
        assert!((seek_ms(1e-5) - 0.65).abs() < 0.02, "{}", seek_ms(1e-5));
        let steps = 2000;
        let mean: f64 = (0..steps)
            .map(|k| {
                let d = (f64::from(k) + 0.5) / f64::from(steps);
                let arm = if d <= BREAK {
                    mechanics.track_ns + mechanics.root_ns * d.sqrt()
                } else {
                    mechanics.linear_from_ns + mechanics.linear_ns * d
                };
                arm * 2.0 * (1.0 - d) / f64::from(steps) / 1e6
            })
            .sum();
        assert!((mean - 8.5).abs() < 0.01, "{mean}");
    }

    #[test]
    fn a_settling_time_that_the_arithmetic_does_not_hold_is_refused() {
        let disk = |write_settle_ms: f64| RotatingDisk { write_settle_ms, ..nearline_4tb() };
        assert!(check(&disk(100.0)).is_ok());
        assert!(check(&disk(101.0)).is_err_and(|error| error.contains("settling time of 101 ms")));
    }

    #[test]
    fn a_turn_later_the_same_byte_passes_again() {
        let mechanics = Mechanics::new(&nearline_4tb());
        let spot = mechanics.spot(1 << 40, false);
        let now = 123_456_789_012;
        let first = mechanics.reach_ns(spot.radius, mechanics.angle_at(now), &spot);
        let again = mechanics.angle_at(now + first + mechanics.turn_ns);
        let off = again.wrapping_sub(spot.angle) as i32;
        assert!(off.unsigned_abs() < 4096, "{off}");
    }

    #[test]
    fn outer_zones_are_longer_and_faster() {
        let disk = nearline_4tb();
        let mechanics = Mechanics::new(&disk);
        let rate = |byte| {
            (1u64 << 30) as f64 / mechanics.transfer_ns(mechanics.spot(byte, false), 1 << 30) as f64 * 1e3
        };
        assert!((rate(0) - 175.0).abs() < 2.0, "{}", rate(0));
        assert!((rate(disk.capacity_bytes - (1 << 30)) - 83.0).abs() < 2.0);
        // Half of the bytes lie on less than half of the stroke.
        assert!(mechanics.spot(disk.capacity_bytes / 2, false).radius < 0.45);
    }
}
