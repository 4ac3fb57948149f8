//! The end of the process at one event of the disk, which takes with it what was not synced.

use std::cell::RefCell;
use std::path::PathBuf;
use std::rc::Rc;

use rustix::process::{Signal, getpid, kill_process};

use super::names::Names;
use super::power_cut::{DiskEvent, Pieces, PowerCut, Unkindness};
use super::shared::Shared;

/// Switch that cuts the power of the shadowed disk and ends the process.
#[derive(Clone)]
pub struct PowerSwitch {
    pub(super) shared: Rc<Shared>,
    pub(super) names: Rc<RefCell<Names>>,
}

impl PowerSwitch {
    /// Starts to count events until the power fails.
    pub fn arm(&self, cut: PowerCut) {
        self.shared.cut.set(Some(cut));
    }

    /// Starts to count events until the process ends alone. What is not durable goes to that file, for
    /// [`super::ShadowHost::take_up`].
    pub fn arm_process_end(&self, cut: PowerCut, leaves: PathBuf) {
        self.shared.leaves.replace(Some(leaves));
        self.arm(cut);
    }

    /// Counts a disk event, and cuts the power if its time has come. The caller must hold no borrow of the shadow.
    pub(super) fn event(&self, event: DiskEvent) {
        let Some(mut cut) = self.shared.cut.get() else { return };
        if cut.number > 0 {
            cut.number -= u64::from(cut.event == event);
        } else if cut.later > 0 {
            cut.later -= 1;
        }
        if cut.number == 0 && cut.later == 0 {
            self.cut(cut.pieces);
        }
        self.shared.cut.set(Some(cut));
    }

    /// Cuts the power: applies what survives and ends the process. Errors count as losses.
    fn cut(&self, pieces: Option<Pieces>) {
        let names = self.names.borrow();
        if let Some(leaves) = &*self.shared.leaves.borrow() {
            names.leave(leaves).expect("there is room for what is not durable");
        } else {
            let unkindness = Unkindness::draw(|limit| self.shared.below(limit), pieces);
            names.nodes().for_each(|node| node.lose(&self.shared, &unkindness));
            names.lose(&self.shared, &unkindness);
        }
        // This process does not outlive the call.
        let _ = kill_process(getpid(), Signal::KILL);
    }
}
