//! How many mailboxes a solution carries.
//!
//! [`by_plan`] asks the plan for the mailboxes at which each of its limits is reached. [`by_simulation`] measures loads
//! by the performance test on modelled storage, where each number of mailboxes is the solution scaled ([`Scaling`]).
//! [`Climbing`] has loads measured on real storage, one after the other, on databases that stay.
//! [`Search`] looks for the largest load that breaks no limit, from few measurements that scatter: pure functions.

mod answer;
mod carry;
mod case_list;
mod climb;
mod curve;
mod limits;
mod probe;
mod scale;
mod search;
mod vary;

pub use answer::{Binds, Capacity, FoundKind, Searched, Variant, line};
pub use carry::{Case, by_plan, by_simulation, together};
pub use case_list::{CaseAnswer, CaseList, MergeError, Share, again};
pub use climb::Climbing;
pub use curve::{Crossing, Curve};
pub use limits::PlanLimit;
pub use probe::{Busy, Figure, LIMITS, Probed, Simulating, probe, servers};
pub use scale::{Scaling, scaled};
pub use search::{Answer, Found, Limit, Measured, PROBES_MAX, Probe, Search, Shape, Step};
pub use vary::{Vary, cases};
