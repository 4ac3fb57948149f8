//! Whether the bus is there: a controller that lost it says so, and does not wait for it without end.
//! And whether the controller itself was there: what hosts said while it stood still is not read yet.

/// Time for which the bus may be away before it is reported, ns: a restarted server needs a moment.
const TOLD_AFTER_NS: u64 = 5_000_000_000;
/// Time without the bus after which a controller ends, s.
pub(super) const LIMIT_S: u64 = 600;
/// Time between two looks after which the controller itself stood still, ns: a suspended machine, a stopped
/// process. Shorter than the silence that makes a host count as lost.
const STOOD_STILL_NS: u64 = 5_000_000_000;

/// Change in the state of the bus.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum News {
    /// Nothing changed.
    None,
    /// The bus is lost.
    Gone,
    /// The bus is back.
    Back,
    /// The bus was away for longer than a controller waits.
    GivenUp,
}

/// Watch over the connection to the bus.
#[derive(Debug, Default)]
pub(super) struct BusWatch {
    away_since_ns: Option<u64>,
    is_told: bool,
    heard_ns: Option<u64>,
}

impl BusWatch {
    /// Whether the controller heard its hosts since the last call. If not, their silence says nothing about them.
    pub fn has_heard(&mut self, now_ns: u64, is_connected: bool) -> bool {
        let last_ns = self.heard_ns.replace(now_ns).unwrap_or(now_ns);
        is_connected && now_ns.saturating_sub(last_ns) <= STOOD_STILL_NS
    }

    /// Updates the watch with the present state of the connection.
    pub fn look(&mut self, now_ns: u64, is_connected: bool) -> News {
        if is_connected {
            self.away_since_ns = None;
            return if std::mem::take(&mut self.is_told) { News::Back } else { News::None };
        }
        let away_ns = now_ns.saturating_sub(*self.away_since_ns.get_or_insert(now_ns));
        if away_ns >= LIMIT_S * 1_000_000_000 {
            News::GivenUp
        } else if away_ns >= TOLD_AFTER_NS && !std::mem::replace(&mut self.is_told, true) {
            News::Gone
        } else {
            News::None
        }
    }

    /// Whether the loss of the bus has been reported.
    pub fn is_gone(&self) -> bool {
        self.is_told
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bus_that_is_gone_is_said_once_and_not_waited_for_without_end() {
        let second = |at: u64| at * 1_000_000_000;
        let mut watch = BusWatch::default();
        let mut news = |at: u64, is_connected: bool| watch.look(second(at), is_connected);
        assert_eq!([news(0, true), news(1, false), news(3, true)], [News::None; 3], "a moment is not said");
        let gone: Vec<News> = (10..30).map(|at| news(at, false)).filter(|news| *news != News::None).collect();
        assert_eq!(gone, [News::Gone]);
        assert_eq!([news(30, true), news(31, true)], [News::Back, News::None]);
        assert_eq!(news(40, false), News::None);
        assert_eq!(news(50, false), News::Gone);
        assert_eq!(news(40 + LIMIT_S, false), News::GivenUp);
    }

    #[test]
    fn a_controller_that_stood_still_has_not_heard_its_hosts() {
        let mut watch = BusWatch::default();
        let mut hears = |at_ms: u64, is_connected: bool| watch.has_heard(at_ms * 1_000_000, is_connected);
        assert_eq!([hears(70_000, true), hears(70_500, true), hears(71_000, false)], [true, true, false]);
        assert_eq!([hears(75_900, true), hears(686_000, true), hears(686_500, true)], [true, false, true]);
    }
}
