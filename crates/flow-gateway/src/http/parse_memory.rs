//! Counts what JSON takes in memory while it is parsed: `[{},{},…` has three bytes for a value that takes many hundreds.

use std::time::Duration;

use flow_core::{Code, Failure};
use flow_net::{ByteBudget, HeldBytes, Limits};
use memchr::memchr2;

/// Bytes of a body's limit for each value that it may have. A number of a vector has about nine.
const BYTES_EACH: usize = 10;

/// The most bytes of memory that an element of a list takes. It is a value of JSON, three of them while its list grows (it
/// is copied to one of twice the length), and then part of a message. Measured with documents of both versions, as are
/// the next two.
const ELEMENT: usize = 330;

/// What a list takes besides: it begins with room for four elements.
const LIST: usize = 220;

/// What an object takes besides: room for four fields, the table of their names, and a message of its own.
const OBJECT: usize = 1100;

/// What a field of an object takes besides: its name, and a place in two tables that grow. Calculated from the sizes of their
/// entries.
const FIELD: usize = 400;

/// What a byte of a string takes: it is copied up to six times on its way into a message.
const STRING_BYTE: usize = 8;

/// The same for a character that an error which quotes the string may write as an escape, such as `\u{7f}`: of a byte, and
/// for each byte of a longer one.
const ESCAPED_BYTE: usize = 24;
const UNICODE_BYTE: usize = 12;

/// What a value of a request takes that has been parsed into the texts of a model's API, and how often their bytes exist.
const PARSED_VALUE: usize = 48;
const PARSED_COPIES: usize = 5;

/// When a client may try again: by then a request in progress has been parsed.
const RETRY_AFTER: Duration = Duration::from_millis(500);

/// The memory that the JSON of one request takes. It counts in the budget of its connection until this is dropped.
#[derive(Debug)]
pub(crate) struct ParseMemory {
    values_max: usize,
    values: usize,
    held: Option<HeldBytes>,
    /// Most bytes that one request may take.
    request_max: usize,
    /// Bytes of the request: its body, and what is held.
    taken: usize,
}

impl ParseMemory {
    /// For a body of `len` bytes.
    pub(crate) fn new(limits: &Limits, budget: Option<&ByteBudget>, len: usize) -> Self {
        Self {
            values_max: len_max(limits) / BYTES_EACH,
            values: 0,
            held: budget.map(|budget| budget.hold(0)),
            // The rest is for other requests. Without it, whether a request fits would depend on a few bytes of them.
            request_max: budget.map_or(usize::MAX, |it| it.process_max() / 8 * 7),
            taken: len,
        }
    }

    /// Holds what a text may take that is parsed next, and returns these bytes. Fails if there are too many values, or if
    /// there is no room for them.
    pub(crate) fn hold_for(&mut self, json: &[u8]) -> Result<usize, Failure> {
        let counted = Counted::of(json);
        self.values += counted.values();
        let (values, max) = (self.values, self.values_max);
        if values > max {
            let text = format!(
                "the body has more than about {values} values, and {max} are allowed; send it in several requests"
            );
            return Err(Failure::new(Code::TooLarge, text));
        }
        let bytes = counted.memory();
        self.hold(bytes)?;
        Ok(bytes)
    }

    /// Gives back what was held for a text of `len` bytes, except what the texts of a model's API take until the reply.
    pub(crate) fn keep_texts(&mut self, held: usize, len: usize) {
        let kept = PARSED_COPIES * len + PARSED_VALUE * self.values;
        self.give_back(held.saturating_sub(kept));
    }

    /// Holds what further texts take until the reply, which were made of the request and are no part of its body.
    pub(crate) fn hold_texts(&mut self, len: usize) -> Result<(), Failure> {
        self.hold(PARSED_COPIES * len)
    }

    /// Holds `bytes` more. Fails if the request takes too much with them, or if there is no room for them.
    pub(crate) fn hold(&mut self, bytes: usize) -> Result<(), Failure> {
        let taken = self.taken.saturating_add(bytes);
        if taken >= self.request_max {
            let (taken, max) = (taken.div_ceil(1 << 20), self.request_max >> 20);
            let text = format!(
                "the body may take {taken} MiB or more while it is parsed, and {max} MiB are allowed; send it in several \
                 requests"
            );
            return Err(Failure::new(Code::TooLarge, text));
        }
        if self.held.as_mut().is_some_and(|held| !held.try_add(bytes)) {
            let taken = taken.div_ceil(1 << 20);
            let text = format!(
                "the body may take {taken} MiB while it is parsed, and the gateway has less than that left at the moment"
            );
            return Err(Failure::new(Code::Overloaded, text).with_retry_after(RETRY_AFTER));
        }
        self.taken = taken;
        Ok(())
    }

    /// Holds `bytes` less.
    pub(crate) fn give_back(&mut self, bytes: usize) {
        if let Some(held) = &mut self.held {
            held.release(bytes);
        }
        self.taken = self.taken.saturating_sub(bytes);
    }
}

/// Most bytes that JSON may have: as many as a message after decompression, compressed or not.
pub(crate) fn len_max(limits: &Limits) -> usize {
    limits.message_len_max.min(limits.decompressed_len_max)
}

/// What a text has, if it is JSON.
#[derive(Debug, Default, PartialEq)]
struct Counted {
    commas: usize,
    lists: usize,
    objects: usize,
    fields: usize,
    /// Bytes of memory of all strings.
    strings: usize,
}

