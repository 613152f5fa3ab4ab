//! Explains the results of the experiments, in one sentence each.

use super::experiments::{Experiments, Figures, Pair};

/// Ratios nearer to 1 than this are called the same.
const SAME: f64 = 0.1;

pub(super) fn sentences(
    experiments: &Experiments,
    figures: &[Figures],
    pair: Option<&Pair>,
) -> Vec<String> {
    let Some((cpu, gpus)) = figures.split_first() else {
        return Vec::new();
    };
    let mut sentences = vec![models(cpu)];
    for gpu in gpus {
        sentences.push(large(cpu, gpu));
        sentences.push(small(experiments, cpu, gpu));
        sentences.push(fetching(gpu));
        sentences.push(models(gpu));
    }
    sentences.extend(pair.map(two_gpus));
    sentences
}

fn large(cpu: &Figures, gpu: &Figures) -> String {
    let (device, ratio) = (&gpu.device, cpu.large_s / gpu.large_s);
    if ratio > 1.0 {
        format!(
            "{device} does a large product {ratio:.1} × as fast as the processor: there is work for all its cores."
        )
    } else {
        format!("{device} does a large product no faster than the processor ({ratio:.2} ×).")
    }
}

fn small(experiments: &Experiments, cpu: &Figures, gpu: &Figures) -> String {
    let device = &gpu.device;
    let (small, large) = (cpu.small_s / gpu.small_s, cpu.large_s / gpu.large_s);
    let each = gpu.small_s / experiments.small as f64 * 1e6;
    if small < large {
        format!(
            "Of small products {device} does {small:.1} × as many as the processor: {each:.1} µs each, most of which is for starting them. Give it large ones, or many in one."
        )
    } else {
        format!("Small products gain as much from {device} as a large one ({small:.1} ×).")
    }
}

fn fetching(gpu: &Figures) -> String {
    let (device, ratio) = (&gpu.device, gpu.one_by_one_s / gpu.small_s);
    format!(
        "Fetching each result from {device} takes {ratio:.1} × as long as fetching their sum once: it is idle while a result travels. Keep results there until all are done."
    )
}

fn models(figures: &Figures) -> String {
    let (device, ratio) = (
        &figures.device,
        figures.in_sequence_s / figures.side_by_side_s,
    );
    if ratio > 1.0 + SAME {
        format!(
            "Two models side by side are {ratio:.2} × as fast on {device} as one after the other: one alone leaves cores idle."
        )
    } else if ratio < 1.0 - SAME {
        format!(
            "Two models side by side are slower on {device} than one after the other ({ratio:.2} ×): they are in each other's way."
        )
    } else {
        format!(
            "Two models side by side take as long on {device} as one after the other ({ratio:.2} ×): one alone keeps it busy."
        )
    }
}

fn two_gpus(pair: &Pair) -> String {
    let ([first, second], ratio) = (&pair.devices, pair.one_gpu_s / pair.two_gpus_s);
    format!(
        "{first} and {second} together are {ratio:.2} × as fast with a model each as {first} with both: `device: cuda:all` shares work so."
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(device: &str, scale: f64) -> Figures {
        Figures {
            device: device.to_owned(),
            large_s: scale,
            small_s: 0.01,
            one_by_one_s: 0.05,
            in_sequence_s: 2.0,
            side_by_side_s: 1.0,
        }
    }

    fn said(gpus: &[Figures], pair: Option<&Pair>) -> String {
        let experiments = Experiments {
            side: 1,
            small: 1000,
            rounds: 1,
        };
        let all: Vec<Figures> = [figures("cpu", 1.0)]
            .into_iter()
            .chain(gpus.to_vec())
            .collect();
        sentences(&experiments, &all, pair).join("\n")
    }

    #[test]
    fn a_gpu_is_judged_by_its_ratios() {
        let said = said(&[figures("cuda:0 X", 0.01)], None);
        for part in [
            "cuda:0 X does a large product 100.0 × as fast",
            "does 1.0 × as many as the processor: 10.0 µs each",
            "takes 5.0 × as long",
            "side by side are 2.00 × as fast on cuda:0 X",
        ] {
            assert!(said.contains(part), "{said}");
        }
    }

    #[test]
    fn a_gpu_that_is_no_faster_is_not_praised() {
        let said = said(&[figures("cuda:0 X", 2.0)], None);
        assert!(
            said.contains("no faster than the processor (0.50 ×)"),
            "{said}"
        );
        assert!(said.contains("gain as much"), "{said}");
    }

    #[test]
    fn without_a_gpu_only_the_processor_is_reported() {
        assert_eq!(said(&[], None).lines().count(), 1);
    }

    #[test]
    fn two_gpus_are_compared_with_one() {
        let pair = Pair {
            devices: ["a".to_owned(), "b".to_owned()],
            one_gpu_s: 1.9,
            two_gpus_s: 1.0,
        };
        assert!(said(&[], Some(&pair)).contains("a and b together are 1.90 ×"));
    }
}
