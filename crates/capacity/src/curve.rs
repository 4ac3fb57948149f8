//! Margins over load: the curve of each limit, and where it crosses zero.
//!
//! A margin is the logarithm of limit over figure: 0.1 is about a tenth of room, a negative one breaks the limit.
//! Loads are compared by their logarithms, so slopes are elasticities: at -8 one percent more load takes eight percent
//! of room.

/// Cap of a margin: a figure at a third of its limit, or at three times it. Beyond the cap only the sign counts.
const CAP: f64 = 1.0;
/// Distance from the load at which the limit is reached, as a share of it, within which margins are used for the fit
/// of a line.
const NEAR: f64 = 0.04;
/// Largest distance below the load at which the limit is reached, as a share of it, at which margins are used for the
/// estimate of the least slope.
const BELOW: f64 = 0.4;

/// Margin of one limit at one load.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Point {
    ln_load: f64,
    margin: f64,
}

/// Margins of one limit at all simulated loads.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Curve {
    points: Vec<Point>,
}

/// Load at which a limit is reached, from a line through the margins near zero.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Crossing {
    /// Logarithm of the load at the crossing.
    pub ln_load: f64,
    /// Standard error of that logarithm.
    pub error: f64,
    /// Scatter of a single measurement, as a share of the load.
    pub scatter: f64,
    /// Degrees of freedom of the scatter: number of repeated measurements at equal loads.
    pub freedom: usize,
    /// Change of the margin per percent of additional load, percent; negative.
    pub slope: f64,
}

impl Curve {
    /// Adds the margin of a simulation.
    pub fn add(&mut self, load: u64, margin: f64) {
        self.points.push(Point { ln_load: (load as f64).ln(), margin: margin.clamp(-CAP, CAP) });
    }

    /// Mean margin at a load; `None` if it was not simulated.
    pub fn mean(&self, load: u64) -> Option<f64> {
        let ln_load = (load as f64).ln();
        let here: Vec<f64> =
            self.points.iter().filter(|point| point.ln_load == ln_load).map(|point| point.margin).collect();
        (!here.is_empty()).then(|| here.iter().sum::<f64>() / here.len() as f64)
    }

    /// Margins by load as a curve that never rises: neighbours that would rise get their mean (isotonic regression).
    /// Returns pairs of logarithm of load and margin.
    pub fn falling(&self) -> Vec<(f64, f64)> {
        let mut points = self.points.clone();
        points.sort_by(|a, b| a.ln_load.total_cmp(&b.ln_load));
        // Sum of the margins, and their loads.
        let mut pools: Vec<(f64, Vec<f64>)> = Vec::new();
        let mean = |pool: &(f64, Vec<f64>)| pool.0 / pool.1.len() as f64;
        for point in points {
            let mut last = (point.margin, vec![point.ln_load]);
            while let Some(before) =
                pools.pop_if(|before| before.1.last() == last.1.first() || mean(before) <= mean(&last))
            {
                last = (before.0 + last.0, [before.1, last.1].concat());
            }
            pools.push(last);
        }
        let mut falling: Vec<(f64, f64)> =
            pools.iter().flat_map(|pool| pool.1.iter().map(move |load| (*load, mean(pool)))).collect();
        falling.dedup();
        falling
    }

    /// Logarithm of the load at which the falling curve crosses zero; `None` if all margins have one sign.
    pub fn falls_through_zero_at(&self) -> Option<f64> {
        let falling = self.falling();
        let pair = falling.windows(2).find(|pair| pair[0].1 >= 0.0 && pair[1].1 < 0.0)?;
        let share = pair[0].1 / (pair[0].1 - pair[1].1);
        Some(pair[0].0 + share * (pair[1].0 - pair[0].0))
    }

    /// Scatter of the margin between simulations at equal loads, and the number of repeated ones; zero without any.
    fn scatter(&self) -> (f64, usize) {
        let mut loads: Vec<f64> = self.points.iter().map(|point| point.ln_load).collect();
        loads.sort_by(f64::total_cmp);
        loads.dedup();
        let freedom = self.points.len() - loads.len();
        let of_load = |load: f64| {
            let here = || self.points.iter().filter(move |point| point.ln_load == load);
            let mean = here().map(|point| point.margin).sum::<f64>() / here().count() as f64;
            here().map(|point| (point.margin - mean).powi(2)).sum::<f64>()
        };
        let sum: f64 = loads.into_iter().map(of_load).sum();
        ((sum / freedom.max(1) as f64).sqrt(), freedom)
    }

