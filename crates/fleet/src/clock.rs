//! What time it is for the controller, as an agent knows it.
//!
//! Each exchange bounds the difference between two clocks: the controller looked at its clock after the agent
//! sent and before the agent received, so `controller - agent` lies within half a round trip of the middle
//! (Cristian's algorithm). The narrowest of the recent exchanges is used. Invariant: the true difference lies
//! within the uncertainty, as long as the clocks drift by less than [`DRIFT_PPM`] against each other.

use std::collections::VecDeque;

/// Number of exchanges that are remembered: half a minute of heartbeats.
const REMEMBERED: usize = 60;
/// Largest drift between two clocks, in millionths. Crystals stay below 100; chrony slews by up to 500 more by the
/// defaults of common distributions.
pub const DRIFT_PPM: u64 = 1_000;

/// Largest difference between two clocks that agreed this long ago, ns.
pub(crate) fn drift_ns(elapsed_ns: u64) -> u64 {
    elapsed_ns / 1_000_000 * DRIFT_PPM
}

/// Reading of the controller's calendar with its error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reading {
    /// Time, ns since 1970.
    pub unix_ns: u64,
    /// Largest error, ns.
    pub error_ns: u64,
}

/// Assigns controller time to events of a host, counted from a moment on which all hosts agreed, such as the opening
/// of a window.
///
/// From then on time passes by the host's monotonic clock. A calendar that is set forward or back, that of the
/// host or that of the controller, therefore changes neither the order nor the distance of dates.
#[derive(Debug, Clone, Copy, Default)]
pub struct Dates {
    /// Agreed moment: by the host's monotonic clock, and by the controller's calendar.
    anchor: Option<(u64, Reading)>,
}

impl Dates {
    /// Sets the agreed moment to now: `local_ns` by the host's monotonic clock, `now` by the controller's calendar.
    pub fn begin(&mut self, local_ns: u64, now: Reading) {
        self.anchor = Some((local_ns, now));
    }

    /// Controller time of an event at `at_ns` of the host's monotonic clock, which is `local_ns` now. `now`, the
    /// present knowledge of the controller's calendar, counts only as far as it agrees with the time that has passed.
    pub fn date(&self, at_ns: u64, local_ns: u64, now: Option<Reading>) -> Reading {
        let back = |to: Reading, from_ns: u64| {
            let ahead_ns = at_ns as i64 - from_ns as i64;
            Reading { unix_ns: to.unix_ns.saturating_add_signed(ahead_ns), ..to }
        };
        let current = now.map(|now| back(now, local_ns));
        let Some((anchor_ns, anchor)) = self.anchor else {
            return current.unwrap_or(Reading { unix_ns: at_ns, error_ns: u64::MAX / 4 });
        };
        let passed = back(anchor, anchor_ns);
        let passed = Reading { error_ns: anchor.error_ns + drift_ns(at_ns.abs_diff(anchor_ns)), ..passed };
        current
            .filter(|current| {
                current.error_ns < passed.error_ns
                    && current.unix_ns.abs_diff(passed.unix_ns) <= current.error_ns + passed.error_ns
            })
            .unwrap_or(passed)
    }
}

#[derive(Debug, Clone, Copy)]
struct Exchange {
    received_ns: u64,
    difference_ns: i128,
    uncertainty_ns: u64,
}

/// Estimate of the difference between the controller's calendar and the agent's monotonic clock.
#[derive(Debug, Default)]
pub struct ControllerClock {
    exchanges: VecDeque<Exchange>,
}

impl ControllerClock {
    /// Adds an exchange: sent and received by the agent's clock, answered by the controller's.
    pub fn exchange(&mut self, sent_ns: u64, answered_unix_ns: u64, received_ns: u64) {
        let round_trip_ns = received_ns.saturating_sub(sent_ns);
        let middle_ns = sent_ns + round_trip_ns / 2;
        if self.exchanges.len() == REMEMBERED {
            self.exchanges.pop_front();
        }
        self.exchanges.push_back(Exchange {
            received_ns,
            difference_ns: i128::from(answered_unix_ns) - i128::from(middle_ns),
            uncertainty_ns: round_trip_ns.div_ceil(2),
        });
    }

