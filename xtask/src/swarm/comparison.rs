//! What a Swarm costs: the medians of what was measured through it and through flows on one machine.

use std::fmt::Write;

use anyhow::Context;

use crate::statistics::median;

/// Figures of one entrance, each with a value for each round.
#[derive(Debug)]
struct Entrance<'a> {
    name: &'a str,
    /// Documents per second, and the 50th, 90th and 99th percentile in ms.
    figures: [Vec<f64>; 4],
}

/// A row for each entrance, in the order in which they are in the file.
pub(super) fn table(text: &str) -> anyhow::Result<String> {
    let mut entrances: Vec<Entrance<'_>> = Vec::new();
    for line in text.lines().skip(1) {
        let mut parts = line.split(',').skip(1);
        let name = parts.next().unwrap_or_default();
        let index = match entrances.iter().position(|it| it.name == name) {
            Some(index) => index,
            None => {
                let figures = Default::default();
                entrances.push(Entrance { name, figures });
                entrances.len() - 1
            }
        };
        for (values, text) in entrances[index].figures.iter_mut().zip(parts) {
            let value = text.parse::<f64>();
            values.push(value.with_context(|| format!("`{text}` is not a number"))?);
        }
    }
    let mut table = "| flow | documents/s | one document, p50 ms | p90 ms | p99 ms |\n\
                     |---|---|---|---|---|\n"
        .to_owned();
    for Entrance { name, figures } in &entrances {
        let [speed, p50, p90, p99] = figures.each_ref().map(|values| median(values));
        writeln!(
            table,
            "| {name} | {speed:.0} | {p50:.2} | {p90:.2} | {p99:.2} |"
        )
        .expect("writing to a String cannot fail");
    }
    Ok(table)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_entrance_has_its_medians() {
        let text = "round,entrance,documents_per_s,alone_p50_ms,alone_p90_ms,alone_p99_ms\n\
                    1,one machine over TCP,1000,0.5,0.6,1.0\n\
                    1,Swarm,900,0.9,1.0,2.0\n\
                    2,one machine over TCP,1200,0.6,0.7,1.1\n\
                    3,one machine over TCP,1100,0.7,0.8,1.2\n";
        let table = table(text).unwrap();
        let rows: Vec<&str> = table.lines().skip(2).collect();
        let expected = [
            "| one machine over TCP | 1100 | 0.60 | 0.70 | 1.10 |",
            "| Swarm | 900 | 0.90 | 1.00 | 2.00 |",
        ];
        assert_eq!(rows, expected);
    }
}
