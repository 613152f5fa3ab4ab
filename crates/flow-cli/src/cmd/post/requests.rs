//! Turns documents into requests. Runs on a thread of its own, because reading may block, and reads ahead only as far as its
//! channel allows.

use std::io;
use std::num::NonZeroUsize;

use flow_client::{Request, RequestTemplate};
use flow_core::Document;
use tokio::sync::mpsc::Sender;

use super::entries::{BadEntry, InputSource};

/// The endpoint and parameters of all requests, and the number of documents in each.
#[derive(Debug, Clone)]
pub(crate) struct Template {
    pub(crate) request: RequestTemplate,
    pub(crate) request_size: NonZeroUsize,
}

/// Where the documents of a request come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RequestInfo {
    /// Number of the request; the first is 1.
    pub(crate) number: u64,
    /// The first and last line or text of its documents. `None` if it has no documents.
    pub(crate) entries: Option<(u64, u64)>,
    /// Number of its documents.
    pub(crate) documents: usize,
    /// Bytes of the input up to its end.
    pub(crate) end: u64,
}

/// An item of the input.
#[derive(Debug)]
pub(crate) enum ReadItem {
    Request(Box<Request>, RequestInfo),
    /// An entry that is not a document.
    BadEntry {
        number: u64,
        error: BadEntry,
    },
    /// The rest of the input cannot be read.
    Broken(io::Error),
}

/// Reads the whole source, and waits while `out` is full. Ends early if the receiver is gone.
pub(crate) fn read(mut source: InputSource, template: &Template, out: &Sender<ReadItem>) {
    let mut requests = Requests::new(template);
    let send = |item| out.blocking_send(item).is_ok();
    if source.is_without_documents() {
        send(requests.take());
        return;
    }
    loop {
        let item = match source.next() {
            Ok(Some(entry)) => match entry.document {
                Ok(document) => requests.push(document, entry.number, entry.end),
                Err(error) => Some(ReadItem::BadEntry {
                    number: entry.number,
                    error,
                }),
            },
            Ok(None) => break,
            Err(error) => {
                send(ReadItem::Broken(error));
                break;
            }
        };
        if item.is_some_and(|item| !send(item)) {
            return;
        }
    }
    if !requests.documents.is_empty() {
        send(requests.take());
    }
}

/// Collects documents until they fill a request.
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

    /// Adds a document; returns the request that it fills.
    fn push(&mut self, document: Document, entry: u64, end: u64) -> Option<ReadItem> {
        let first = self.entries.map_or(entry, |(first, _)| first);
        self.entries = Some((first, entry));
        self.end = end;
        self.documents.push(document);
        (self.documents.len() == self.template.request_size.get()).then(|| self.take())
    }

    /// A request with the documents so far.
    fn take(&mut self) -> ReadItem {
        self.number += 1;
        let documents = std::mem::take(&mut self.documents);
        let info = RequestInfo {
            number: self.number,
            entries: self.entries.take(),
            documents: documents.len(),
            end: self.end,
        };
        ReadItem::Request(Box::new(self.template.request.request(documents)), info)
    }
}

#[cfg(test)]
mod tests {
    use flow_core::DocArrayVersion;
    use tokio::sync::mpsc;

    use super::super::entries::InputFormat;
    use super::*;

    fn template(request_size: usize) -> Template {
        Template {
            request: RequestTemplate {
                endpoint: "/encode".to_owned(),
                ..RequestTemplate::default()
            },
            request_size: request_size.try_into().unwrap(),
        }
    }

    fn all(source: InputSource, request_size: usize) -> Vec<ReadItem> {
        let (out, mut items) = mpsc::channel(100);
        read(source, &template(request_size), &out);
        std::iter::from_fn(|| items.try_recv().ok()).collect()
    }

    /// Of each request: its lines and how many documents.
    fn check(input: &'static str, request_size: usize, wanted: &[((u64, u64), usize)]) {
        let source = InputSource::lines(
            Box::new(input.as_bytes()),
            InputFormat::Json,
            DocArrayVersion::V1,
        );
        let found: Vec<_> = all(source, request_size)
            .into_iter()
            .filter_map(|item| match item {
                ReadItem::Request(_, info) => Some((info.entries.unwrap(), info.documents)),
                _ => None,
            })
            .collect();
        assert_eq!(found, wanted, "{input:?}");
    }

    #[test]
    fn every_request_but_the_last_is_full() {
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
    fn without_texts_there_is_one_request_without_documents() {
        let reads = all(InputSource::texts(Vec::new(), DocArrayVersion::V1), 2);
        let [ReadItem::Request(request, info)] = &reads[..] else {
            panic!("{reads:?}")
        };
        assert_eq!((request.documents_len(), info.documents), (0, 0));
    }

    #[test]
    fn reading_ends_when_the_receiver_is_gone() {
        let (out, items) = mpsc::channel(1);
        drop(items);
        let endless = io::BufReader::new(io::repeat(b'\n'));
        let source = InputSource::lines(Box::new(endless), InputFormat::Plain, DocArrayVersion::V1);
        read(source, &template(1), &out);
    }
}
