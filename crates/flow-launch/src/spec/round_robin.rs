//! Assigns devices to replicas in turn (round-robin), where `CUDA_VISIBLE_DEVICES` starts with `RR`. Pure.
//!
//! After `RR` comes a selection of devices: a slice as in Python, a list of numbers, or a list of UUIDs, each with or
//! without brackets. Replica *j* gets device *j* of the selection, modulo its length.

use std::fmt;

/// The variable that CUDA reads.
pub const VARIABLE: &str = "CUDA_VISIBLE_DEVICES";

/// Start of a value of [`VARIABLE`] that assigns devices in turn.
const PREFIX: &str = "RR";

/// The value selects no devices.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{VARIABLE}: {value}` {reason}")]
pub struct DevicesError {
    value: String,
    reason: Reason,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Reason {
    /// It has none of the forms.
    Form,
    /// The number of devices is unknown.
    Unknown,
    /// It names a device that does not exist.
    Missing { device: i64, count: usize },
    /// It selects none of the devices.
    Nothing { count: usize },
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Form => f.write_str(
                "selects no devices: write `RR`, `RR0:2`, `RR1`, `RR0,2` or `RRGPU-…,GPU-…`",
            ),
            Self::Unknown => f.write_str(
                "assigns devices in turn, but `nvidia-smi -L` lists no devices; set CUDA_TOTAL_DEVICES to their number",
            ),
            Self::Missing { device, count } => write!(
                f,
                "names device {device}, but there are {count}, numbered from 0"
            ),
            Self::Nothing { count } => write!(f, "selects none of the {count} devices"),
        }
    }
}

/// Whether a value assigns devices in turn.
#[must_use]
pub fn is_round_robin(value: &str) -> bool {
    value.starts_with(PREFIX)
}

/// The devices that replicas take in turn; `None` for a value in CUDA's own form.
///
/// # Errors
/// If the value has none of the forms, or selects devices that do not exist. `count` is the number of devices; without
/// it, the numbers of a list are not checked.
pub fn devices(value: &str, count: Option<usize>) -> Result<Option<Vec<String>>, DevicesError> {
    let Some(choice) = value.strip_prefix(PREFIX) else {
        return Ok(None);
    };
    let choice = choice.trim();
    let choice = choice
        .strip_prefix('[')
        .and_then(|it| it.strip_suffix(']'))
        .unwrap_or(choice);
    choose(choice, count)
        .map(Some)
        .map_err(|reason| DevicesError {
            value: value.to_owned(),
            reason,
        })
}

/// The same selection as a list, which needs no number of devices.
///
/// # Errors
/// As [`devices`].
pub fn expanded(value: &str, count: Option<usize>) -> Result<String, DevicesError> {
    let devices = devices(value, count)?;
    Ok(devices.map_or_else(
        || value.to_owned(),
        |devices| format!("{PREFIX}{}", devices.join(",")),
    ))
}

fn choose(choice: &str, count: Option<usize>) -> Result<Vec<String>, Reason> {
    if let Some(ids) = ids(choice) {
        return Ok(ids);
    }
    let form = form(choice).ok_or(Reason::Form)?;
    if let (Form::List(numbers), None) = (&form, count) {
        let from_start = numbers.iter().all(|number| *number >= 0);
        let numbers = numbers.iter().map(ToString::to_string).collect();
        return from_start.then_some(numbers).ok_or(Reason::Unknown);
    }
    let count = count.filter(|it| *it > 0).ok_or(Reason::Unknown)?;
    let chosen = match form {
        Form::List(numbers) => numbers
            .into_iter()
            .map(|it| at(it, count))
            .collect::<Result<Vec<_>, _>>()?,
        Form::Slice(parts) => slice(parts, count),
    };
    if chosen.is_empty() {
        return Err(Reason::Nothing { count });
    }
    Ok(chosen.iter().map(ToString::to_string).collect())
}

enum Form {
    List(Vec<i64>),
    /// Start, stop and step.
    Slice([Option<i64>; 3]),
}

/// UUIDs of whole devices (`GPU-…`) or of parts of them (`MIG-…`).
fn ids(choice: &str) -> Option<Vec<String>> {
    let parts: Vec<&str> = choice.split(',').map(str::trim).collect();
    let is_id = |part: &&str| part.starts_with("GPU-") || part.starts_with("MIG-");
    let all = parts.iter().all(is_id);
    all.then(|| parts.into_iter().map(str::to_owned).collect())
}

fn form(choice: &str) -> Option<Form> {
    if choice.contains(':') {
        let mut parts = [None; 3];
        let written: Vec<&str> = choice.split(':').map(str::trim).collect();
        if written.len() > parts.len() {
            return None;
        }
        for (part, text) in parts.iter_mut().zip(written) {
            if !text.is_empty() {
                *part = Some(text.parse().ok()?);
            }
        }
        let [_, _, step] = parts;
        return (step != Some(0)).then_some(Form::Slice(parts));
    }
    if choice.is_empty() {
        return Some(Form::Slice([None; 3]));
    }
    let numbers = choice.split(',').map(|it| it.trim().parse().ok());
    numbers.collect::<Option<_>>().map(Form::List)
}

