//! The columns of the table of processes: what they show, by what they sort, and which of them fit. Pure.

use std::cmp::Ordering;
use std::time::Duration;

use super::model::Row;
use super::rates::Rates;
use crate::layout::width;

/// A column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Column {
    Process,
    State,
    Requests,
    Failed,
    P50,
    P99,
    Queue,
    Active,
    Cpu,
    Memory,
    Restarts,
    Uptime,
    Pid,
    Address,
}

/// From left to right.
pub(super) const ALL: [Column; 14] = [
    Column::Process,
    Column::State,
    Column::Requests,
    Column::Failed,
    Column::P50,
    Column::P99,
    Column::Queue,
    Column::Active,
    Column::Cpu,
    Column::Memory,
    Column::Restarts,
    Column::Uptime,
    Column::Pid,
    Column::Address,
];

/// Left out first on narrow terminals, before names are shortened.
const SPARE: [Column; 4] = [
    Column::Address,
    Column::Pid,
    Column::Uptime,
    Column::Restarts,
];

/// Left out when names are as short as can be.
const OPTIONAL: [Column; 8] = [
    Column::P50,
    Column::Memory,
    Column::Queue,
    Column::Active,
    Column::Failed,
    Column::Cpu,
    Column::P99,
    Column::State,
];

/// Names are not made shorter than this while there are optional columns: `encoder/rep-0` fits.
const NAME_WIDTH_MIN: usize = 13;

/// Longer names are shortened on every terminal.
const NAME_WIDTH_MAX: usize = 40;

/// What is shown of a value that is not known.
const UNKNOWN: &str = "–";

/// The order of the rows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Sort {
    /// `None` is the order of the flow.
    pub(super) column: Option<Column>,
    pub(super) is_reversed: bool,
}

/// A value by which rows are sorted.
#[derive(Debug, Clone, PartialEq)]
enum Key {
    Text(String),
    /// `None` if it is not known.
    Number(Option<f64>),
}

impl Column {
    /// Its heading.
    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Process => "Process",
            Self::State => "State",
            Self::Requests => "Req/s",
            Self::Failed => "Fail/s",
            Self::P50 => "p50",
            Self::P99 => "p99",
            Self::Queue => "Queue",
            Self::Active => "Active",
            Self::Cpu => "CPU",
            Self::Memory => "Memory",
            Self::Restarts => "Restarts",
            Self::Uptime => "Uptime",
            Self::Pid => "Pid",
            Self::Address => "Address",
        }
    }

    /// Its description in the help; `None` if the title is enough.
    pub(super) fn meaning(self) -> Option<&'static str> {
        Some(match self {
            Self::Process => "NODE@ADDRESS is an executor that runs elsewhere",
            Self::State => "as in `flow ps`; ejected: the gateway cannot reach it",
            Self::Requests => "requests a second, over the last 5 seconds",
            Self::Failed => "those of them that failed",
            Self::P50 => "half of the requests took no longer",
            Self::P99 => "99 % of the requests took no longer",
            Self::Queue => "requests that wait for a worker, or to be admitted",
            Self::Active => "requests in progress, waiting ones included",
            Self::Cpu => "100 % is one core",
            Self::Memory | Self::Restarts | Self::Uptime | Self::Pid | Self::Address => {
                return None;
            }
        })
    }

    /// Columns of the terminal that it takes, with the blank before it; 0 for as many as its texts need.
    fn width(self) -> usize {
        match self {
            Self::Process => 0,
            Self::State | Self::Restarts => 9,
            Self::Requests | Self::Memory | Self::Pid => 8,
            Self::Failed | Self::P50 | Self::P99 | Self::Active | Self::Uptime => 7,
            Self::Queue | Self::Cpu => 6,
            Self::Address => 22,
        }
    }

    /// Whether it is text, which is aligned to the left and sorted from A to Z.
    pub(super) fn is_text(self) -> bool {
        matches!(self, Self::Process | Self::State | Self::Address)
    }

    /// The text of a cell, without control characters being escaped.
    pub(super) fn text(self, row: &Row) -> String {
        let rate = |of: fn(&Rates) -> f64| row.rates.as_ref().map(|it| rate(of(it)));
        let latency = |of: fn(&Rates) -> Option<Duration>| {
            let time = row.rates.as_ref().and_then(of);
            time.map(short_time)
        };
        let text = match self {
            Self::Process => Some(row.name.clone()),
            Self::State => Some(row.state.name().to_owned()),
            Self::Requests => rate(|it| it.per_second),
            Self::Failed => rate(|it| it.failed_per_second),
            Self::P50 => latency(|it| it.p50),
            Self::P99 => latency(|it| it.p99),
            Self::Queue => row.waiting.map(|it| it.to_string()),
            Self::Active => row.in_progress.map(|it| it.to_string()),
            Self::Cpu => row.cpu_percent.map(|it| format!("{it:.0}%")),
            Self::Memory => row.memory_bytes.map(memory),
            Self::Restarts => row.restarts.map(|it| it.to_string()),
            Self::Uptime => row.uptime.map(age),
            Self::Pid => row.pid.map(|it| it.to_string()),
            Self::Address => row.address.clone(),
        };
        text.unwrap_or_else(|| UNKNOWN.to_owned())
    }

    #[allow(
        clippy::cast_precision_loss,
        reason = "the order of such large numbers does not matter"
    )]
    fn key(self, row: &Row) -> Key {
        let rates = row.rates.as_ref();
        let number = match self {
            Self::Process | Self::State | Self::Address => return Key::Text(self.text(row)),
            Self::Requests => rates.map(|it| it.per_second),
            Self::Failed => rates.map(|it| it.failed_per_second),
            Self::P50 => rates.and_then(|it| it.p50).map(|it| it.as_secs_f64()),
            Self::P99 => rates.and_then(|it| it.p99).map(|it| it.as_secs_f64()),
            Self::Queue => row.waiting.map(|it| it as f64),
            Self::Active => row.in_progress.map(|it| it as f64),
            Self::Cpu => row.cpu_percent,
            Self::Memory => row.memory_bytes.map(|it| it as f64),
            Self::Restarts => row.restarts.map(f64::from),
            Self::Uptime => row.uptime.map(|it| it.as_secs_f64()),
            Self::Pid => row.pid.map(f64::from),
        };
        Key::Number(number)
    }
}

