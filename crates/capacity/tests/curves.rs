//! The search on curves whose answer is known.

use capacity::{Answer, Found, Measured, PROBES_MAX, Probe, Search, Shape, Step};

/// A pseudo-random number from 0 to 1, the same for the same two numbers.
fn random(a: u64, b: u64) -> f64 {
    let mut x = a.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ b.wrapping_mul(0xD1B5_4A32_D192_ED03);
    for _ in 0..3 {
        x = (x ^ (x >> 31)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    }
    (x >> 11) as f64 / (1u64 << 53) as f64
}

/// A figure that scatters from run to run by this standard deviation of its logarithm.
fn scatter(probe: Probe, salt: u64, deviation: f64) -> f64 {
    let sum: f64 = (0..12).map(|n| random(probe.load ^ (salt << 40), probe.seed * 64 + n)).sum();
    (sum - 6.0) * deviation
}

/// Shape of a margin curve. It first reaches a limit at the load `at` of [`Synthetic`].
#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    /// Latency of a queue. `room`: the limit as a multiple of the service time.
    Queue { room: f64 },
    /// Margin that is constant, then falls at once.
    Cliff,
    /// Throughput: a small constant margin up to the limit, then constant throughput, so a falling margin.
    Throughput,
    /// Falling margin with a ripple, so that it crosses zero more than once.
    Ripple,
    /// Falling margin that recovers for a while above the limit.
    Island,
}

#[derive(Debug, Clone, Copy)]
struct Synthetic {
    kind: Kind,
    at: f64,
    noise: f64,
    salt: u64,
}

impl Synthetic {
    /// Margins of two limits without scatter; the second limit is reached at a higher load.
    fn margins(&self, load: f64) -> [f64; 2] {
        let x = load / self.at;
        let later = -2.0 * (x / if self.kind == Kind::Island { 3.0 } else { 1.3 }).ln();
        let first = match self.kind {
            Kind::Queue { room } => {
                let busy = x * (1.0 - 1.0 / room);
                if busy < 1.0 { (room * (1.0 - busy)).ln() } else { -3.0 }
            }
            Kind::Cliff if x <= 1.0 => 0.4,
            Kind::Cliff => -2.0,
            Kind::Throughput if x <= 1.0 => 0.005,
            Kind::Throughput => -x.ln(),
            Kind::Ripple => -1.2 * x.ln() + 0.01 * ((x.ln() * 60.0).sin()),
            Kind::Island if (1.0..1.45).contains(&x) => -0.15,
            Kind::Island => -1.5 * (x / 1.9).ln(),
        };
        [first, later]
    }

    fn measure(&self, probe: Probe) -> Measured {
        let [first, later] = self.margins(probe.load as f64);
        let noise = |salt, margin: f64| match self.kind {
            // What is held at its target scatters little.
            Kind::Throughput => margin + scatter(probe, salt, self.noise / 50.0),
            _ => margin + scatter(probe, salt, self.noise),
        };
        Measured { probe, margins: vec![noise(self.salt, first), noise(self.salt + 1, later)] }
    }

    /// Largest load below the first load that breaks a limit, found without scatter in steps of 0.1 %.
    fn truth(&self) -> f64 {
        let loads = (0..).map(|step| self.at / 3.0 * 1.001_f64.powi(step));
        let broken = |load: &f64| self.margins(*load).iter().any(|margin| *margin < 0.0);
        loads.take(3_000).find(broken).expect("a limit is reached") / 1.001
    }
}

fn answer_of(curve: &Synthetic, mut search: Search) -> (Answer, Vec<Measured>) {
    loop {
        match search.step() {
            Step::Answer(answer) => return (answer, search.measured().to_vec()),
            Step::Measure(probes) => {
                assert!(!probes.is_empty());
                probes.into_iter().for_each(|probe| search.add(curve.measure(probe)));
            }
        }
    }
}