/// A number as Python indexes: a negative one counts from the end.
fn at(number: i64, count: usize) -> Result<usize, Reason> {
    let len = i64::try_from(count).unwrap_or(i64::MAX);
    let index = if number < 0 { number + len } else { number };
    let missing = Reason::Missing {
        device: number,
        count,
    };
    if (0..len).contains(&index) {
        usize::try_from(index).map_err(|_| missing)
    } else {
        Err(missing)
    }
}

/// A slice as in Python: numbers outside of the range are left out.
fn slice([start, stop, step]: [Option<i64>; 3], count: usize) -> Vec<usize> {
    let len = i64::try_from(count).unwrap_or(i64::MAX);
    let step = step.unwrap_or(1);
    let (low, high) = if step > 0 { (0, len) } else { (-1, len - 1) };
    let bound = |written: Option<i64>, missing: i64| match written {
        Some(it) if it < 0 => it.saturating_add(len).clamp(low, high),
        Some(it) => it.clamp(low, high),
        None => missing,
    };
    let (first, end) = if step > 0 { (low, high) } else { (high, low) };
    let (start, stop) = (bound(start, first), bound(stop, end));
    let mut chosen = Vec::new();
    let mut device = start;
    while (step > 0 && device < stop) || (step < 0 && device > stop) {
        chosen.extend(usize::try_from(device));
        device = device.saturating_add(step);
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(value: &str, count: usize, expected: &str) {
        let found = match devices(value, Some(count)) {
            Ok(Some(devices)) => devices.join(" "),
            Ok(None) => "CUDA's".to_owned(),
            Err(error) => error.to_string(),
        };
        assert_eq!(found, expected, "{value} of {count}");
    }

    #[test]
    fn every_form_of_jina_chooses_what_it_does_there() {
        check("RR", 4, "0 1 2 3");
        check("RR0:2", 4, "0 1");
        check("RR1", 4, "1");
        check("RR1:", 4, "1 2 3");
        check("RR:2", 4, "0 1");
        check("RR0,2", 4, "0 2");
        check("RR2,0", 4, "2 0");
        check("RR-1:", 4, "3");
        check("RR[0:2]", 4, "0 1");
        check("RR[1,3]", 4, "1 3");
        check("RRGPU-uuid1,GPU-uuid2", 4, "GPU-uuid1 GPU-uuid2");
        check("RRGPU-uuid1", 0, "GPU-uuid1");
        check("RRMIG-1, MIG-2", 0, "MIG-1 MIG-2");
        check("RR::2", 4, "0 2");
        check("RR::-1", 3, "2 1 0");
        check("RR-1", 4, "3");
        check("RR1:9", 4, "1 2 3");
    }

    #[test]
    fn other_values_are_left_to_cuda() {
        check("0,1", 4, "CUDA's");
        check("", 4, "CUDA's");
        assert!(
            is_round_robin("RR")
                && is_round_robin("RR0:2")
                && !is_round_robin("0")
                && !is_round_robin("")
        );
    }

    #[test]
    fn a_selection_of_nothing_is_refused_with_a_reason() {
        let form = "selects no devices: write `RR`, `RR0:2`, `RR1`, `RR0,2` or `RRGPU-…,GPU-…`";
        for value in ["RR0,1:3", "RRx", "RR0:1:2:3", "RR::0", "RR0,", "RRGPU-1,0"] {
            check(value, 4, &format!("`CUDA_VISIBLE_DEVICES: {value}` {form}"));
        }
        check(
            "RR0,4",
            4,
            "`CUDA_VISIBLE_DEVICES: RR0,4` names device 4, but there are 4, numbered from 0",
        );
        check(
            "RR4:",
            4,
            "`CUDA_VISIBLE_DEVICES: RR4:` selects none of the 4 devices",
        );
    }

    #[test]
    fn an_unknown_number_of_devices_is_an_error() {
        for (value, count) in [
            ("RR", None),
            ("RR", Some(0)),
            ("RR-1", None),
            ("RR0", Some(0)),
        ] {
            let error = devices(value, count).unwrap_err().to_string();
            assert!(error.contains("set CUDA_TOTAL_DEVICES"), "{error}");
        }
        assert_eq!(devices("0", None), Ok(None));
    }

    #[test]
    fn a_choice_that_is_written_out_needs_no_count() {
        let check = |value: &str, expected: &str| {
            let written = expanded(value, Some(3)).unwrap();
            assert_eq!(written, expected);
            assert_eq!(expanded(&written, None).unwrap(), expected);
        };
        check("RR", "RR0,1,2");
        check("RR1:", "RR1,2");
        check("RRGPU-a,GPU-b", "RRGPU-a,GPU-b");
        check("0,1", "0,1");
    }
}
