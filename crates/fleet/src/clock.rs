//! What time it is for the controller, as an agent knows it.
//!
//! Each exchange bounds the difference between two clocks: the controller looked at its clock after the agent sent and before
//! the agent received, so `controller - agent` lies within half a round trip of the middle (Cristian's algorithm). The
//! narrowest of the recent exchanges is used. Invariant: the true difference lies within the uncertainty, as long as the clocks
//! drift by less than [`DRIFT_PPM`] against each other.

use std::collections::VecDeque;

/// Exchanges that are remembered: half a minute of beats.
const REMEMBERED: usize = 60;
/// How far two clocks may drift apart, in millionths. Crystals stay below 100; chrony slews by up to 500 more by default
/// settings of common distributions, so this is generous.
pub const DRIFT_PPM: u64 = 1_000;

#[derive(Debug, Clone, Copy)]
struct Exchange {
    received_ns: u64,
    difference_ns: i128,
    uncertainty_ns: u64,
}

/// The difference between the controller's calendar and the agent's monotonic clock.
#[derive(Debug, Default)]
pub struct ControllerClock {
    exchanges: VecDeque<Exchange>,
}

impl ControllerClock {
    /// Takes in an exchange: sent and received on the agent's clock, answered on the controller's.
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
            (exchange.difference_ns, exchange.uncertainty_ns + age_ns / 1_000_000 * DRIFT_PPM)
        });
        aged.min_by_key(|(_, uncertainty_ns)| *uncertainty_ns)
    }

    /// The controller's calendar at `now_ns` of the agent's clock, and how wrong that can be.
    pub fn unix_ns(&self, now_ns: u64) -> Option<(u64, u64)> {
        let (difference_ns, uncertainty_ns) = self.best(now_ns)?;
        u64::try_from(i128::from(now_ns) + difference_ns).ok().map(|unix_ns| (unix_ns, uncertainty_ns))
    }

    /// When it will be `unix_ns` for the controller, on the agent's clock; 0 if that was before the agent started.
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
    fn without_an_exchange_nothing_is_known() {
        assert_eq!(ControllerClock::default().unix_ns(5), None);
    }
}
