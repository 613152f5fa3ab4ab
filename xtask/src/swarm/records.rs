//! What a run wrote: its requests, and what happened when.

/// A request: when it was to leave, how long it took, and in how many attempts.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) due_s: f64,
    pub(crate) took_ms: f64,
    pub(crate) attempts: u32,
}

pub(crate) fn requests(text: &str) -> Vec<Request> {
    let request = |line: &str| {
        let mut parts = line.split(',');
        Some(Request {
            due_s: parts.next()?.parse().ok()?,
            took_ms: parts.next()?.parse().ok()?,
            attempts: parts.next()?.parse().ok()?,
        })
    };
    text.lines().filter_map(request).collect()
}

pub(crate) fn events(text: &str) -> Vec<(f64, &str)> {
    let event = |line: &'_ str| -> Option<f64> { line.split_once(',')?.0.parse().ok() };
    let lines = text.lines();
    let named = lines.filter_map(|line| Some((event(line)?, line.split_once(',')?.1)));
    named.collect()
}