impl Sort {
    /// The largest number or the first text comes first; what is not known comes last, whatever the direction.
    pub(super) fn apply(self, rows: &mut [Row]) {
        let Some(column) = self.column else {
            if self.is_reversed {
                rows.reverse();
            }
            return;
        };
        rows.sort_by(|a, b| {
            let (order, can_be_reversed) = match (column.key(a), column.key(b)) {
                (Key::Number(Some(a)), Key::Number(Some(b))) => (b.total_cmp(&a), true),
                (Key::Number(a), Key::Number(b)) => (b.is_some().cmp(&a.is_some()), false),
                (Key::Text(a), Key::Text(b)) => (a.cmp(&b), true),
                (Key::Text(_), Key::Number(_)) | (Key::Number(_), Key::Text(_)) => {
                    (Ordering::Equal, false)
                }
            };
            match self.is_reversed && can_be_reversed {
                true => order.reverse(),
                false => order,
            }
        });
    }

    /// Sorts by the column that is this many positions further on among those that are shown; before the first and behind the last is the order of
    /// the flow.
    pub(super) fn step(self, shown: &[Column], steps: isize) -> Self {
        let here = self
            .column
            .and_then(|it| shown.iter().position(|column| *column == it));
        let here = here.map_or(0, |at| at + 1);
        let choices = shown.len() + 1;
        let next = (here + choices).saturating_add_signed(steps) % choices;
        Self {
            column: next.checked_sub(1).and_then(|at| shown.get(at)).copied(),
            is_reversed: false,
        }
    }
}

/// The columns that fit, with their widths.
pub(super) fn fitted(names: impl Iterator<Item = usize>, room: usize) -> Vec<(Column, usize)> {
    // The title with the mark of the sorted column.
    let title = width(Column::Process.title()) + 1;
    let name = names.max().unwrap_or(0).clamp(title, NAME_WIDTH_MAX);
    let mut columns = ALL.to_vec();
    let fixed = |columns: &[Column]| columns.iter().map(|it| it.width()).sum::<usize>();
    let mut leave_out = |candidates: &[Column], name: usize| {
        for spare in candidates {
            if name + fixed(&columns) > room {
                columns.retain(|column| column != spare);
            }
        }
    };
    leave_out(&SPARE, name);
    leave_out(&OPTIONAL, name.min(NAME_WIDTH_MIN));
    let name = name.min(room.saturating_sub(fixed(&columns))).max(1);
    let width = |column: Column| match column.width() {
        0 => name,
        width => width,
    };
    columns.into_iter().map(|it| (it, width(it))).collect()
}

/// A number of a few digits: `0`, `0.4`, `61.7`, `1234`.
pub(super) fn rate(per_second: f64) -> String {
    match per_second {
        rate if rate < 0.05 => "0".to_owned(),
        rate if rate < 99.95 => format!("{rate:.1}"),
        rate if rate < 99_999.5 => format!("{rate:.0}"),
        rate => format!("{:.0}k", rate / 1e3),
    }
}

/// A time of at most six letters: `0.31ms`, `3.1ms`, `61ms`, `1.2s`, `61s`.
pub(super) fn short_time(time: Duration) -> String {
    let ms = time.as_secs_f64() * 1e3;
    match ms {
        ms if ms < 0.995 => format!("{ms:.2}ms"),
        ms if ms < 9.95 => format!("{ms:.1}ms"),
        ms if ms < 999.5 => format!("{ms:.0}ms"),
        ms if ms < 9_950.0 => format!("{:.1}s", ms / 1e3),
        ms => format!("{:.0}s", ms / 1e3),
    }
}

#[allow(clippy::cast_precision_loss, reason = "three digits are shown")]
fn memory(bytes: u64) -> String {
    let mebibytes = bytes as f64 / f64::from(1 << 20);
    match mebibytes {
        small if small < 999.5 => format!("{small:.0}MiB"),
        large if large < 10_188.0 => format!("{:.1}GiB", large / 1024.0),
        large => format!("{:.0}GiB", large / 1024.0),
    }
}

/// The two largest units: `3d4h`, `2h5m`, `1m2s`, `3s`.
fn age(time: Duration) -> String {
    let seconds = time.as_secs();
    let (minutes, hours, days) = (seconds / 60, seconds / 3_600, seconds / 86_400);
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3_600 => format!("{minutes}m{}s", seconds % 60),
        3_600..86_400 => format!("{hours}h{}m", minutes % 60),
        _ => format!("{days}d{}h", hours % 24),
    }
}

#[cfg(test)]
mod tests;
