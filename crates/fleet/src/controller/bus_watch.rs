//! Whether the bus is there: a controller that lost it says so, and does not wait for it without end.

/// The bus may be away for this long before that is said: a server that is started again needs a moment.
const TOLD_AFTER_NS: u64 = 5_000_000_000;
/// Seconds after which a controller ends without the bus.
pub(super) const LIMIT_S: u64 = 600;

/// What is new about the bus.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum News {
    /// Nothing.
    None,
    /// It is gone.
    Gone,
    /// It is there again.
    Back,
    /// It is gone for longer than a controller waits for it.
    GivenUp,
}

/// Since when the bus is away.
#[derive(Debug, Default)]
pub(super) struct BusWatch {
    away_since_ns: Option<u64>,
    is_told: bool,
}

impl BusWatch {
    /// Takes in whether the bus is reached just now.
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

    /// Whether the bus is away for so long that it was said.
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
