//! The models against published behaviour and against physics. Times are virtual: nothing here depends on the machine.

mod disks;
mod groups;
#[allow(dead_code, reason = "a toolbox; not every test uses every tool")]
mod load;
mod parts;
