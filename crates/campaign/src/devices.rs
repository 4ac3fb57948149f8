//! The block devices below the volumes of a host, as its kernel counts them, from one moment to another.
//!
//! Limits: real hosts only, and only file systems that lie on one block device. The counts are those of everything that
//! uses a device, not of the load alone, and the kernel counts times in milliseconds.

use std::collections::BTreeMap;

use results::StoragePart;
use solution::Deployment;
use world::{DeviceUsage, Time, World};

/// Counters of each block device at one moment.
pub(crate) struct Devices {
    at: Time,
    by_name: BTreeMap<String, DeviceUsage>,
}

impl Devices {
    /// Reads the counters of the devices.
    pub async fn look(world: &World, deployment: &Deployment) -> Devices {
        let mut by_name = BTreeMap::new();
        for volume in &deployment.volumes {
            // What is wrong with a volume that gives no answer, its I/O will say.
            if let Ok(Some(device)) = world.device_usage(&volume.dir).await {
                by_name.insert(format!("{}: {}", world.name(), device.name), device);
            }
        }
        Devices { at: world.now(), by_name }
    }

    /// Activity of each device since `before`.
    pub fn since(&self, before: &Devices, test: u32) -> Vec<StoragePart> {
        let seconds = self.at.since(before.at).as_secs_f64();
        let both = self.by_name.iter().filter_map(|(name, now)| Some((name, now, before.by_name.get(name)?)));
        both.filter(|_| seconds > 0.0)
            .map(|(name, now, before)| row(test, name, seconds, now, before))
            .collect()
    }
}

fn row(test: u32, name: &str, seconds: f64, now: &DeviceUsage, before: &DeviceUsage) -> StoragePart {
    let more = |of: fn(&DeviceUsage) -> u64| of(now).saturating_sub(of(before));
    let (reads, writes) = (more(|device| device.reads), more(|device| device.writes));
    let each_ms = |ms: u64, count: u64| (count > 0).then(|| ms as f64 / count as f64);
    StoragePart {
        test,
        kind: "device".to_owned(),
        name: name.to_owned(),
        seconds,
        busy_share: (more(|device| device.busy_ms) as f64 / 1e3 / seconds).min(1.0),
        queue_mean: Some(more(|device| device.waited_ms) as f64 / 1e3 / seconds),
        reads,
        writes,
        read_bytes: more(|device| device.read_bytes),
        write_bytes: more(|device| device.write_bytes),
        read_latency_ms: each_ms(more(|device| device.read_ms), reads),
        write_latency_ms: each_ms(more(|device| device.write_ms), writes),
        ..StoragePart::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64, usage: DeviceUsage) -> Devices {
        let at = Time { ns: ms * 1_000_000 };
        Devices { at, by_name: BTreeMap::from([(format!("h: {}", usage.name), usage)]) }
    }

    #[test]
    fn a_device_did_what_its_counts_grew_by() {
        let before = DeviceUsage { name: "sda".into(), reads: 100, read_ms: 900, ..DeviceUsage::default() };
        let after =
            DeviceUsage { reads: 300, read_ms: 1_700, busy_ms: 1_000, waited_ms: 6_000, ..before.clone() };
        let rows = at(5_000, after).since(&at(1_000, before.clone()), 3);
        assert_eq!(rows.len(), 1);
        let row = &rows[0];
        assert_eq!((row.test, row.kind.as_str(), row.name.as_str()), (3, "device", "h: sda"));
        assert_eq!((row.seconds, row.reads, row.writes), (4.0, 200, 0));
        assert_eq!((row.read_latency_ms, row.write_latency_ms), (Some(4.0), None));
        assert_eq!((row.busy_share, row.queue_mean), (0.25, Some(1.5)));
        let another = DeviceUsage { name: "sdb".into(), ..before };
        assert!(
            at(9_000, another).since(&at(1_000, DeviceUsage::default()), 3).is_empty(),
            "it was not there before"
        );
    }
}
