//! The time of a line, as the library of the log writes it: `2026-11-25T15:08:57.938752Z`.

use std::cell::RefCell;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The length of a time up to its seconds.
const SECONDS_LEN: usize = "2026-11-25T15:08:57".len();

thread_local! {
    /// The last second that a line was written in, and its text: the calendar is computed once for a second.
    static LAST: RefCell<(u64, String)> = const { RefCell::new((u64::MAX, String::new())) };
}

/// Writes a time.
pub(super) fn push(line: &mut String, time: SystemTime) {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    LAST.with_borrow_mut(|(second, text)| {
        if *second != since.as_secs() {
            *second = since.as_secs();
            let time = UNIX_EPOCH + Duration::from_secs(*second);
            *text = humantime::format_rfc3339_seconds(time).to_string();
            text.truncate(SECONDS_LEN);
        }
        line.push_str(text);
    });
    line.push('.');
    let microseconds = since.subsec_micros();
    let mut digits = *b"000000";
    let mut rest = microseconds;
    for digit in digits.iter_mut().rev() {
        *digit += u8::try_from(rest % 10).unwrap_or_default();
        rest /= 10;
    }
    line.push_str(str::from_utf8(&digits).unwrap_or_default());
    line.push('Z');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_has_microseconds() {
        let check = |micros: u64, expected: &str| {
            let mut line = String::new();
            push(&mut line, UNIX_EPOCH + Duration::from_micros(micros));
            assert_eq!(line, expected);
        };
        check(1_795_619_337_938_752, "2026-11-25T15:08:57.938752Z");
        check(1_795_619_337_000_001, "2026-11-25T15:08:57.000001Z");
        check(1_795_619_338_000_000, "2026-11-25T15:08:58.000000Z");
        check(0, "1970-01-01T00:00:00.000000Z");
    }

    #[test]
    fn a_time_before_the_epoch_is_the_epoch() {
        let mut line = String::new();
        push(&mut line, UNIX_EPOCH - Duration::from_secs(1));
        assert_eq!(line, "1970-01-01T00:00:00.000000Z");
    }
}
