//! Chooses the best of the candidates that were measured.

use std::fmt;
use std::time::Duration;

use super::candidate::Candidate;

/// A candidate that comes earlier, and is simpler, is preferred if it has this part of the best rate: less is noise.
const CLOSE: f64 = 0.97;

/// What a candidate has to reach.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bars {
    /// The longest 99th percentile; `None` for any.
    pub(super) p99: Option<Duration>,
    /// The lowest cosine with f32.
    pub(super) cosine: f64,
}

/// How a candidate did.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Measurement {
    /// Texts per second.
    pub(super) rate: f64,
    pub(super) p50: Duration,
    pub(super) p99: Duration,
    /// The lowest cosine with f32.
    pub(super) cosine: f64,
}

impl Measurement {
    fn reaches(&self, bars: Bars) -> bool {
        bars.cosine <= self.cosine && bars.p99.is_none_or(|bar| self.p99 <= bar)
    }
}

impl fmt::Display for Measurement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |duration: Duration| duration.as_secs_f64() * 1e3;
        write!(
            f,
            "{:.0} texts/s, p50 {:.1} ms, p99 {:.1} ms, lowest cosine {:.6}",
            self.rate,
            ms(self.p50),
            ms(self.p99),
            self.cosine
        )
    }
}

/// The candidate with the highest rate of those that reach the bars, or the first one that is about as fast. `None` if none
/// reaches them.
pub(super) fn choose(measured: &[(Candidate, Measurement)], bars: Bars) -> Option<Candidate> {
    let good = || measured.iter().filter(|(_, it)| it.reaches(bars));
    let best = good().map(|(_, it)| it.rate).reduce(f64::max)?;
    let mut close = good().filter(|(_, it)| best * CLOSE <= it.rate);
    close.next().map(|(candidate, _)| *candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANY: Bars = Bars {
        p99: None,
        cosine: -1.0,
    };

    /// The number of threads of the chosen one, of candidates with this rate, milliseconds and cosine, which have 1, 2, … threads.
    #[track_caller]
    fn check(measured: &[(f64, u64, f64)], bars: Bars, wanted: Option<usize>) {
        let candidate = |(at, (rate, ms, cosine)): (usize, &(f64, u64, f64))| {
            let candidate = Candidate {
                precision: "f32",
                replicas: 1,
                threads: at + 1,
                batch_tokens: 1,
                colocate: false,
            };
            let p99 = Duration::from_millis(*ms);
            let measured = Measurement {
                rate: *rate,
                p50: p99,
                p99,
                cosine: *cosine,
            };
            (candidate, measured)
        };
        let measured: Vec<_> = measured.iter().enumerate().map(candidate).collect();
        assert_eq!(choose(&measured, bars).map(|it| it.threads), wanted);
    }

    #[test]
    fn the_fastest_wins_and_the_simpler_of_two_that_are_about_as_fast() {
        check(&[], ANY, None);
        check(&[(100.0, 1, 1.0), (200.0, 1, 1.0)], ANY, Some(2));
        check(&[(98.0, 1, 1.0), (100.0, 1, 1.0)], ANY, Some(1));
        check(&[(96.0, 1, 1.0), (100.0, 1, 1.0)], ANY, Some(2));
    }

    #[test]
    fn a_candidate_that_misses_a_bar_does_not_win() {
        let measured = [(100.0, 20, 1.0), (200.0, 60, 1.0), (300.0, 10, 0.9)];
        let bars = |ms, cosine| Bars {
            p99: Some(Duration::from_millis(ms)),
            cosine,
        };
        check(&measured, bars(50, 0.999), Some(1));
        check(&measured, bars(60, 0.999), Some(2));
        check(&measured, bars(50, 0.9), Some(3));
        check(&measured, bars(5, 0.9), None);
    }
}
