//! Documents become requests. This runs on a thread of its own, because reading may block, and goes only
//! as far ahead as its channel allows.

use std::io;
use std::num::NonZeroUsize;

use flow_core::{Document, DocumentArray, Endpoint, RequestId};
use flow_net::MESSAGE_LEN_MAX;
use flow_proto::Envelope;
use flow_proto::jina::HeaderProto;
use serde_json::{Map, Value};
use tokio::sync::mpsc::Sender;

use super::entries::{BadEntry, Source};

/// Room for what a message holds besides documents and parameters.
const HEADER_LEN_MAX: usize = 64 << 10;

/// What all requests have in common.
#[derive(Debug, Clone)]
pub(super) struct Template {
    pub(super) endpoint: Endpoint,
    pub(super) target_executor: Option<String>,
    pub(super) parameters: Map<String, Value>,
    pub(super) request_size: NonZeroUsize,
}

/// A request's place in the input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    /// The first request is 1.
    pub(super) number: u64,
    /// The lines or texts that its documents come from; none if it has no documents.
    pub(super) entries: Option<(u64, u64)>,
    pub(super) documents: usize,
    /// Bytes of the input up to here.
    pub(super) end: u64,
}

/// What reading came upon.
#[derive(Debug)]
pub(super) enum Read {
    Request(Box<Envelope>, Place),
    /// A request that nobody would accept; it is not sent.
    TooLarge {
        place: Place,
        len: usize,
    },
    BadEntry {
        number: u64,
        error: BadEntry,
    },
    /// The input cannot be read any further.
    Broken(io::Error),
    /// All of the input has been read.
    End,
}

/// Reads the whole source, and waits whenever `out` is full. Ends early when nobody listens any more.
pub(super) fn read(mut source: Source, template: &Template, out: &Sender<Read>) {
    let mut requests = Requests::new(template);
    let mut send = |read| out.blocking_send(read).is_ok();
    if source.is_without_documents() {
        let _nobody_listens = send(requests.take());
    }
    loop {
        let read = match source.next() {
            Ok(Some(entry)) => match entry.document {
                Ok(document) => requests.push(document, entry.number, entry.end),
                Err(error) => Some(Read::BadEntry {
                    number: entry.number,
                    error,
                }),
            },
            Ok(None) => break,
            Err(error) => {
                let _nobody_listens = send(Read::Broken(error));
                break;
            }
        };
        if read.is_some_and(|read| !send(read)) {
            return;
        }
    }
    let rest = (!requests.documents.is_empty()).then(|| requests.take());
    let _all_told = rest.is_none_or(&mut send) && send(Read::End);
}

/// Gathers documents until they fill a request.
struct Requests<'t> {
    template: &'t Template,
    documents: Vec<Document>,
    entries: Option<(u64, u64)>,
    end: u64,
    number: u64,
}

impl<'t> Requests<'t> {
    fn new(template: &'t Template) -> Self {
        Self {
            template,
            documents: Vec::new(),
            entries: None,
            end: 0,
            number: 0,
        }
    }

    /// The request that this document fills, if it does.
    fn push(&mut self, document: Document, entry: u64, end: u64) -> Option<Read> {
        let first = self.entries.map_or(entry, |(first, _)| first);
        self.entries = Some((first, entry));
        self.end = end;
        self.documents.push(document);
        (self.documents.len() == self.template.request_size.get()).then(|| self.take())
    }

    /// A request of what has gathered.
    fn take(&mut self) -> Read {
        self.number += 1;
        let documents = std::mem::take(&mut self.documents);
        let place = Place {
            number: self.number,
            entries: self.entries.take(),
            documents: documents.len(),
            end: self.end,
        };
        let data = (!documents.is_empty()).then(|| documents.into_iter().collect());
        let envelope = self.template.envelope(data.as_ref());
        match envelope.data.as_ref().map_or(0, |data| data.len()) {
            len if len > MESSAGE_LEN_MAX - HEADER_LEN_MAX => Read::TooLarge { place, len },
            _ => Read::Request(Box::new(envelope), place),
        }
    }
}

impl Template {
    fn envelope(&self, documents: Option<&DocumentArray>) -> Envelope {
        Envelope {
            header: Some(HeaderProto {
                request_id: RequestId::random().into(),
                exec_endpoint: Some(self.endpoint.to_string()),
                target_executor: self.target_executor.clone(),
                ..HeaderProto::default()
            }),
            parameters: (!self.parameters.is_empty())
                .then(|| flow_core::parameters::from_json(&self.parameters)),
            data: documents.map(DocumentArray::encode),
            ..Envelope::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use flow_core::Flavour;
    use tokio::sync::mpsc;

    use super::super::entries::Form;
    use super::*;

    fn template(request_size: usize) -> Template {
        Template {
            endpoint: "/encode".parse().unwrap(),
            target_executor: None,
            parameters: Map::new(),
            request_size: request_size.try_into().unwrap(),
        }
    }

    fn all(source: Source, request_size: usize) -> Vec<Read> {
        let (out, mut reads) = mpsc::channel(100);
        read(source, &template(request_size), &out);
        std::iter::from_fn(|| reads.try_recv().ok()).collect()
    }

    /// Of each request: its lines and how many documents.
    fn check(input: &'static str, request_size: usize, wanted: &[((u64, u64), usize)]) {
        let source = Source::lines(Box::new(input.as_bytes()), Form::Json, Flavour::V1);
        let found: Vec<_> = all(source, request_size)
            .into_iter()
            .filter_map(|read| match read {
                Read::Request(_, place) => Some((place.entries.unwrap(), place.documents)),
                _ => None,
            })
            .collect();
        assert_eq!(found, wanted, "{input:?}");
    }

    #[test]
    fn requests_are_full_but_for_the_last() {
        check("", 2, &[]);
        check("\"a\"\n", 2, &[((1, 1), 1)]);
        check("\"a\"\n\"b\"\n", 2, &[((1, 2), 2)]);
        check("\"a\"\n\"b\"\n\"c\"", 2, &[((1, 2), 2), ((3, 3), 1)]);
    }

    #[test]
    fn a_bad_line_leaves_no_gap_in_its_request() {
        check("\"a\"\n{oops\n\"c\"\n", 2, &[((1, 3), 2)]);
    }

    #[test]
    fn no_texts_are_one_request_without_documents() {
        let reads = all(Source::texts(Vec::new(), Flavour::V1), 2);
        let [Read::Request(envelope, place), Read::End] = &reads[..] else {
            panic!("{reads:?}")
        };
        assert_eq!((&envelope.data, place.documents), (&None, 0));
    }

    #[test]
    fn reading_ends_when_nobody_listens() {
        let (out, reads) = mpsc::channel(1);
        drop(reads);
        let endless = io::BufReader::new(io::repeat(b'\n'));
        let source = Source::lines(Box::new(endless), Form::Plain, Flavour::V1);
        read(source, &template(1), &out);
    }
}
