//! Whatever the log of an index holds, reading it ends, and a record that is read is written as it was read.
//!
//! The first byte of an input says what the rest is: a log of the first or the second version as it is, or the body of a
//! record, which gets a header that is right. No fuzzer guesses checksums.
#![no_main]

use bytes::{BufMut, Bytes, BytesMut};
use libfuzzer_sys::fuzz_target;

#[allow(dead_code)]
#[path = "../../../executors/vector-index/src/record.rs"]
mod record;

use record::{RecordFormat, Read};

fuzz_target!(|input: &[u8]| {
    let Some((kind, rest)) = input.split_first() else {
        return;
    };
    match kind % 4 {
        0 => read_all(RecordFormat::V1, &Bytes::copy_from_slice(rest)),
        1 => read_all(RecordFormat::V2, &Bytes::copy_from_slice(rest)),
        2 => read_all(RecordFormat::V2, &with_header(rest)),
        // Something follows.
        _ => read_all(
            RecordFormat::V2,
            &[with_header(rest), with_header(rest)].concat().into(),
        ),
    }
});

fn with_header(body: &[u8]) -> Bytes {
    let mut record = BytesMut::new();
    record.put_u32_le(body.len() as u32);
    record.put_u32_le(crc32fast::hash(body));
    let own = crc32fast::hash(&record);
    record.put_u32_le(own);
    record.put_slice(body);
    record.freeze()
}

fn read_all(format: RecordFormat, log: &Bytes) {
    let mut at = 0;
    while let Read::Record(changes, len) = record::read(format, &log.slice(at..)) {
        assert!(len > 0, "a log that never ends");
        if format == RecordFormat::V2 {
            assert_eq!(record::encode(&changes), log.slice(at..at + len));
        }
        at += len;
    }
}
