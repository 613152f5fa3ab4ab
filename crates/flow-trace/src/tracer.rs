//! Spans, and what travels of them with a request.

use std::borrow::Cow;
use std::fmt::Display;
use std::str::FromStr;
use std::sync::Arc;
use std::time::SystemTime;

use flow_core::{Code, TraceContext};
use opentelemetry::trace::{
    Link, Span as _, SpanBuilder, SpanContext, SpanId, SpanKind, Status, TraceContextExt,
    TraceFlags, TraceId, TraceState, Tracer as _, TracerProvider as _,
};
use opentelemetry::{Context, KeyValue};
use opentelemetry_sdk::trace::{
    IdGenerator as _, RandomIdGenerator, Sampler, SdkTracer, SdkTracerProvider, Span as SdkSpan,
    SpanData,
};

use crate::attribute::Attribute;
use crate::ended::OnEnd;
use crate::sampling::{RecordedIds, RecordedTraces, Sampling};

/// The name of the instrumentation in every span.
pub const SCOPE: &str = "flow";

/// Makes the spans of a process. Clones are the same tracer.
#[derive(Debug, Clone)]
pub struct Tracer(Arc<Spans>);

#[derive(Debug)]
struct Spans {
    tracer: SdkTracer,
    traces: RecordedTraces,
    follows_parent: bool,
    /// Makes the ids of requests that are not recorded.
    ids: RandomIdGenerator,
}

/// A request that this process answers.
#[derive(Debug)]
pub struct ServerSpan {
    /// What travels with the calls that are made for the request.
    pub context: Arc<TraceContext>,
    /// `None` if the request is not recorded, which the context says to others.
    pub span: Option<Span>,
}

/// Something that is recorded and takes time. It ends when it is dropped.
#[derive(Debug)]
pub struct Span {
    /// In a box, so that a request in progress without a span reserves little space for one.
    span: Box<SdkSpan>,
    context: Arc<TraceContext>,
}

impl Tracer {
    /// A tracer that records these requests. `on_end` gets each span that ends, on the thread that ends it, which serves
    /// requests.
    #[must_use]
    pub fn new(sampling: Sampling, on_end: impl Fn(SpanData) + Send + Sync + 'static) -> Self {
        let traces = RecordedTraces::new(sampling.ratio);
        // Spans are made of recorded requests only.
        let provider = SdkTracerProvider::builder()
            .with_sampler(Sampler::AlwaysOn)
            .with_id_generator(RecordedIds::new(traces))
            .with_span_processor(OnEnd(on_end))
            .build();
        let spans = Spans {
            tracer: provider.tracer(SCOPE),
            traces,
            follows_parent: sampling.follows_parent,
            ids: RandomIdGenerator::default(),
        };
        Self(Arc::new(spans))
    }

