//! What the classes of a load read in a window, and how much of it came from MetaCaches.

use std::rc::Rc;

use results::Parameter;
use results::figures::{counted, number};
use workload::mix::CLASSES;
use workload::session::ClassReads;

use crate::error::CampaignError;
use crate::host::ShardState;
use crate::running::{Campaign, Running};

impl Campaign<'_> {
    /// Reads of each class since the last call; none if the load has no classes.
    pub(crate) async fn take_class_reads(
        &self,
    ) -> Result<Option<[ClassReads; CLASSES.len()]>, CampaignError> {
        if self.deployment.load.classes.is_none() {
            return Ok(None);
        }
        let take = |state: Rc<ShardState>, instance: usize| async move {
            let open = state.open_instance(instance)?;
            Ok(open.mailboxes.iter().map(|mailboxes| mailboxes.take_class_reads()).collect::<Vec<_>>())
        };
        let mut sums = [ClassReads::default(); CLASSES.len()];
        for of_database in self.host.each_instance(take).await?.concat() {
            for (sum, reads) in sums.iter_mut().zip(of_database) {
                sum.operations += reads.operations;
                sum.pages.add(reads.pages);
            }
        }
        Ok(Some(sums))
    }

    /// Notes what each class read since the last call of [`Self::take_class_reads`].
    pub(crate) async fn note_classes(&self, test: &mut Running) -> Result<(), CampaignError> {
        let Some(sums) = self.take_class_reads().await? else { return Ok(()) };
        for ((_, class), ClassReads { operations, pages }) in CLASSES.into_iter().zip(sums) {
            let all = pages.from_file + pages.from_meta_cache;
            let hits = 100.0 * pages.from_meta_cache as f64 / all.max(1) as f64;
            let value = format!(
                "{}, {} read, {} % from MetaCaches",
                counted(operations, "operation"),
                counted(all, "page"),
                number(hits, 1)
            );
            test.row.parameters.push(Parameter { name: format!("Class {class}"), value });
        }
        Ok(())
    }
}
