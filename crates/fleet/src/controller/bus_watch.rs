//! Whether the bus is there: a controller that lost it says so, and does not wait for it without end.

/// Time for which the bus may be away before it is reported, ns: a restarted server needs a moment.
const TOLD_AFTER_NS: u64 = 5_000_000_000;
/// Time without the bus after which a controller ends, s.
pub(super) const LIMIT_S: u64 = 600;

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
}

impl BusWatch {
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
}
