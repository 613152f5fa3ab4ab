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
use opentelemetry_sdk::trace::{SdkTracer, SdkTracerProvider, Span as SdkSpan};

use crate::attribute::Attribute;
use crate::queue::{EndedSpans, queue};
use crate::sampling::Sampling;

/// The name of the instrumentation in every span.
const SCOPE: &str = "flow";

/// Makes the spans of a process. Clones are the same tracer.
#[derive(Debug, Clone)]
pub struct Tracer(Arc<SdkTracer>);

/// Something that takes time. It ends when it is dropped.
#[derive(Debug)]
pub struct Span {
    /// In a box, so that a request in progress without a span reserves little space for one.
    span: Box<SdkSpan>,
    context: Arc<TraceContext>,
}

impl Tracer {
    /// A tracer that records these requests, and the spans that end, of which this many may wait.
    #[must_use]
    pub fn new(sampling: Sampling, spans_max: usize) -> (Self, EndedSpans) {
        let (queue, ended) = queue(spans_max);
        let provider = SdkTracerProvider::builder()
            .with_sampler(sampling.sampler())
            .with_span_processor(queue)
            .build();
        (Self(Arc::new(provider.tracer(SCOPE))), ended)
    }

    /// The span of a request that this process answers, and that began then. It is a child of the caller's span; without
    /// one it begins a trace. If the request is not recorded, the span only has a context, which says so to others.
    #[must_use]
    pub fn server(
        &self,
        name: impl Into<Cow<'static, str>>,
        caller: Option<&TraceContext>,
        began: SystemTime,
    ) -> Span {
        let parent = caller.map_or_else(Context::new, |caller| parent(caller, true));
        self.start(name.into(), SpanKind::Server, began, &parent)
    }

    /// A span within no other, which begins a trace. `None` if it is not recorded.
    #[must_use]
    pub fn root(&self, name: impl Into<Cow<'static, str>>) -> Option<Span> {
        let span = self.start(
            name.into(),
            SpanKind::Internal,
            SystemTime::now(),
            &Context::new(),
        );
        span.is_recorded().then_some(span)
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
        let span = self.0.build_with_context(builder, parent);
        let context = Arc::new(context(span.span_context()));
        let span = Box::new(span);
        Span { span, context }
    }
}

impl Span {
    /// What travels with calls that are made within the span.
    #[must_use]
    pub fn context(&self) -> &Arc<TraceContext> {
        &self.context
    }

    /// Whether the span is recorded. If it is not, what is set is lost.
    #[must_use]
    pub fn is_recorded(&self) -> bool {
        self.span.is_recording()
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