    /// The span of a request that this process answers, and that began then. It is a child of the caller's span; without
    /// one it begins a trace.
    #[must_use]
    #[expect(
        clippy::ptr_arg,
        reason = "a `Cow` of a static name is cloned without an allocation"
    )]
    pub fn server(
        &self,
        name: &Cow<'static, str>,
        caller: Option<&Arc<TraceContext>>,
        began: impl FnOnce() -> SystemTime,
    ) -> ServerSpan {
        let parent = match caller {
            Some(caller) if self.records(caller) => parent(caller, true),
            Some(caller) => return ServerSpan::unrecorded(caller),
            None => match self.unrecorded_trace() {
                Some(context) => {
                    return ServerSpan {
                        context: Arc::new(context),
                        span: None,
                    };
                }
                None => Context::new(),
            },
        };
        let span = self.start(name.clone(), SpanKind::Server, began(), &parent);
        ServerSpan {
            context: span.context.clone(),
            span: Some(span),
        }
    }

    /// A span within no other, which begins a trace. `None` if it is not recorded.
    #[must_use]
    pub fn root(&self, name: impl Into<Cow<'static, str>>) -> Option<Span> {
        let is_recorded = self.unrecorded_trace().is_none();
        let now = SystemTime::now();
        is_recorded.then(|| self.start(name.into(), SpanKind::Internal, now, &Context::new()))
    }

    /// Whether a request of this caller is recorded.
    fn records(&self, caller: &TraceContext) -> bool {
        match self.0.follows_parent {
            true => caller.is_sampled,
            false => self.0.traces.contain(caller.trace_id),
        }
    }

    /// A trace that is not recorded; or `None`, for the share of traces that are.
    fn unrecorded_trace(&self) -> Option<TraceContext> {
        let trace_id = self.0.ids.new_trace_id().to_bytes();
        (!self.0.traces.contain(trace_id)).then(|| TraceContext {
            trace_id,
            span_id: self.0.ids.new_span_id().to_bytes(),
            is_sampled: false,
            state: None,
        })
    }

    /// A span inside of another one of this process; `None` if that is not recorded.
    #[must_use]
    pub fn child(
        &self,
        name: impl Into<Cow<'static, str>>,
        kind: SpanKind,
        of: &TraceContext,
    ) -> Option<Span> {
        self.child_since(name, kind, of, SystemTime::now())
    }

    /// A span inside of another one of this process that began then; `None` if that is not recorded.
    #[must_use]
    pub fn child_since(
        &self,
        name: impl Into<Cow<'static, str>>,
        kind: SpanKind,
        of: &TraceContext,
        began: SystemTime,
    ) -> Option<Span> {
        of.is_sampled
            .then(|| self.start(name.into(), kind, began, &parent(of, false)))
    }

    fn start(
        &self,
        name: Cow<'static, str>,
        kind: SpanKind,
        began: SystemTime,
        parent: &Context,
    ) -> Span {
        let builder = SpanBuilder::from_name(name)
            .with_kind(kind)
            .with_start_time(began);
        let span = self.0.tracer.build_with_context(builder, parent);
        let context = Arc::new(context(span.span_context()));
        let span = Box::new(span);
        Span { span, context }
    }
}

impl ServerSpan {
    /// A request of a trace that is not recorded here: the calls that are made for it are its caller's.
    fn unrecorded(caller: &Arc<TraceContext>) -> Self {
        let context = match caller.is_sampled {
            false => caller.clone(),
            true => Arc::new(TraceContext {
                is_sampled: false,
                ..TraceContext::clone(caller)
            }),
        };
        Self {
            context,
            span: None,
        }
    }
}

impl Span {
    /// What travels with calls that are made within the span.
    #[must_use]
    pub fn context(&self) -> &Arc<TraceContext> {
        &self.context
    }

    /// Sets an attribute.
    pub fn set(&mut self, key: impl Into<Cow<'static, str>>, value: impl Into<Attribute>) {
        self.span.set_attribute(key_value(key.into(), value.into()));
    }

    /// Adds something that happened now.
    pub fn add_event(
        &mut self,
        name: impl Into<Cow<'static, str>>,
        attributes: impl IntoIterator<Item = (String, Attribute)>,
    ) {
        let attributes = attributes.into_iter();
        let attributes = attributes.map(|(key, value)| key_value(key.into(), value));
        self.span.add_event(name, attributes.collect());
    }

    /// Ends the span at this time, instead of when it is dropped.
    pub fn end_at(mut self, time: SystemTime) {
        self.span.end_with_timestamp(time);
    }

    /// Changes the name.
    pub fn rename(&mut self, name: impl Into<Cow<'static, str>>) {
        self.span.update_name(name);
    }

    /// Links another span, of this trace or of another.
    pub fn link(&mut self, to: &TraceContext) {
        let link = Link::with_context(span_context(to, false));
        self.span.add_link(link.span_context, link.attributes);
    }