    /// Estimates the crossing near `ln_load`; `None` with fewer than two loads near it, or if the curve does not fall.
    ///
    /// Loads near each other say little about the slope where they scatter. So it is at least as steep as that from the
    /// loads below: these curves bend downwards.
    pub fn crossing(&self, ln_load: f64) -> Option<Crossing> {
        let off = |point: &Point| point.ln_load - ln_load;
        let near: Vec<Point> = self.points.iter().filter(|point| off(point).abs() <= NEAR).copied().collect();
        let below: Vec<f64> = self
            .points
            .iter()
            .filter(|point| (-BELOW..-NEAR).contains(&off(point)))
            .map(|point| point.margin / off(point))
            .collect();
        let count = near.len() as f64;
        let mean = |value: fn(&Point) -> f64| near.iter().map(value).sum::<f64>() / count;
        let (x, y) = (mean(|point| point.ln_load), mean(|point| point.margin));
        let spread = near.iter().map(|point| (point.ln_load - x).powi(2)).sum::<f64>();
        let local = near.iter().map(|point| (point.ln_load - x) * (point.margin - y)).sum::<f64>() / spread;
        let from_below = below.iter().sum::<f64>() / below.len() as f64;
        // Neither is a number where there are no such loads, or one alone.
        let slope = local.min(from_below);
        if !local.is_finite() || slope >= 0.0 {
            return None;
        }
        let residual = |point: &Point| (point.margin - y - slope * (point.ln_load - x)).powi(2);
        let around = match near.len() {
            0..=3 => 0.0,
            _ => (near.iter().map(residual).sum::<f64>() / (count - 2.0)).sqrt(),
        };
        let (between, freedom) = self.scatter();
        let scatter = between.max(around) / -slope;
        let at = x - y / slope;
        let error = scatter * (1.0 / count + (at - x).powi(2) / spread).sqrt();
        Some(Crossing { ln_load: at, error, scatter, freedom, slope })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn curve_that_rises_somewhere_is_made_one_that_never_does() {
        let mut curve = Curve::default();
        for (load, margin) in [(100, 0.4), (120, 0.1), (140, 0.3), (200, -0.2)] {
            curve.add(load, margin);
        }
        let falling = curve.falling();
        assert!(falling.windows(2).all(|pair| pair[0].1 >= pair[1].1), "{falling:?}");
        assert_eq!((falling[1].1, falling[2].1), (0.2, 0.2), "{falling:?}");
        let at = curve.falls_through_zero_at().expect("it crosses zero").exp();
        assert!((140.0..200.0).contains(&at), "{at}");
    }

    #[test]
    fn line_through_points_near_zero_finds_the_crossing_and_how_sure_it_is() {
        let mut curve = Curve::default();
        // Falls by 5 % for each percent of load, zero at 1,000; the two at 980 scatter by 2 %.
        for (load, off) in [(960, 0.0), (980, 0.02), (980, -0.02), (1_020, 0.0), (1_040, 0.0)] {
            curve.add(load, -5.0 * (load as f64 / 1_000.0).ln() + off);
        }
        let crossing = curve.crossing(1_000_f64.ln()).expect("there are points near");
        assert!((crossing.ln_load.exp() - 1_000.0).abs() < 2.0, "{crossing:?}");
        assert!((crossing.slope + 5.0).abs() < 0.1, "{crossing:?}");
        assert!((0.001..0.01).contains(&crossing.error), "{crossing:?}");
    }

    #[test]
    fn curve_on_one_side_of_zero_has_no_crossing() {
        let mut curve = Curve::default();
        curve.add(100, 0.5);
        curve.add(200, 0.4);
        assert_eq!(curve.falls_through_zero_at(), None);
        assert_eq!(curve.crossing(100_f64.ln()), None, "one load gives no line");
    }
}
