//! The files of a simulated host after a power cut, to be put onto a new host again and again.

use smallvec::smallvec;
use world::sim::{Faults, SimConfig, Simulation};
use world::{OpenMode, PageBuf, World};

const VOLUMES: [&str; 2] = ["/db", "/log"];

/// Path and contents of every file.
#[derive(Clone)]
pub struct Snapshot(Vec<(String, Vec<u8>)>);

impl Snapshot {
    /// No files.
    pub fn nothing() -> Snapshot {
        Snapshot(Vec::new())
    }

    /// Cuts the power of the host, and copies the contents of its disks.
    pub fn take(sim: &Simulation) -> Snapshot {
        let world = sim.restart("h");
        sim.set_faults(Faults::default());
        sim.run_until(async {
            let mut files = Vec::new();
            for volume in VOLUMES {
                for entry in world.list(volume).await.unwrap() {
                    let path = format!("{volume}/{}", entry.name);
                    if entry.bytes == 0 {
                        files.push((path, Vec::new()));
                        continue;
                    }
                    let file = world.open(&path, OpenMode::Read).await.unwrap();
                    let (read, bufs) = file.read_at(0, smallvec![PageBuf::empty(entry.bytes as usize)]).await;
                    read.unwrap();
                    files.push((path, bufs[0].as_slice().to_vec()));
                }
            }
            Snapshot(files)
        })
    }

    /// Creates a simulation whose host has these files, durably.
    pub fn restore(&self) -> (Simulation, World) {
        self.restore_with(SimConfig::default())
    }

    /// As [`Self::restore`], with this configuration of the simulation.
    pub fn restore_with(&self, config: SimConfig) -> (Simulation, World) {
        let sim = Simulation::new(1, config);
        let world = sim.host("h");
        VOLUMES.iter().for_each(|volume| sim.volume("h", volume, 1 << 40));
        sim.run_until(async {
            for (path, bytes) in &self.0 {
                let file = world.open(path, OpenMode::CreateNew).await.unwrap();
                if !bytes.is_empty() {
                    file.write_at(0, smallvec![PageBuf::copy_of(bytes)]).await.0.unwrap();
                }
                file.sync().await.unwrap();
            }
            for volume in VOLUMES {
                world.sync_dir(volume).await.unwrap();
            }
        });
        (sim, world)
    }

    /// Flips a bit.
    pub fn damage(&mut self, path: &str, offset: usize) {
        self.change(path, |bytes| bytes[offset] ^= 1);
    }

    /// Changes the bytes of a file.
    pub fn change(&mut self, path: &str, change: impl FnOnce(&mut Vec<u8>)) {
        let (_, bytes) = self.0.iter_mut().find(|(found, _)| found == path).expect("the file is there");
        change(bytes);
    }

    /// A file that is lost.
    pub fn remove(&mut self, path: &str) {
        self.0.retain(|(found, _)| found != path);
    }

    /// The path and the bytes of every file.
    pub fn files(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.0.iter().map(|(path, bytes)| (path.as_str(), bytes.as_slice()))
    }

    /// Keeps the files for which `keeps` returns a name, under that name.
    pub fn renamed(self, keeps: impl Fn(&str) -> Option<String>) -> Snapshot {
        Snapshot(self.0.into_iter().filter_map(|(path, bytes)| Some((keeps(&path)?, bytes))).collect())
    }

    /// Gives the newest log its archive name, as a power cut between the two renames of a roll leaves it.
    pub fn take_roll_back(&mut self, directory: &str) {
        let current = format!("{directory}/E00.log");
        let (path, bytes) =
            self.0.iter_mut().find(|(path, _)| *path == current).expect("there is a current log");
        let generation = u32::from_le_bytes(bytes[4..8].try_into().expect("four bytes"));
        *path = format!("{directory}/E00{generation:08X}.log");
    }
}
