//! Medians and quantiles of measurements.

pub(crate) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() % 2 {
        _ if sorted.is_empty() => f64::NAN,
        0 => f64::midpoint(sorted[middle - 1], sorted[middle]),
        _ => sorted[middle],
    }
}

/// The value that this part of the values, from 0 to 1, do not exceed. The values are sorted.
pub(crate) fn quantile(sorted: &[f64], part: f64) -> f64 {
    #[allow(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "an index among some thousands"
    )]
    let rank = (sorted.len() as f64 * part).ceil() as usize;
    sorted.get(rank.max(1) - 1).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_is_the_value_at_its_rank() {
        let times: Vec<f64> = (1..=100).map(f64::from).collect();
        let values = [0.5, 0.99, 1.0].map(|part| quantile(&times, part));
        assert_eq!(values, [50.0, 99.0, 100.0]);
        assert!(quantile(&[], 0.5).is_nan());
    }

    #[test]
    fn the_median_is_the_middle_or_between_the_two_middles() {
        assert!(median(&[]).is_nan());
        assert_eq!(median(&[3.0]), 3.0);
        assert_eq!(median(&[9.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 90.0]), 3.0);
    }
}