impl Counted {
    fn of(json: &[u8]) -> Self {
        let (mut counted, mut rest) = (Self::default(), json);
        while let Some((byte, after)) = rest.split_first() {
            rest = after;
            match byte {
                b'"' => {
                    let (string, after) = rest.split_at(string_len(rest));
                    counted.strings += string_memory(string);
                    rest = after;
                }
                b',' => counted.commas += 1,
                b'[' => counted.lists += 1,
                b'{' => counted.objects += 1,
                b':' => counted.fields += 1,
                _ => {}
            }
        }
        counted
    }

    /// About how many lists, objects, and elements of them there are.
    fn values(&self) -> usize {
        self.commas + self.lists + self.objects
    }

    /// The most memory that the values take.
    fn memory(&self) -> usize {
        let structure = self.values() * ELEMENT + self.lists * LIST + self.objects * OBJECT;
        structure + self.fields * FIELD + self.strings
    }
}

/// The length of a string that begins here, with the quotation mark at its end.
fn string_len(json: &[u8]) -> usize {
    let mut len = 0;
    while let Some(place) = memchr2(b'"', b'\\', &json[len..]) {
        len += place + 1;
        if json[len - 1] == b'"' {
            return len;
        }
        // What follows a backslash does not end the string.
        len = (len + 1).min(json.len());
    }
    json.len()
}

/// The memory that a string takes.
fn string_memory(string: &[u8]) -> usize {
    let count = |matches: fn(&u8) -> bool| string.iter().filter(|it| matches(it)).count();
    let escaped = count(|&it| it == 0x7f) * (ESCAPED_BYTE - STRING_BYTE);
    let unicode = count(|&it| it >= 0x80) * (UNICODE_BYTE - STRING_BYTE);
    string.len() * STRING_BYTE + escaped + unicode
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_counted_outside_of_strings() {
        let check = |text: &str, [commas, lists, objects, fields, bytes]: [usize; 5]| {
            let expected = Counted {
                commas,
                lists,
                objects,
                fields,
                strings: bytes * STRING_BYTE,
            };
            assert_eq!(Counted::of(text.as_bytes()), expected, "{text}");
        };
        check("5", [0; 5]);
        check("[1, 2, 3]", [2, 1, 0, 0, 0]);
        check(r#"{"a": {"b": []}, "c": 1}"#, [1, 1, 2, 3, 6]);
        check(r#"["[,{:", "\"[", "\\", "]"]"#, [3, 1, 0, 0, 5 + 4 + 3 + 2]);
        check(r#"["an end, it"#, [0, 1, 0, 0, 10]);
    }

    #[test]
    fn characters_that_errors_escape_count_more() {
        assert_eq!(Counted::of(b"\"\x7f\"").strings, ESCAPED_BYTE + STRING_BYTE);
        let counted = Counted::of("\"ä\"".as_bytes());
        assert_eq!(counted.strings, 2 * UNICODE_BYTE + STRING_BYTE);
    }

    fn memory(len_max: usize, budget: Option<&ByteBudget>) -> ParseMemory {
        let limits = Limits {
            message_len_max: len_max,
            ..Limits::default()
        };
        ParseMemory::new(&limits, budget, 0)
    }

    #[test]
    fn a_body_of_tiny_values_is_refused_and_one_of_vectors_is_not() {
        let empty = "{},".repeat(1000);
        let vector = "0.123456,".repeat(1000);
        let text = format!("\"{}\"", ",".repeat(5000));
        for allowed in [vector, text] {
            assert!(memory(10_000, None).hold_for(allowed.as_bytes()).is_ok());
        }
        let failure = memory(10_000, None).hold_for(empty.as_bytes()).unwrap_err();
        assert_eq!(failure.code(), Code::TooLarge);
        let text = failure.to_string();
        assert!(text.contains("2000 values, and 1000"), "{text}");
    }

    #[test]
    fn values_count_in_the_budget_until_they_are_given_back_or_dropped() {
        let budget = ByteBudget::new(4 << 20);
        let mut memory = memory(1 << 20, Some(&budget));
        let held = memory.hold_for(&b"{},".repeat(1000)).unwrap();
        assert!(held > 800_000, "{held}");
        assert_eq!(budget.held(), held);
        memory.keep_texts(held, 3000);
        assert_eq!(budget.held(), 5 * 3000 + 48 * 2000);
        memory.hold_texts(1000).unwrap();
        assert_eq!(budget.held(), 5 * 4000 + 48 * 2000);
        drop(memory);
        assert_eq!(budget.held(), 0);
    }

    #[test]
    fn what_never_fits_is_too_large_and_what_does_not_fit_now_is_refused() {
        let budget = ByteBudget::new(4 << 20);
        let parse = |count| memory(1 << 20, Some(&budget)).hold_for(&b"{},".repeat(count));
        assert_eq!(parse(8000).unwrap_err().code(), Code::TooLarge);
        let held = budget.hold(4 << 20);
        let failure = parse(10).unwrap_err();
        assert_eq!(failure.code(), Code::Overloaded);
        assert_eq!(failure.retry_after(), Some(RETRY_AFTER));
        assert_eq!(budget.held(), 4 << 20);
        drop(held);
        assert!(parse(10).is_ok());
    }
}
