//! What users of an instance hold of it.

use crate::instance::Instance;

/// Resources that operations hold: pages, logs, locks. All zero while no operation runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Held {
    /// Number of open transactions with changes.
    pub transactions: usize,
    /// Number of pages that operations hold in memory.
    pub pages: usize,
    /// Number of readers that keep closed logs.
    pub logs: usize,
}

impl Instance {
    /// Resources that operations, transactions and readers hold now.
    pub fn held(&self) -> Held {
        let core = self.core();
        Held {
            transactions: core.transactions.borrow().open_ids().len(),
            pages: core.cache.pinned_pages(),
            logs: core.log.holds(),
        }
    }
}