    fn best(&self, now_ns: u64) -> Option<(i128, u64)> {
        let aged = self.exchanges.iter().map(|exchange| {
            let age_ns = now_ns.saturating_sub(exchange.received_ns);
            (exchange.difference_ns, exchange.uncertainty_ns + drift_ns(age_ns))
        });
        aged.min_by_key(|(_, uncertainty_ns)| *uncertainty_ns)
    }

    /// Controller's calendar at `now_ns` of the agent's clock, with its error.
    pub fn unix_ns(&self, now_ns: u64) -> Option<(u64, u64)> {
        let (difference_ns, uncertainty_ns) = self.best(now_ns)?;
        u64::try_from(i128::from(now_ns) + difference_ns).ok().map(|unix_ns| (unix_ns, uncertainty_ns))
    }

    /// Time of the agent's clock at which the controller's calendar will be `unix_ns`; 0 if that was before the agent
    /// started.
    pub fn local_ns(&self, unix_ns: u64, now_ns: u64) -> Option<u64> {
        let (difference_ns, _) = self.best(now_ns)?;
        Some(u64::try_from(i128::from(unix_ns) - difference_ns).unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_true_difference_is_within_the_uncertainty() {
        // The controller is 1,000 s ahead; answers take longer one way than the other.
        let (mut clock, ahead) = (ControllerClock::default(), 1_000_000_000_000);
        for (there, back) in [(5_000_000, 100_000), (200_000, 200_000), (90_000_000, 1_000)] {
            let sent = 7_000_000_000;
            clock.exchange(sent, sent + there + ahead, sent + there + back);
            let (unix, uncertainty) = clock.unix_ns(sent + there + back).unwrap();
            assert!(unix.abs_diff(sent + there + back + ahead) <= uncertainty, "{unix} +- {uncertainty}");
        }
        assert_eq!(clock.unix_ns(7_000_400_000).unwrap().1, 200_000, "the best exchange counts");
        assert_eq!(clock.local_ns(ahead + 8_000_000_000, 7_000_400_000), Some(8_000_000_000));
    }

    #[test]
    fn an_old_exchange_is_trusted_less() {
        let mut clock = ControllerClock::default();
        clock.exchange(0, 50, 100);
        clock.exchange(1_000_000_000_000, 1_000_000_000_000, 1_000_000_001_000);
        assert_eq!(clock.unix_ns(1_000_000_001_000).unwrap().1, 500, "1,000 s at 1,000 ppm is a second");
    }

    #[test]
    fn a_calendar_that_is_set_moves_no_date_after_the_agreed_moment() {
        let second = 1_000_000_000;
        let reading = |unix_s: u64| Reading { unix_ns: unix_s * second, error_ns: 1_000 };
        let mut dates = Dates::default();
        dates.begin(50 * second, reading(1_000));
        let at = |local_s: u64, known_unix_s: u64| {
            dates.date(local_s * second, local_s * second, Some(reading(known_unix_s))).unix_ns / second
        };
        assert_eq!(at(60, 1_010), 1_010, "no step");
        assert_eq!(at(60, 1_040), 1_010, "30 s forward");
        assert_eq!(at(60, 980), 1_010, "30 s back");
        assert_eq!(dates.date(58 * second, 60 * second, Some(reading(1_010))).unix_ns, 1_008 * second);
        let without = dates.date(60 * second, 60 * second, None);
        assert_eq!((without.unix_ns / second, without.error_ns), (1_010, 1_000 + drift_ns(10 * second)));
    }

    #[test]
    fn without_an_exchange_nothing_is_known() {
        assert_eq!(ControllerClock::default().unix_ns(5), None);
    }
}
