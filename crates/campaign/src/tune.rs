//! The search for a load, as a pure state machine: which number of sessions to try next.
//!
//! Doubles until a step breaks a threshold (or, with a target, until a step reaches it), then halves the gap
//! between the last step that held and the first that did not. Latency grows with sessions, so the answer is
//! where the two meet.

/// Result of a step of the search for the load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Inside every threshold, and below the target if there is one.
    Holds,
    /// Inside every threshold with the target reached; fewer sessions may suffice.
    Enough,
    /// A threshold is broken.
    Breaks,
}

/// Search for the number of sessions.
#[derive(Debug, Clone)]
pub struct Search {
    /// Largest number of sessions known to be too few.
    holds: u32,
    /// Smallest number of sessions known to break a threshold, or to be more than the target needs.
    beyond: Option<u32>,
    /// Smallest number of sessions that reaches the target.
    enough: Option<u32>,
    next: u32,
    sessions_max: u32,
}

/// Result of the search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found {
    /// Number of sessions to use: for the target, or the most inside the thresholds.
    pub sessions: u32,
    /// Whether the steps bracket the answer, rather than time or sessions running out first.
    pub bracketed: bool,
}

impl Search {
    /// Starts with `start` sessions; never tries more than `sessions_max`.
    pub fn new(start: u32, sessions_max: u32) -> Search {
        let next = start.clamp(1, sessions_max);
        Search { holds: 0, beyond: None, enough: None, next, sessions_max }
    }

    /// Number of sessions of the next step; `None` when the answer is known to within an eighth.
    pub fn next(&self) -> Option<u32> {
        let known = |low: u32, high: u32| high - low <= (low / 8).max(1);
        match self.beyond {
            Some(beyond) if known(self.holds, beyond) => None,
            None if self.holds == self.sessions_max => None,
            _ => Some(self.next),
        }
    }

    /// Adds the result of the step with `sessions` sessions.
    pub fn record(&mut self, sessions: u32, step: Step) {
        match step {
            Step::Holds => self.holds = self.holds.max(sessions),
            Step::Enough => {
                self.enough = Some(self.enough.map_or(sessions, |enough| enough.min(sessions)));
                self.lower_beyond(sessions);
            }
            Step::Breaks => self.lower_beyond(sessions),
        }
        self.next = match self.beyond {
            None => self.holds.saturating_mul(2).clamp(1, self.sessions_max),
            Some(beyond) => self.holds + ((beyond - self.holds) / 2).max(1),
        };
    }

    fn lower_beyond(&mut self, sessions: u32) {
        // Noise can make a smaller number fail after a larger one held: then the smaller one is believed.
        self.beyond = Some(self.beyond.map_or(sessions, |beyond| beyond.min(sessions)));
        self.holds = self.holds.min(sessions - 1);
    }

    /// Answer so far; `None` if not even one session stays inside the thresholds.
    pub fn found(&self) -> Option<Found> {
        let sessions = self.enough.unwrap_or(self.holds);
        (sessions > 0)
            .then_some(Found { sessions, bracketed: self.next().is_none() && self.beyond.is_some() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn search(start: u32, max: u32, show: impl Fn(u32) -> Step) -> (Option<Found>, u32) {
        let mut search = Search::new(start, max);
        let mut steps = 0;
        while let Some(sessions) = search.next() {
            search.record(sessions, show(sessions));
            steps += 1;
            assert!(steps < 40, "the search ends");
        }
        (search.found(), steps)
    }

    #[test]
    fn finds_the_most_sessions_inside_the_thresholds() {
        for limit in 1..200 {
            let show = |sessions| if sessions <= limit { Step::Holds } else { Step::Breaks };
            let (found, _) = search(4, 256, show);
            let found = found.expect("one session holds");
            assert!(
                found.bracketed && found.sessions <= limit && limit - found.sessions <= limit / 8,
                "{limit}: {found:?}"
            );
        }
    }

    #[test]
    fn finds_the_fewest_sessions_for_a_target() {
        for needed in 1..100 {
            let show = |sessions| if sessions >= needed { Step::Enough } else { Step::Holds };
            let (found, _) = search(2, 256, show);
            let found = found.expect("the target can be reached");
            assert!(
                found.sessions >= needed && found.sessions - needed <= needed.div_ceil(8),
                "{needed}: {found:?}"
            );
        }
    }

    #[test]
    fn says_when_nothing_holds_and_when_the_bracket_is_open() {
        assert_eq!(search(4, 64, |_| Step::Breaks).0, None);
        assert_eq!(search(4, 64, |_| Step::Holds).0, Some(Found { sessions: 64, bracketed: false }));
    }
}
