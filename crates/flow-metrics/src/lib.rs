//! Numbers that a process counts while it works, and the text in which Prometheus reads them.
//!
//! Whoever counts holds a handle ([`Counter`], [`Gauge`], [`Seconds`], [`Lengths`]), made once when it
//! starts: counting is an addition to an atomic, and nobody looks a label up. [`Metrics`] knows the handles by
//! their names, and is asked for all of them at once, by `flow_net`'s `Exposed`.
//!
//! The names are Jina's, and most of them are summaries without quantiles. Of the crates that were weighed,
//! Prometheus' own for Rust (`prometheus-client`) and `prometheus` have no summaries, and that of `metrics`
//! keeps samples for quantiles behind a lock. So the handles are our own, and `text.rs` writes them down.

#![warn(missing_docs)]

mod handles;
mod text;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub use handles::{Counter, Gauge, Lengths, Seconds, Stopwatch};

/// The numbers of one process. Clones are the same numbers.
#[derive(Debug, Clone, Default)]
pub struct Metrics(Arc<Mutex<Vec<Family>>>);

/// What a number is called, and what it says.
#[derive(Debug, Clone, Copy)]
pub struct Title<'a> {
    /// Its name, such as `jina_successful_requests_total`.
    pub name: &'a str,
    /// For people who find it.
    pub help: &'a str,
}

/// What tells numbers of one name apart.
pub type Labels<'a> = &'a [(&'a str, &'a str)];

/// A handle that numbers are read from.
#[derive(Debug, Clone)]
pub enum Handle {
    /// How often something happened.
    Counter(Counter),
    /// How many there are now.
    Gauge(Gauge),
    /// How long things took.
    Seconds(Seconds),
    /// How long messages are, in bytes.
    Lengths(Lengths),
}

/// Why there is no number of this name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadName {
    /// Prometheus would not read it.
    #[error("`{0}` is no metric's name: letters, digits and `_`, no digit first")]
    Letters(String),
    /// Somebody else counts under this name.
    #[error("`{0}` is a metric that there is already")]
    Taken(String),
}

/// All numbers of one name.
#[derive(Debug)]
struct Family {
    name: String,
    help: String,
    /// Labels as they are written, and what is read.
    members: Vec<(String, Handle)>,
    /// An executor's own: whoever asks for it again gets the same.
    is_shared: bool,
}

impl Metrics {
    /// No numbers yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Shows a handle under a name of our own choice.
    pub fn show(&self, title: Title<'_>, labels: Labels<'_>, handle: impl Into<Handle>) {
        let member = (text::labels(labels), handle.into());
        let mut families = self.lock();
        match families.iter_mut().find(|it| it.name == title.name) {
            Some(family) => family.members.push(member),
            None => families.push(Family::new(title, member, false)),
        }
    }

    /// Times under a name of somebody else's choice; the same handle for whoever asks for it again.
    ///
    /// # Errors
    /// If Prometheus would not read the name, or a process of flow counts under it itself.
    pub fn shared_seconds(&self, title: Title<'_>, labels: Labels<'_>) -> Result<Seconds, BadName> {
        if !is_name(title.name) {
            return Err(BadName::Letters(title.name.to_owned()));
        }
        let mut families = self.lock();
        let known = families.iter().find(|it| it.name == title.name);
        let known = known.map(|it| (it.is_shared, it.members.first()));
        match known {
            Some((true, Some((_, Handle::Seconds(same))))) => Ok(same.clone()),
            Some(_) => Err(BadName::Taken(title.name.to_owned())),
            None => {
                let seconds = Seconds::default();
                let member = (text::labels(labels), Handle::from(seconds.clone()));
                families.push(Family::new(title, member, true));
                Ok(seconds)
            }
        }
    }

    /// All numbers as they are now, in Prometheus' text format.
    #[must_use]
    pub fn text(&self) -> String {
        text::all(&self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Family>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Family {
    fn new(title: Title<'_>, member: (String, Handle), is_shared: bool) -> Self {
        Self {
            name: title.name.to_owned(),
            help: title.help.to_owned(),
            members: vec![member],
            is_shared,
        }
    }
}

fn is_name(text: &str) -> bool {
    let is_fine = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    !text.is_empty()
        && !text.starts_with(|it: char| it.is_ascii_digit())
        && text.bytes().all(is_fine)
}

impl From<Counter> for Handle {
    fn from(counter: Counter) -> Self {
        Self::Counter(counter)
    }
}

impl From<Gauge> for Handle {
    fn from(gauge: Gauge) -> Self {
        Self::Gauge(gauge)
    }
}

impl From<Seconds> for Handle {
    fn from(seconds: Seconds) -> Self {
        Self::Seconds(seconds)
    }
}

impl From<Lengths> for Handle {
    fn from(lengths: Lengths) -> Self {
        Self::Lengths(lengths)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn title(name: &str) -> Title<'_> {
        Title { name, help: "h" }
    }

    #[test]
    fn who_asks_for_a_name_again_gets_the_same_numbers() {
        let metrics = Metrics::new();
        let ask = || metrics.shared_seconds(title("jina_x"), &[("a", "b")]);
        ask().unwrap().observe(Duration::from_secs(1));
        ask().unwrap().observe(Duration::from_secs(2));
        let text = metrics.text();
        assert!(text.contains("jina_x_count{a=\"b\"} 2\n"), "{text}");
        assert!(text.contains("jina_x_sum{a=\"b\"} 3\n"), "{text}");
    }

    #[test]
    fn names_that_are_taken_or_none_are_refused() {
        let metrics = Metrics::new();
        metrics.show(title("jina_y"), &[], Counter::default());
        let refused = |name| metrics.shared_seconds(title(name), &[]).unwrap_err();
        assert_eq!(refused("jina_y"), BadName::Taken("jina_y".to_owned()));
        for bad in ["", "1x", "a-b", "a b", "ä"] {
            assert_eq!(refused(bad), BadName::Letters(bad.to_owned()));
        }
    }
}
