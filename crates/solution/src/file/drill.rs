//! `[test.drill]`: failures that a test of kind `drill` performs while users work, each at its time.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Mount dial: number of log generations that an activation may lose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MountDial {
    /// None: a durable commit is acknowledged only once a passive copy holds it.
    #[default]
    Lossless,
    /// At most 6.
    GoodAvailability,
    /// At most 12.
    BestAvailability,
}

/// Partner: site of the copy that stores every commit before it is acknowledged (`lossless` only).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Partner {
    /// In the site of the active copy where there is one: commits do not wait for the link between sites.
    #[default]
    SameSite,
    /// In another site where there is one: commits survive the loss of a site.
    OtherSite,
}

/// Kind of a failure in a drill.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DrillEventKind {
    /// A host loses its power.
    HostKilled,
    /// A host loses its network, to the other hosts and to the arbiter.
    HostCutOff,
    /// A volume of a host loses its contents; an empty one takes its place.
    VolumeFailed,
    /// All hosts of a site lose their power.
    SiteLost,
}

impl DrillEventKind {
    /// Name of the kind in the solution file.
    pub fn name(self) -> &'static str {
        match self {
            DrillEventKind::HostKilled => "host_killed",
            DrillEventKind::HostCutOff => "host_cut_off",
            DrillEventKind::VolumeFailed => "volume_failed",
            DrillEventKind::SiteLost => "site_lost",
        }
    }
}

/// `[test.drill]`: failures of a drill, and the loss that copies may have.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Drill {
    /// How many log generations an activation may lose; none when not given.
    #[serde(default)]
    pub mount_dial: MountDial,
    /// Which copy acknowledges commits with the active one; one of the same site when not given.
    #[serde(default)]
    pub partner: Partner,
    /// Failures with their times.
    #[serde(default)]
    pub event: Vec<DrillEvent>,
}

/// `[[test.drill.event]]`: one failure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DrillEvent {
    /// Kind of the failure.
    pub kind: DrillEventKind,
    /// Host that fails; not for a site.
    pub host: Option<String>,
    /// The volume that fails, one with databases.
    pub volume: Option<String>,
    /// The site that is lost.
    pub site: Option<String>,
    /// Seconds after the begin of the drill's window.
    pub at_s: f64,
    /// Seconds after which it is back; not before the end of the drill when not given.
    pub back_after_s: Option<f64>,
}