/// As [`answer_of`], where one load is measured at a time.
fn answer_alone(curve: &Synthetic, mut search: Search) -> (Answer, Vec<Measured>) {
    while let Some(probe) = search.next_alone() {
        search.add(curve.measure(probe));
        let (answer, measured) = (search.best(), search.measured());
        let held = |load| {
            measured
                .iter()
                .filter(|one| one.probe.load == load)
                .all(|one| one.margins.iter().all(|margin| *margin >= 0.0))
        };
        assert!(answer.found.load().is_none_or(held), "{curve:?}: claims more than was measured: {answer:?}");
    }
    (search.best(), search.measured().to_vec())
}

/// A hundred curves, equally many of each kind, with and without scatter. Each search starts at up to twice or half
/// the answer.
fn hundred(set: u64) -> Vec<(Synthetic, Search)> {
    let curves = (0..100).map(|n| {
        let of = |what| random(n * 16 + what, set);
        let kind = match n % 5 {
            0 => Kind::Queue { room: 4.0 + 16.0 * of(0) },
            1 => Kind::Cliff,
            2 => Kind::Throughput,
            3 => Kind::Ripple,
            _ => Kind::Island,
        };
        // A fifth between equal runs, as of the 99th percentile of latencies.
        let scattering = kind == Kind::Throughput || matches!(kind, Kind::Queue { .. }) && n % 2 == 0;
        let noise = if scattering { 0.1 * of(1) } else { 0.0 };
        let curve = Synthetic { kind, at: 300.0 * 400.0_f64.powf(of(2)), noise, salt: 2 * n };
        let start = curve.at * 2.0_f64.powf(2.0 * of(3) - 1.0);
        (curve, Search::new((start / 64.0) as u64, (start * 64.0) as u64, start as u64, 1))
    });
    curves.collect()
}

#[test]
fn answers_are_within_3_percent_and_not_above_the_truth_on_95_of_100_curves() {
    let (mut all, mut sets) = (0, 0);
    for set in 0..10 {
        let (mut close, mut above, mut covered) = (0, 0, 0);
        for (curve, search) in hundred(set) {
            let (answer, measured) = answer_of(&curve, search);
            let (load, truth) = (answer.found.load().expect("a load is carried") as f64, curve.truth());
            close += u32::from((load / truth - 1.0).abs() <= 0.03);
            above += u32::from(load > truth * 1.001);
            let (low, high) = answer.interval.expect("there is a bracket");
            covered += u32::from((low / 1.001..=high).contains(&truth));
            all += measured.len();
        }
        assert!(close >= 95 && above <= 5 && covered >= 90, "set {set}: {close} {above} {covered}");
        sets += 1;
    }
    assert!(all <= sets * 1_000, "10 measurements for each on average, not {all} in {sets} sets");
}

#[test]
fn loads_that_are_measured_one_at_a_time_give_answers_as_close_with_no_more_measurements() {
    let (mut close, mut above, mut all) = (0, 0, 0);
    for (curve, search) in (40..44).flat_map(hundred) {
        let (answer, measured) = answer_alone(&curve, search);
        let (load, truth) = (answer.found.load().expect("a load is carried") as f64, curve.truth());
        close += u32::from((load / truth - 1.0).abs() <= 0.03);
        above += u32::from(load > truth * 1.001);
        all += measured.len();
    }
    assert!(close >= 380 && above <= 20 && all <= 4_000, "{close} {above} {all}");
}

