//! The models against published behaviour and against physics. Times are virtual: nothing here depends on the machine.

mod clones;
mod cold_data;
mod conservation;
mod deduplication;
mod disks;
mod faults;
mod groups;
mod links;
#[allow(dead_code, reason = "a toolbox; not every test uses every tool")]
mod load;
mod parts;
mod read_cache;
mod remote_copy;
mod simulation;
mod stores;
mod strips;
mod thin;
mod tiering;
