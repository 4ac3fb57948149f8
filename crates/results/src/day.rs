//! A day that a load follows: the rate of each hour, in percent of the peak hour.
//!
//! Invariant: everything that paces, judges or draws such a load takes its rate from [`Day`], so that the load that is
//! asked for and the load that is judged are the same.

use serde::{Deserialize, Serialize};

/// Hours of a day.
const HOURS: usize = 24;
/// Longest time in which a day passes, s.
const REAL_DAY_S: f64 = 86_400.0;

/// Day that a load follows. It begins with the measured window, and again when it is over.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Day {
    /// Time in which the day passes, s.
    pub length_s: f64,
    /// Load of each hour from midnight on, in percent of the peak hour.
    pub hours_percent: [f64; HOURS],
}

impl Day {
    /// Day of a window: it passes in real time, or within the window if that is shorter than 24 hours.
    pub fn of_window(hours_percent: [f64; HOURS], window_s: f64) -> Day {
        Day { length_s: window_s.min(REAL_DAY_S), hours_percent }
    }

    /// Mean load of all hours, as a share of the peak hour.
    pub fn mean(&self) -> f64 {
        self.hours_percent.iter().sum::<f64>() / (100.0 * HOURS as f64)
    }

    /// Mean load between two moments of the window, as a share of the peak hour.
    pub fn mean_between(&self, from_s: f64, to_s: f64) -> f64 {
        (self.peak_s(to_s) - self.peak_s(from_s)) / (to_s - from_s)
    }

    /// Time at the peak, in s, that makes the same load as the first `until_s` of the window.
    pub fn peak_s(&self, until_s: f64) -> f64 {
        let (days, of_day) = self.divided(until_s);
        let hour_s = self.hour_s();
        let share =
            |hour: usize, percent: &f64| (of_day - hour as f64 * hour_s).clamp(0.0, hour_s) * percent / 100.0;
        let today: f64 =
            self.hours_percent.iter().enumerate().map(|(hour, percent)| share(hour, percent)).sum();
        days * self.mean() * self.length_s + today
    }

    /// Moment of the window, in s, until which it asks for as much load as `peak_s` at the peak.
    pub fn moment_s(&self, peak_s: f64) -> f64 {
        let of_day = self.mean() * self.length_s;
        let days = (peak_s / of_day).floor().max(0.0);
        let mut left = peak_s - days * of_day;
        for (hour, percent) in self.hours_percent.iter().enumerate() {
            let of_hour = self.hour_s() * percent / 100.0;
            if left < of_hour {
                return days * self.length_s + hour as f64 * self.hour_s() + left * 100.0 / percent;
            }
            left -= of_hour;
        }
        (days + 1.0) * self.length_s
    }

    /// Length of an hour of the day, s.
    pub fn hour_s(&self) -> f64 {
        self.length_s / HOURS as f64
    }

    /// Hour of the day, from 0, at a moment of the window.
    pub fn hour(&self, at_s: f64) -> usize {
        ((self.divided(at_s).1 / self.hour_s()) as usize).min(HOURS - 1)
    }

    /// Whole days before a moment of the window, and the time of the day, s.
    fn divided(&self, at_s: f64) -> (f64, f64) {
        let days = (at_s / self.length_s).floor();
        (days, at_s - days * self.length_s)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn day(window_s: f64) -> Day {
        let mut hours_percent = [10.0; HOURS];
        hours_percent[9] = 100.0;
        hours_percent[13] = 0.0;
        Day::of_window(hours_percent, window_s)
    }

    #[test]
    fn load_up_to_a_moment_is_the_sum_of_the_hours_before_it() {
        let day = day(86_400.0);
        let hours = |hours: f64| day.peak_s(hours * 3600.0) / 3600.0;
        let sums = [(0.0, 0.0), (9.0, 0.9), (9.5, 1.4), (10.0, 1.9), (13.0, 2.2), (14.0, 2.2), (24.0, 3.2)];
        for (at, sum) in sums.into_iter().chain([(33.5, 3.2 + 1.4)]) {
            assert!((hours(at) - sum).abs() < 1e-9, "{at} h: {}", hours(at));
        }
        assert!((day.mean() - 3.2 / 24.0).abs() < 1e-12);
        assert!((day.mean_between(9.0 * 3600.0, 10.0 * 3600.0) - 1.0).abs() < 1e-9);
        assert_eq!((day.hour(9.5 * 3600.0), day.hour(23.999 * 3600.0), day.hour(24.0 * 3600.0)), (9, 23, 0));
    }

    #[test]
    fn a_short_window_holds_the_whole_day_and_a_long_one_repeats_it() {
        assert_eq!(
            (day(2_400.0).hour_s(), day(86_400.0).hour_s(), day(1e6).hour_s()),
            (100.0, 3_600.0, 3_600.0)
        );
        let short = day(2_400.0);
        assert!((short.peak_s(2_400.0) - 320.0).abs() < 1e-9);
    }

    #[test]
    fn moment_of_a_load_is_the_inverse_of_the_load_up_to_a_moment() {
        let day = day(2_400.0);
        for step in 1..2_000 {
            let at_s = f64::from(step) * 3.7;
            if day.hour(at_s) != 13 {
                let back = day.moment_s(day.peak_s(at_s));
                assert!((back - at_s).abs() < 1e-6, "{at_s}: {back}");
            }
        }
        // Nothing is asked for in the hour without load: the next load is due behind it.
        assert!(day.moment_s(day.peak_s(1_300.0) + 0.1) > 1_400.0);
    }
}
