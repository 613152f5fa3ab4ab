//! Draws a run as an SVG: latencies, failures, faults and resources over time.

use crate::soak::bars::processes;
use crate::soak::records::{Records, Sample, Slot};
use crate::timeline::{Line, Timeline};

/// The run as a picture.
pub(crate) fn draw(records: &Records) -> String {
    let seconds = records.number("/seconds").max(1.0);
    let title = format!(
        "Soak: {:.0} minutes, seed {}, {} faults (red)",
        seconds / 60.0,
        records.number("/seed"),
        records.faults.len()
    );
    let faults = records.faults.iter().map(|it| (it.began, it.ended));
    let mut plot = Timeline::new(&title, seconds, faults);
    let times = |pick: fn(&Slot) -> f64| by_class(&records.slots, pick);
    plot.panel("p99, ms", times(|it| it.p99_ms));
    plot.panel("p50, ms", times(|it| it.p50_ms));
    plot.panel("answered", times(|it| it.answered));
    plot.panel("failed", times(|it| it.failed));
    plot.panel("memory, MB", by_process(&records.samples, 0, 1024.0));
    plot.panel("file descriptors", by_process(&records.samples, 1, 1.0));
    plot.panel("threads", by_process(&records.samples, 2, 1.0));
    plot.finish()
}

/// A line for each kind of request.
fn by_class(slots: &[Slot], pick: fn(&Slot) -> f64) -> Vec<Line<'_>> {
    let mut lines: Vec<Line<'_>> = Vec::new();
    for slot in slots {
        let point = (slot.seconds, pick(slot));
        match lines.iter_mut().find(|(class, _)| *class == slot.class) {
            Some((_, points)) => points.push(point),
            None => lines.push((&slot.class, vec![point])),
        }
    }
    lines
}

/// A line for each kind of process: the largest value of its replicas.
fn by_process(samples: &[Sample], place: usize, unit: f64) -> Vec<Line<'_>> {
    let lines = processes(samples).into_iter().map(|process| {
        let mut points: Vec<(f64, f64)> = Vec::new();
        for sample in samples.iter().filter(|it| it.process == process) {
            let value = sample.values[place] / unit;
            match points.last_mut() {
                // Replicas are looked at one right after another.
                Some((at, largest)) if sample.seconds - *at < 0.5 => *largest = largest.max(value),
                _ => points.push((sample.seconds, value)),
            }
        }
        (process, points)
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::soak::records::Fault;

    #[test]
    fn faults_and_values_are_drawn_at_their_times() {
        let sample = |seconds, fds| Sample {
            seconds,
            process: "gateway".to_owned(),
            values: [1024.0, fds, 1.0, 1.0],
        };
        let records = Records {
            outcome: json!({"seconds": 100.0, "seed": 7}),
            samples: vec![sample(0.0, 5.0), sample(0.1, 10.0), sample(100.0, 10.0)],
            slots: Vec::new(),
            faults: vec![Fault {
                began: 50.0,
                ended: 60.0,
            }],
        };
        let svg = draw(&records);
        assert!(svg.contains("d=\"M565.0 0h75.0v90h-75.0z\""), "{svg}");
        assert!(svg.contains("<use href=\"#faults\" y=\"40\"/>"), "{svg}");
        assert!(svg.contains("seed 7, 1 faults"), "{svg}");
        let descriptors = by_process(&records.samples, 1, 1.0);
        assert_eq!(descriptors, [("gateway", vec![(0.0, 10.0), (100.0, 10.0)])]);
    }
}
