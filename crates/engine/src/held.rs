//! What users of an instance hold of it.

use crate::instance::Instance;

/// What operations hold of an instance: pages, logs, locks. All zero while no operation runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Held {
    /// Transactions that have changed something and have not ended.
    pub transactions: usize,
    /// Pages that operations keep in memory.
    pub pages: usize,
    /// Readers that keep closed logs.
    pub logs: usize,
}

impl Instance {
    /// What operations, transactions and readers hold now.
    pub fn held(&self) -> Held {
        let core = self.core();
        Held {
            transactions: core.transactions.borrow().open_ids().len(),
            pages: core.cache.pinned_pages(),
            logs: core.log.holds(),
        }
    }
}
