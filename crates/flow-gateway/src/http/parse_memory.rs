//! Counts what JSON takes in memory while it is parsed: `[{},{},…` has three bytes for a value that takes several hundred.

use flow_core::{Code, Failure};
use flow_net::{ByteBudget, HeldBytes, Limits};

/// Bytes of a body's limit for each value that it may have. A number of a vector has about nine.
const BYTES_EACH: usize = 10;

/// The most bytes of memory that an element of a list or a field takes. It is a value of JSON, three of them while its list
/// grows (it is copied to one of twice the length), and then part of a message. Measured with documents of both versions,
/// as are the other two.
const ELEMENT: usize = 330;

/// What a list takes besides: it begins with room for four elements.
const LIST: usize = 220;

/// What an object takes besides: room for four fields, the table of their names, and a message of its own.
const OBJECT: usize = 1100;

/// The memory that the JSON of one request takes. Counts in the budget of its connection until this is dropped.
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
            // There are always some bytes of others.
            request_max: budget.map_or(usize::MAX, |it| it.process_max() / 8 * 7),
            taken: len,
        }
    }

    /// Counts a text that is parsed next, and returns the bytes that it may take. Fails if there are too many values, or if
    /// there is no room for them.
    pub(crate) fn parse(&mut self, json: &[u8]) -> Result<usize, Failure> {
        let counted = Counted::of(json);
        self.values += counted.values();
        let (values, max) = (self.values, self.values_max);
        if values > max {
            let text = format!(
                "the body has more than about {values} values, and {max} are allowed; send it in several requests"
            );
            return Err(Failure::new(Code::TooLarge, text));
        }
        let bytes = counted.memory(json.len());
        self.hold(bytes)?;
        Ok(bytes)
    }

    /// Counts `now` bytes instead of `before`: what has become of values that were counted.
    pub(crate) fn replace(&mut self, before: usize, now: usize) -> Result<(), Failure> {
        match now.checked_sub(before) {
            Some(more) => self.hold(more),
            None => {
                let held = self.held.as_mut();
                held.into_iter().for_each(|it| it.release(before - now));
                self.taken -= before - now;
                Ok(())
            }
        }
    }

    fn hold(&mut self, bytes: usize) -> Result<(), Failure> {
        self.taken += bytes;
        let has_room = self.taken < self.request_max;
        if has_room && self.held.as_mut().is_none_or(|held| held.try_add(bytes)) {
            return Ok(());
        }
        let taken = self.taken.div_ceil(1 << 20);
        if has_room {
            let text = format!(
                "the body may take {taken} MiB while it is parsed, and the gateway does not have them at the moment"
            );
            return Err(Failure::new(Code::Overloaded, text));
        }
        let max = self.request_max >> 20;
        let text = format!(
            "the body may take {taken} MiB or more while it is parsed, and {max} MiB are allowed; send it in several requests"
        );
        Err(Failure::new(Code::TooLarge, text))
    }
}

/// Most bytes that JSON may have: as many as a message after decompression, compressed or not.
pub(crate) fn len_max(limits: &Limits) -> usize {
    limits.message_len_max.min(limits.decompressed_len_max)
}

/// What a text has, if it is JSON, as far as its bytes outside of strings tell.
#[derive(Debug, Default, PartialEq)]
struct Counted {
    commas: usize,
    lists: usize,
    objects: usize,
}

impl Counted {
    fn of(json: &[u8]) -> Self {
        let (mut counted, mut is_in_text, mut is_escaped) = (Self::default(), false, false);
        for byte in json {
            match byte {
                _ if is_escaped => is_escaped = false,
                b'\\' if is_in_text => is_escaped = true,
                b'"' => is_in_text = !is_in_text,
                _ if is_in_text => {}
                b',' => counted.commas += 1,
                b'[' => counted.lists += 1,
                b'{' => counted.objects += 1,
                _ => {}
            }
        }
        counted
    }

    /// About how many lists, objects, and elements of them there are.
    fn values(&self) -> usize {
        self.commas + self.lists + self.objects
    }

    /// The most memory that the values of `len` bytes take.
    fn memory(&self, len: usize) -> usize {
        len + self.values() * ELEMENT + self.lists * LIST + self.objects * OBJECT
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_counted_outside_of_texts() {
        let check = |text: &str, [commas, lists, objects]: [usize; 3]| {
            let expected = Counted {
                commas,
                lists,
                objects,
            };
            assert_eq!(Counted::of(text.as_bytes()), expected, "{text}");
        };
        check("5", [0, 0, 0]);
        check("[1, 2, 3]", [2, 1, 0]);
        check(r#"{"a": {"b": []}, "c": 1}"#, [1, 1, 2]);
        check(r#"["[,{", "\"[", "\\", "]"]"#, [3, 1, 0]);
        check(r#"["an end is missing, [["#, [0, 1, 0]);
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
            assert!(memory(10_000, None).parse(allowed.as_bytes()).is_ok());
        }
        let failure = memory(10_000, None).parse(empty.as_bytes()).unwrap_err();
        assert_eq!(failure.code(), Code::TooLarge);
        let text = failure.to_string();
        assert!(text.contains("2000 values, and 1000"), "{text}");
    }

    #[test]
    fn values_count_in_the_budget_until_they_are_replaced_or_dropped() {
        let budget = ByteBudget::new(4 << 20);
        let mut memory = memory(1 << 20, Some(&budget));
        let taken = memory.parse(&b"{},".repeat(1000)).unwrap();
        assert!(taken > 800_000, "{taken}");
        assert_eq!(budget.held(), taken);
        memory.replace(taken, 7).unwrap();
        assert_eq!(budget.held(), 7);
        drop(memory);
        assert_eq!(budget.held(), 0);
    }

    #[test]
    fn what_never_fits_is_too_large_and_what_does_not_fit_now_is_refused() {
        let budget = ByteBudget::new(4 << 20);
        let parse = |count| memory(1 << 20, Some(&budget)).parse(&b"{},".repeat(count));
        assert_eq!(parse(8000).unwrap_err().code(), Code::TooLarge);
        let held = budget.hold(4 << 20);
        assert_eq!(parse(10).unwrap_err().code(), Code::Overloaded);
        assert_eq!(budget.held(), 4 << 20);
        drop(held);
        assert!(parse(10).is_ok());
    }
}