#[test]
fn no_measurement_at_the_answer_broke_a_limit_and_none_is_outside_the_range_or_beyond_the_number_allowed() {
    for (curve, search) in (10..14).flat_map(hundred) {
        let (least, most) = ((curve.at / 128.0) as u64, (curve.at * 128.0) as u64);
        let (answer, measured) = answer_of(&curve, search);
        let load = answer.found.load().expect("a load is carried");
        let here: Vec<&Measured> = measured.iter().filter(|one| one.probe.load == load).collect();
        assert!(
            here.iter().all(|one| one.margins.iter().all(|margin| *margin >= 0.0)),
            "{curve:?} {answer:?}"
        );
        assert!(!here.is_empty() && measured.len() <= PROBES_MAX, "{curve:?}: {measured:?}");
        assert!(
            measured.iter().all(|one| (least..=most).contains(&one.probe.load)),
            "{curve:?}: {measured:?}"
        );
    }
}

fn quiet(kind: Kind, at: f64) -> Synthetic {
    Synthetic { kind, at, noise: 0.0, salt: 0 }
}

#[test]
fn a_load_beyond_the_range_is_told_as_none_in_range_and_not_as_an_edge() {
    let curve = quiet(Kind::Queue { room: 10.0 }, 1_000.0);
    let (answer, measured) = answer_of(&curve, Search::new(2_000, 100_000, 10_000, 1));
    assert_eq!((answer.found, answer.interval, answer.shape), (Found::NoneInRange(2_000), None, None));
    assert!(answer.limits[0].margin < 0.0, "{answer:?}");
    assert_eq!(answer.found.load(), None);
    assert!(measured.len() <= PROBES_MAX);
    for answer_of in [answer_of, answer_alone] {
        let (answer, measured) = answer_of(&curve, Search::new(1, 500, 100, 1));
        assert_eq!((answer.found, answer.interval), (Found::AtLeast(500), None));
        assert!(measured.iter().filter(|one| one.probe.load == 500).count() >= 2, "looked at twice");
        let (answer, _) = answer_of(&curve, Search::new(2_000, 100_000, 10_000, 1));
        assert_eq!(answer.found, Found::NoneInRange(2_000));
    }
}

#[test]
fn a_cliff_is_told_from_a_slope_and_the_next_limit_has_its_place() {
    let shape_of = |kind| {
        let (answer, _) = answer_of(&quiet(kind, 5_000.0), Search::new(1, 1_000_000, 4_000, 1));
        assert_eq!((answer.limits[0].index, answer.limits[1].index), (0, 1));
        assert!(answer.limits[0].at.is_some_and(|at| (at / 5_000.0 - 1.0).abs() < 0.03), "{answer:?}");
        answer.shape
    };
    assert_eq!(shape_of(Kind::Cliff), Some(Shape::Cliff));
    assert_eq!(shape_of(Kind::Throughput), Some(Shape::Slope));
    assert_eq!(shape_of(Kind::Queue { room: 6.0 }), Some(Shape::Slope));
}

#[test]
fn measurements_in_another_order_give_the_same_step() {
    let (curve, mut search) = hundred(20).swap_remove(0);
    let mut other = search.clone();
    while let Step::Measure(probes) = search.step() {
        assert_eq!(other.step(), Step::Measure(probes.clone()));
        probes.iter().for_each(|probe| search.add(curve.measure(*probe)));
        probes.iter().rev().for_each(|probe| other.add(curve.measure(*probe)));
    }
    assert_eq!(search.step(), other.step());
}

/// A search from above meets the range of loads that hold again before it meets the answer.
#[test]
fn a_load_that_holds_between_loads_that_do_not_is_no_answer() {
    let curve = quiet(Kind::Island, 10_000.0);
    for start in [11_000, 16_000, 18_000, 25_000, 26_000] {
        let (answer, measured) = answer_of(&curve, Search::new(1, 1_000_000, start, 1));
        let load = answer.found.load().expect("a load is carried") as f64;
        assert!((0.97..=1.0).contains(&(load / curve.truth())), "from {start}: {load}, {measured:?}");
    }
}

