//! I/O by volume: what the databases and logs on it did.
//!
//! Limits: a file belongs to the volume with the longest folder above it, by name; links are not followed.
//! Copies written by a backup count where the backup says it wrote them; reading them for verification counts
//! there, too. I/O on MetaCaches counts on no volume.

use results::{Direction, IoClass, Measure, Origin, Volume};

use super::model::VolumeIo;
use super::window::{Scope, TestView};
use crate::run_data::RunData;

/// The volume that a file or folder is on, by its path.
fn volume_of<'a>(data: &'a RunData, host: &str, path: &str) -> Option<&'a Volume> {
    let below = |volume: &&Volume| {
        let dir = volume.path.trim_end_matches('/');
        let rest = path.strip_prefix(dir);
        volume.host == host && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    data.volumes.iter().filter(below).max_by_key(|volume| volume.path.len())
}

/// Databases with their files, and instances with their log folders.
fn files(data: &RunData) -> Vec<(Origin, &str)> {
    let databases = data.databases.iter().map(|database| (database.origin.clone(), database.path.as_str()));
    let logs = data
        .instances
        .iter()
        .map(|instance| (Origin::instance(&instance.host, &instance.name), instance.log_path.as_str()));
    databases.chain(logs).collect()
}

pub fn rows(view: &TestView<'_>) -> Vec<VolumeIo> {
    let data = view.data;
    if view.test.kind == "restore" {
        return Vec::new();
    }
    let files = files(data);
    let is_elsewhere = |class: IoClass| matches!(class, IoClass::MetaCacheRead | IoClass::MetaCacheWrite);
    let is_copy = |class: IoClass| matches!(class, IoClass::BackupWrite | IoClass::VerifyRead);
    let of_class = |direction: Direction, copies: bool| -> Vec<Measure> {
        IoClass::ALL
            .into_iter()
            .filter(|class| {
                class.direction() == direction && is_copy(*class) == copies && !is_elsewhere(*class)
            })
            .map(Measure::Io)
            .collect()
    };
    let copy_of = |origin: &Origin| {
        let mut backups = data.backups.iter().filter(|backup| backup.test == view.test.ordinal);
        backups.find(|backup| backup.origin == *origin).and_then(|backup| backup.destination.as_deref())
    };
    let mut rows = Vec::new();
    for volume in &data.volumes {
        let is_here = |host: &str, path: &str| {
            volume_of(data, host, path).is_some_and(|found| std::ptr::eq(found, volume))
        };
        let here: Vec<Origin> =
            files.iter().filter(|(o, path)| is_here(&o.host, path)).map(|(o, _)| o.clone()).collect();
        // What a backup writes, and reads again to verify it, is where the copy is.
        let copies_here: Vec<Origin> = files
            .iter()
            .filter(|(o, path)| is_here(&o.host, copy_of(o).unwrap_or(path)))
            .map(|(o, _)| o.clone())
            .collect();
        let figures = |direction| {
            view.figures_of_parts(&[
                (Scope::Origins(&here), &of_class(direction, false)),
                (Scope::Origins(&copies_here), &of_class(direction, true)),
            ])
        };
        let (reads, writes) = (figures(Direction::Read), figures(Direction::Write));
        if reads.is_some() || writes.is_some() {
            let databases = here.iter().filter(|origin| origin.database.is_some()).count() as u32;
            rows.push(VolumeIo {
                host: volume.host.clone(),
                volume: volume.name.clone(),
                path: volume.path.clone(),
                databases,
                logs: here.len() as u32 - databases,
                reads,
                writes,
            });
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use results::{Run, WorldKind};

    use super::*;

    #[test]
    fn a_file_is_on_the_volume_with_the_longest_folder_above_it() {
        let mut data = RunData::new(Run {
            id: String::new(),
            solution: String::new(),
            solution_text: String::new(),
            started_unix_ms: 0,
            tool_version: String::new(),
            world: WorldKind::Real,
            world_detail: String::new(),
            seed: 0,
            ended_ms: None,
            ending: None,
        });
        for (name, path) in [("all", "/srv"), ("a", "/srv/a"), ("here", "./x/")] {
            data.volumes.push(Volume { host: "h".into(), name: name.into(), path: path.into() });
        }
        let name = |path| volume_of(&data, "h", path).map(|volume| volume.name.as_str());
        assert_eq!(name("/srv/a/DB1/DB1.edb"), Some("a"));
        assert_eq!(name("/srv/ab/DB1.edb"), Some("all"), "a is not above ab");
        assert_eq!((name("./x/DB1"), name("/elsewhere")), (Some("here"), None));
        assert!(volume_of(&data, "other", "/srv/a").is_none());
    }
}
