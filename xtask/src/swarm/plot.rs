//! Draws a run as an SVG: times of requests, replies and second attempts, while engines fail.

use crate::statistics::quantile;
use crate::swarm::records::Request;
use crate::timeline::Timeline;

/// Events that begin a fault. The next event ends it.
const FAULTS: [&str; 2] = ["engine killed", "engine cut off"];

/// The requests of one second.
#[derive(Debug, Default, Clone)]
struct Second {
    /// Of requests that were to leave in it, in ascending order.
    took_ms: Vec<f64>,
    /// How many of these were sent again.
    sent_again: f64,
    /// Replies that came in it.
    answered: f64,
}

/// The run as a picture.
pub(crate) fn draw(requests: &[Request], events: &[(f64, &str)]) -> String {
    let seconds = seconds(requests);
    let length = requests.last().map_or(0.0, |it| it.due_s);
    // The last second has fewer requests than the others.
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "seconds of a run"
    )]
    let whole = length as usize;
    #[allow(clippy::cast_precision_loss, reason = "seconds of a run")]
    let points = |pick: fn(&Second) -> f64| {
        let values = seconds[..whole].iter().map(pick).enumerate();
        // A second without requests has no times.
        let known = values.filter(|(_, value)| value.is_finite());
        known.map(|(at, value)| (at as f64, value)).collect()
    };
    let names: Vec<&str> = events
        .iter()
        .map(|it| it.1)
        .filter(|it| FAULTS.contains(it))
        .collect();
    let title = match names.is_empty() {
        true => "Swarm: requests while the stack changes".to_owned(),
        false => format!(
            "Swarm: requests while there are faults (red): {}",
            names.join(", ")
        ),
    };
    let mut plot = Timeline::new(&title, length, faults(events, length));
    plot.panel(
        "slowest, ms",
        vec![("", points(|it| quantile(&it.took_ms, 1.0)))],
    );
    plot.panel(
        "p50, ms",
        vec![("", points(|it| quantile(&it.took_ms, 0.5)))],
    );
    plot.panel("replies/s", vec![("", points(|it| it.answered))]);
    plot.panel("sent again/s", vec![("", points(|it| it.sent_again))]);
    plot.finish()
}

/// What happened in each second.
fn seconds(requests: &[Request]) -> Vec<Second> {
    let mut seconds: Vec<Second> = Vec::new();
    for request in requests {
        let due = second(&mut seconds, request.due_s);
        due.took_ms.push(request.took_ms);
        due.sent_again += f64::from(u8::from(request.attempts > 1));
        second(&mut seconds, request.due_s + request.took_ms / 1000.0).answered += 1.0;
    }
    for second in &mut seconds {
        second.took_ms.sort_by(f64::total_cmp);
    }
    seconds
}

fn second(seconds: &mut Vec<Second>, time_s: f64) -> &mut Second {
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a time since the start of a run"
    )]
    let at = time_s as usize;
    seconds.resize(seconds.len().max(at + 1), Second::default());
    &mut seconds[at]
}

fn faults(events: &[(f64, &str)], end: f64) -> impl Iterator<Item = (f64, f64)> {
    let spans = events.iter().enumerate().map(move |(index, (from, name))| {
        let to = events.get(index + 1).map_or(end, |next| next.0);
        (*name, *from, to)
    });
    let faults = spans.filter(|(name, ..)| FAULTS.contains(name));
    faults.map(|(_, from, to)| (from, to))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_lasts_until_the_next_event() {
        let events = [
            (0.0, "all engines run"),
            (2.0, "engine killed"),
            (5.0, "engine started again"),
            (8.0, "engine cut off"),
        ];
        let faults: Vec<_> = faults(&events, 9.0).collect();
        assert_eq!(faults, [(2.0, 5.0), (8.0, 9.0)]);
    }

    #[test]
    fn requests_are_drawn_when_they_were_due_and_replies_when_they_came() {
        let request = |due_s, took_ms, attempts| Request {
            due_s,
            took_ms,
            attempts,
        };
        let seconds = seconds(&[
            request(0.1, 3.0, 1),
            request(0.9, 1.0, 1),
            request(2.5, 900.0, 2),
        ]);
        let read: Vec<(usize, f64, f64)> = seconds
            .iter()
            .map(|it| (it.took_ms.len(), it.sent_again, it.answered))
            .collect();
        assert_eq!(
            read,
            [(2, 0.0, 2.0), (0, 0.0, 0.0), (1, 1.0, 0.0), (0, 0.0, 1.0)]
        );
        assert_eq!(seconds[0].took_ms, [1.0, 3.0]);
    }
}
