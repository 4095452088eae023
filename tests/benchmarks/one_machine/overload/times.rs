//! The arithmetic of the overload benchmark: when orders are due, rates, and percentiles.
//!
//! Times are milliseconds since the first order was due.

use std::time::Duration;

/// When orders are offered: at a constant rate, independent of how long they take.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    per_second: f64,
    total: u32,
}

impl Pace {
    /// `per_second` orders in each second, for `seconds`. The total is rounded to whole orders.
    pub fn new(per_second: f64, seconds: u32) -> Self {
        let total = (per_second * f64::from(seconds)).round();
        Self {
            per_second,
            // Casts from floating point saturate.
            total: total as u32,
        }
    }

    /// The number of orders that are due `elapsed` after the start: the first at once, and one more after each
    /// period, up to the total.
    pub fn due(self, elapsed: Duration) -> u32 {
        let periods = (elapsed.as_secs_f64() * self.per_second).floor();
        (periods as u32).saturating_add(1).min(self.total)
    }

    /// When order `n`, counted from 0, is due, in milliseconds after the start.
    pub fn at_ms(self, n: u32) -> u32 {
        (f64::from(n) / self.per_second * 1000.0).round() as u32
    }
}

/// The number of times from `from_ms` up to but not including `to_ms`, per second; 0 if the span is empty.
pub fn rate(times_ms: impl Iterator<Item = u32>, from_ms: u32, to_ms: u32) -> f64 {
    if from_ms >= to_ms {
        return 0.0;
    }
    let inside = times_ms.filter(|t| (from_ms..to_ms).contains(t)).count();
    inside as f64 * 1000.0 / f64::from(to_ms - from_ms)
}

/// The rate per second in each whole slice of `slice_ms` from 0 up to the last of the times. An incomplete last slice
/// is left out.
///
/// # Panics If `slice_ms` is 0.
pub fn slices(times_ms: &[u32], slice_ms: u32) -> Vec<f64> {
    let last = times_ms.iter().max().copied().unwrap_or(0);
    let mut counts = vec![0_u32; (last / slice_ms) as usize];
    for time in times_ms {
        if let Some(count) = counts.get_mut((time / slice_ms) as usize) {
            *count += 1;
        }
    }
    counts
        .into_iter()
        .map(|count| f64::from(count) * 1000.0 / f64::from(slice_ms))
        .collect()
}

/// The smallest value and the median; for an even number of values the upper of the two in the middle. `None` without
/// values.
pub fn min_and_median(values: &[f64]) -> Option<(f64, f64)> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    Some((*sorted.first()?, *sorted.get(sorted.len() / 2)?))
}

/// The `percent`th percentile: the smallest of the times that at least `percent` in a hundred do not exceed. `sorted`
/// is in ascending order; `None` if it is empty.
pub fn percentile(sorted: &[u32], percent: usize) -> Option<u32> {
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted.get(rank.saturating_sub(1)).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_are_due_one_period_after_another() {
        let pace = Pace::new(4.0, 2);
        let due = |ms| pace.due(Duration::from_millis(ms));
        assert_eq!(
            [due(0), due(249), due(250), due(999), due(1000)],
            [1, 1, 2, 4, 5]
        );
        assert_eq!(due(60_000), 8, "never more than the total");
        assert_eq!(
            [pace.at_ms(0), pace.at_ms(1), pace.at_ms(7)],
            [0, 250, 1750]
        );
    }

    #[test]
    fn a_pace_below_one_a_second_is_kept() {
        let pace = Pace::new(0.5, 4);
        assert_eq!(pace.due(Duration::from_millis(1999)), 1);
        assert_eq!(pace.due(Duration::from_millis(2000)), 2);
        assert_eq!(pace.due(Duration::from_secs(60)), 2);
    }

    #[test]
    fn a_pace_of_nothing_offers_nothing() {
        assert_eq!(Pace::new(0.0, 10).due(Duration::from_secs(5)), 0);
    }

    #[test]
    fn a_rate_counts_its_span_without_its_end() {
        let times = [0, 499, 500, 1499, 1500, 9000];
        assert!((rate(times.into_iter(), 500, 1500) - 2.0).abs() < 1e-9);
        assert!(rate(times.into_iter(), 500, 500).abs() < 1e-9);
    }

    #[test]
    fn only_whole_slices_count() {
        assert_eq!(slices(&[1, 5, 999, 1000, 3500], 1000), [3.0, 1.0, 0.0]);
        assert_eq!(slices(&[1, 5], 1000), [0.0; 0]);
        assert_eq!(slices(&[], 1000), [0.0; 0]);
    }

    #[test]
    fn min_and_median_of_the_slices() {
        assert_eq!(min_and_median(&[]), None);
        assert_eq!(min_and_median(&[7.0]), Some((7.0, 7.0)));
        assert_eq!(min_and_median(&[9.0, 1.0, 5.0]), Some((1.0, 5.0)));
        assert_eq!(min_and_median(&[9.0, 1.0, 5.0, 6.0]), Some((1.0, 6.0)));
    }

    #[test]
    fn a_percentile_is_a_time_that_was_seen() {
        let hundred: Vec<u32> = (1..=100).collect();
        assert_eq!(percentile(&hundred, 50), Some(50));
        assert_eq!(percentile(&hundred, 99), Some(99));
        assert_eq!(percentile(&[3, 8], 99), Some(8));
        assert_eq!(percentile(&[3], 50), Some(3));
        assert_eq!(percentile(&[], 50), None);
    }
}
