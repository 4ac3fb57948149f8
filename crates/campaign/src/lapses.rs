//! Holes in the time of a run: noted when they are found, judged at the end of the window or of the run.
//!
//! A measured window must be measured throughout. A sample that comes late, or a host that was suspended,
//! leaves a gap in it: a time in which the load generator did not do its part. That says nothing about the
//! storage, in either direction.

use results::Severity;
use world::{Duration, LAPSE_MIN, LapseKind};

use crate::error::CampaignError;
use crate::running::{Campaign, Running};

impl Campaign<'_> {
    /// Records how late a sample of a load came.
    pub(crate) fn note_late_sample(
        &mut self,
        test: &mut Running,
        late: Duration,
    ) -> Result<(), CampaignError> {
        if late <= LAPSE_MIN {
            return Ok(());
        }
        test.sampler.add_gap(late);
        let text = format!("a sample came {:.1} s late: nothing was measured meanwhile", late.as_secs_f64());
        self.event(Severity::Warning, Some(test.row.ordinal), &text)
    }

    /// Records the lapses that the world has found since the last call.
    pub(crate) fn note_lapses(&mut self, test: &mut Running) -> Result<(), CampaignError> {
        let ordinal = Some(test.row.ordinal);
        for lapse in self.world.lapses() {
            let severity = match lapse.kind {
                LapseKind::WallAhead | LapseKind::WallBack => Severity::Info,
                _ => Severity::Warning,
            };
            self.event(severity, ordinal, &lapse.to_string())?;
            if lapse.kind == LapseKind::Suspended {
                test.sampler.add_gap(lapse.length);
            }
        }
        Ok(())
    }
}
