//! What a controller says of the one whose run it takes up.

use evidence::report::utc_stamp;

use super::Controller;
use crate::files::read_json;

impl Controller {
    /// Reports how the previous controller of the run ended and what it had collected; nothing for the first
    /// controller.
    pub fn takes_up(&self) -> Option<String> {
        let memory = self.memory();
        let epoch = memory.epoch.checked_sub(1).filter(|epoch| *epoch > 0)?;
        let end = match read_json::<u64>(&self.alive_path(epoch)) {
            Ok(None) => format!("controller {epoch} ended in good order"),
            Ok(Some(last_ms)) => {
                format!("controller {epoch} died, its last sign of life is of {} UTC", utc_stamp(last_ms))
            }
            Err(_) => format!("controller {epoch} died, it is not known when"),
        };
        let named = |kept: bool| {
            let with = memory.fates.iter().filter(|(_, fate)| fate.is_kept() == kept);
            let hosts: Vec<&str> = with.map(|(host, _)| host.as_str()).collect();
            if hosts.is_empty() { "no host".to_owned() } else { hosts.join(", ") }
        };
        Some(format!(
            "controller {} takes up the run; {end}. Evidence collected before: {}; still to come: {}",
            memory.epoch,
            named(true),
            named(false)
        ))
    }
}