    /// Notes that what the span stands for has failed with a code.
    pub fn fail(&mut self, code: Code, cause: &(impl Display + ?Sized)) {
        self.set("error.type", code.as_str());
        self.fail_because(cause);
    }

    /// Notes that what the span stands for has failed.
    pub fn fail_because(&mut self, cause: &(impl Display + ?Sized)) {
        self.span.set_status(Status::error(cause.to_string()));
    }
}

fn key_value(key: Cow<'static, str>, value: Attribute) -> KeyValue {
    KeyValue::new(key, value.into_value())
}

/// The context of which a span is the child.
fn parent(of: &TraceContext, is_remote: bool) -> Context {
    Context::new().with_remote_span_context(span_context(of, is_remote))
}

fn span_context(of: &TraceContext, is_remote: bool) -> SpanContext {
    let flags = match of.is_sampled {
        true => TraceFlags::SAMPLED,
        false => TraceFlags::default(),
    };
    let state = of.state.as_deref().and_then(|it| str::from_utf8(it).ok());
    let state = state.and_then(|it| TraceState::from_str(it).ok());
    SpanContext::new(
        TraceId::from_bytes(of.trace_id),
        SpanId::from_bytes(of.span_id),
        flags,
        is_remote,
        state.unwrap_or_default(),
    )
}

fn context(of: &SpanContext) -> TraceContext {
    let state = of.trace_state().header();
    TraceContext {
        trace_id: of.trace_id().to_bytes(),
        span_id: of.span_id().to_bytes(),
        is_sampled: of.is_sampled(),
        state: (!state.is_empty()).then(|| state.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, channel};

    use super::*;

    const PARENT: &[u8] = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    /// A tracer, and what gets the spans that end.
    fn tracer(ratio: f64, follows_parent: bool) -> (Tracer, Receiver<SpanData>) {
        let sampling = Sampling {
            ratio,
            follows_parent,
        };
        let (sender, ended) = channel();
        let tracer = Tracer::new(sampling, move |span| {
            sender.send(span).ok();
        });
        (tracer, ended)
    }

    fn server(tracer: &Tracer, caller: Option<&TraceContext>) -> ServerSpan {
        let caller = caller.cloned().map(Arc::new);
        tracer.server(&"request".into(), caller.as_ref(), SystemTime::now)
    }

    #[test]
    fn a_request_without_a_trace_begins_one_that_says_whether_it_is_recorded() {
        for (ratio, is_recorded) in [(0.0, false), (1.0, true)] {
            let (tracer, ended) = tracer(ratio, true);
            let ServerSpan { context, span } = server(&tracer, None);
            assert_eq!(
                (span.is_some(), context.is_sampled),
                (is_recorded, is_recorded)
            );
            assert_ne!((context.trace_id, context.span_id), ([0; 16], [0; 8]));
            drop(span);
            assert_eq!(ended.try_recv().is_ok(), is_recorded);
            assert_eq!(tracer.root("load").is_some(), is_recorded);
        }
    }

    #[test]
    fn a_request_is_recorded_as_its_trace_is_or_by_the_id_of_it() {
        let recorded = TraceContext::parse(PARENT).unwrap();
        let other = TraceContext {
            is_sampled: false,
            ..recorded.clone()
        };
        for (caller, ratio, follows_parent, is_recorded) in [
            (&recorded, 0.0, true, true),
            (&other, 1.0, true, false),
            (&recorded, 0.0, false, false),
            (&other, 1.0, false, true),
        ] {
            let (tracer, _ended) = tracer(ratio, follows_parent);
            let request = server(&tracer, Some(caller));
            assert_eq!(request.span.is_some(), is_recorded, "{caller} {ratio}");
            assert_eq!(request.context.is_sampled, is_recorded);
            assert_eq!(request.context.trace_id, caller.trace_id);
            // A request that is not recorded has no span of its own.
            let is_callers = request.context.span_id == caller.span_id;
            assert_eq!(is_callers, !is_recorded);
        }
    }
}
