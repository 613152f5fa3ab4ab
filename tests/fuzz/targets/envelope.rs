//! Reading any bytes as a request terminates, and what was read is written as it was read.
#![no_main]

use bytes::Bytes;
use flow_core::{DocumentArray, parameters};
use flow_proto::Envelope;
use libfuzzer_sys::fuzz_target;
use prost::Message;

fuzz_target!(|message: &[u8]| {
    let Ok(envelope) = Envelope::decode(Bytes::copy_from_slice(message)) else {
        return;
    };
    let again = Envelope::decode(envelope.encode_to_vec().as_slice()).expect("our own message");
    assert_eq!(again, envelope);
    if let Some(all) = &envelope.parameters {
        drop(parameters::decode(all));
        drop(parameters::to_json(Some(all)));
    }
    if let Some(data) = &envelope.data {
        drop(DocumentArray::decode(data));
    }
});
