//! What is resolved of the users beside the defaults of their keys: what depends on the generation, and whether
//! enough is said.

use crate::error::{Checked, Wrong};
use crate::file::{Generation, Role, SolutionFile, Users};

impl Users {
    /// Whether single item recovery keeps deleted items for the whole time.
    pub fn single_item_recovery(&self) -> bool {
        self.single_item_recovery.unwrap_or(self.exchange >= Generation::E2010)
    }

    /// Whether versions of calendar items are kept.
    pub fn calendar_versions(&self) -> bool {
        self.calendar_versions.unwrap_or(self.exchange >= Generation::E2010)
    }

    /// Growth of the database beyond its mailboxes, in percent.
    pub fn data_overhead_percent(&self) -> f64 {
        let usual = if self.exchange == Generation::E2010 { 20.0 } else { 0.0 };
        self.data_overhead_percent.unwrap_or(usual)
    }

    /// Content index, in percent of the database.
    pub fn content_index_percent(&self) -> f64 {
        self.content_index_percent.unwrap_or(self.usual_index_percent())
    }

    /// Room for one index merge per volume, in percent of one database.
    pub fn index_merge_percent(&self) -> f64 {
        self.index_merge_percent.unwrap_or(self.usual_index_percent())
    }

    /// Default size of content index and index merge, percent: beside the database in 2013 and 2016, inside it from
    /// 2019 on.
    fn usual_index_percent(&self) -> f64 {
        let is_beside = (Generation::E2013..=Generation::E2016).contains(&self.exchange);
        if is_beside { 20.0 } else { 0.0 }
    }

    /// Whether servers carry client access as well.
    pub fn multi_role(&self) -> bool {
        self.multi_role.unwrap_or(self.exchange >= Generation::E2013)
    }
}

/// Generation of Exchange, from which defaults follow; 2016 where the file does not say one.
pub(crate) fn generation(file: &SolutionFile) -> Generation {
    file.profile.as_ref().map_or(Generation::E2016, |users| users.exchange)
}

/// Profile of the users, or what the file lacks for it. They are sized by I/O and size of their mailboxes, stated or
/// derived from messages and quota.
pub(crate) fn users(file: &SolutionFile) -> Checked<Users> {
    let Some(users) = &file.profile else {
        let lack = Wrong::new("profile", "nothing is said about the users");
        return Err(lack.help("add [profile] with exchange, mailboxes and messages_per_day"));
    };
    let generation = users.exchange;
    let follows = generation >= Generation::E2010 && users.messages_per_day.is_some();
    if users.iops_per_mailbox.is_none() && !follows {
        return Err(match generation < Generation::E2010 {
            true => {
                let year = generation.name();
                let message =
                    format!("Exchange {year} is sized with the I/O of a mailbox, which is not given");
                Wrong::new("profile", message).help("add iops_per_mailbox")
            }
            false => {
                let message = "the I/O of a mailbox follows from its messages, which are not given";
                Wrong::new("profile", message).help("add messages_per_day or iops_per_mailbox")
            }
        });
    }
    if users.quota_mb.is_none() && users.mailbox_mb.is_none() {
        return Err(Wrong::new("profile", "the size of a mailbox is not given").help("add quota_mb"));
    }
    Ok(users.clone())
}

/// Refuses MetaCache volumes for generations that have no MetaCache databases.
pub(crate) fn meta_cache(file: &SolutionFile, generation: Generation) -> Checked<()> {
    let volume = file.volume.iter().position(|volume| volume.role == Role::MetaCache);
    match volume.filter(|_| generation < Generation::E2019) {
        None => Ok(()),
        Some(entry) => {
            let message = format!("Exchange {} has no MetaCache database", generation.name());
            let wrong = Wrong::new(format!("volume[{entry}].role"), message);
            Err(wrong.help("take the volume out, or write exchange = \"2019\" or \"se\" in [profile]"))
        }
    }
}