/// A light load has few operations in a sample, so one slow operation makes a bad sample.
#[test]
fn a_worst_sample_that_a_higher_load_keeps_is_no_limit_of_the_load_and_one_that_none_keeps_is() {
    let answer_from = |start, most, worst: &dyn Fn(f64) -> f64| {
        let mut search = Search::new(1, most, start, 1).with_worst(vec![1]);
        while let Step::Measure(probes) = search.step() {
            for probe in probes {
                let load = probe.load as f64;
                search.add(Measured { probe, margins: vec![-1.5 * (load / 12_000.0).ln(), worst(load)] });
            }
        }
        (search.best(), search.measured().len())
    };
    let answer_where = |worst_breaks: &dyn Fn(f64) -> bool, most| {
        answer_from(10_000, most, &|load| if worst_breaks(load) { -0.2 } else { 0.3 }).0
    };
    let light = |load: f64| (3_500.0..9_000.0).contains(&load);
    let near = |found: Found, wanted: f64| matches!(found, Found::Carried(load) if (0.97..=1.0).contains(&(load as f64 / wanted)));
    let answer = answer_where(&light, 1_000_000);
    assert!(near(answer.found, 12_000.0) && answer.limits[0].index == 0, "{answer:?}");
    assert_eq!(answer_where(&light, 11_000).found, Found::AtLeast(11_000));
    let answer = answer_where(&|load| load >= 3_500.0, 1_000_000);
    assert!(near(answer.found, 3_500.0) && answer.limits[0].index == 1, "{answer:?}");

    // The search may start in the light loads, or meet them on its way up.
    let better = |load: f64| if load < 3_500.0 { 0.3 } else { (load / 9_000.0).ln() };
    for start in [2_500, 4_000, 5_600, 7_071] {
        let (answer, simulations) = answer_from(start, 1_000_000, &better);
        assert!(near(answer.found, 12_000.0) && answer.limits[0].index == 0, "{start}: {answer:?}");
        assert!(simulations <= PROBES_MAX, "{start}: {simulations}");
    }
    let (answer, simulations) = answer_from(7_071, 1_000_000, &|load| -(load / 3_500.0).ln());
    assert!(near(answer.found, 3_500.0) && answer.limits[0].index == 1, "{answer:?}");
    assert!(simulations <= PROBES_MAX, "{simulations}");
}

#[test]
fn a_limit_that_does_not_count_at_a_load_has_no_place_there() {
    let mut search = Search::new(1, 12_000, 10_000, 1).with_worst(vec![0]);
    for (load, worst) in [(3_000, 0.3), (7_000, -0.2), (10_000, 0.05), (12_000, 0.05)] {
        search.add(Measured { probe: Probe { load, seed: 1 }, margins: vec![worst] });
    }
    let answer = search.best();
    assert_eq!((answer.found, answer.limits[0].at), (Found::AtLeast(12_000), None), "{answer:?}");
}

/// Equal runs scatter like a 99th percentile: two thirds of them lie within a fifth of each other.
#[test]
fn where_equal_runs_scatter_by_a_fifth_the_answer_is_not_above_the_truth_in_95_percent_and_the_interval_holds_it_in_90()
 {
    let (mut above, mut covered) = (0, 0);
    for n in 0..400 {
        let of = |what| random(n * 16 + what, 77);
        let curve = Synthetic {
            kind: Kind::Queue { room: 4.0 + 16.0 * of(0) },
            at: 300.0 * 400.0_f64.powf(of(1)),
            noise: 0.1,
            salt: n,
        };
        let start = (curve.at * 2.0_f64.powf(2.0 * of(2) - 1.0)) as u64;
        let (answer, _) = answer_of(&curve, Search::new(1, start * 64, start, 1));
        above += u32::from(answer.found.load().expect("a load is carried") as f64 > curve.truth() * 1.001);
        let (low, high) = answer.interval.expect("there is a bracket");
        covered += u32::from((low / 1.001..=high).contains(&curve.truth()));
    }
    assert!(above <= 20 && covered >= 360, "{above} above, {covered} covered of 400");
}
