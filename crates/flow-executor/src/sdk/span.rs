//! Spans of an author's own, within the span of the call that a thread works on.

use std::borrow::Cow;
use std::cell::RefCell;
use std::fmt::Display;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use flow_core::TraceContext;
use flow_process::{SpanIds, note_span};
use flow_trace::{Attribute, Span as RecordedSpan, SpanKind, Tracer};

/// Maximum stages of a call that are collected for callers who ask for its time.
const STAGES_MAX: usize = 16;

thread_local! {
    static CURRENT: RefCell<Option<SpanParent>> = const { RefCell::new(None) };
    /// The stages of the call on which this thread works; `None` if no caller asks for its time.
    static STAGES: RefCell<Option<Vec<PastStage>>> = const { RefCell::new(None) };
}

/// Begins a span of what this thread does until the returned value is dropped.
///
/// It is within the span of the call, or within the innermost span that began before it and has not ended. If the call's
/// request is not recorded, nothing is made. So an executor can always use it.
///
/// ```
/// use flow_executor::{CallError, DocumentArray, Parameters, span};
///
/// fn shout(docs: &mut DocumentArray, _: &Parameters) -> Result<(), CallError> {
///     let mut upper = span("upper");
///     upper.set("documents", docs.len());
///     for doc in docs {
///         doc.set_text(doc.text().to_uppercase());
///     }
///     Ok(())
/// }
/// # shout(&mut DocumentArray::new(), &Parameters::default()).unwrap();
/// ```
#[must_use = "a span ends when it is dropped"]
pub fn span(name: impl Into<Cow<'static, str>>) -> Span {
    let outer = SpanParent::current();
    Span::enter(outer.and_then(|outer| {
        let span = outer.begin(name)?;
        let within = outer.within(&span);
        Some((span, within))
    }))
}

/// Adds spans of what this thread has just done: one after another, with the time that each took. The last one ends now.
///
/// Callers who ask for the time of their request, as `flow trace` does, see the same stages, whether or not the request is
/// recorded.
pub fn add_past_spans(stages: &[(&'static str, Duration)]) {
    STAGES.with_borrow_mut(|collected| {
        if let Some(collected) = collected {
            add_past_stages(collected, stages);
        }
    });
    let Some(parent) = SpanParent::current() else {
        return;
    };
    let mut end = SystemTime::now();
    for (name, took) in stages.iter().rev() {
        let began = end.checked_sub(*took).unwrap_or(end);
        let SpanParent { tracer, context } = &parent;
        if let Some(span) = tracer.child_since(*name, SpanKind::Internal, context, began) {
            span.end_at(end);
        }
        end = began;
    }
}

/// A part of a call that has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PastStage {
    pub(crate) name: &'static str,
    pub(crate) began: Instant,
    pub(crate) ended: Instant,
}

/// Adds stages one after another, of which the last one ends now.
fn add_past_stages(collected: &mut Vec<PastStage>, stages: &[(&'static str, Duration)]) {
    let mut ended = Instant::now();
    for &(name, took) in stages.iter().rev() {
        let began = ended.checked_sub(took).unwrap_or(ended);
        if collected.len() < STAGES_MAX {
            collected.push(PastStage { name, began, ended });
        }
        ended = began;
    }
}

/// Collects the stages of the call on which this thread works, until it is dropped.
#[derive(Debug)]
pub(crate) struct StageCollector(());

impl StageCollector {
    pub(crate) fn begin() -> Self {
        STAGES.set(Some(Vec::new()));
        Self(())
    }

    /// The stages of the call, in the order of their beginnings.
    pub(crate) fn end(self) -> Vec<PastStage> {
        let mut stages = STAGES.take().unwrap_or_default();
        stages.sort_by_key(|it| it.began);
        stages
    }
}

impl Drop for StageCollector {
    fn drop(&mut self) {
        STAGES.set(None);
    }
}

/// Begins a span of what this thread does that is within no other.
pub(crate) fn root_span(tracer: &Tracer, name: &'static str) -> Span {
    Span::enter(tracer.root(name).map(|span| {
        let within = SpanParent::new(tracer, span.context());
        (span, within)
    }))
}

/// A span of what a thread does. It ends when it is dropped.
#[derive(Debug)]
pub struct Span {
    entered: Option<(RecordedSpan, EnteredSpan)>,
    /// Not `Send`: each thread has an innermost span of its own.
    of_this_thread: PhantomData<*const ()>,
}

impl Span {
    fn enter(span: Option<(RecordedSpan, SpanParent)>) -> Self {
        Self {
            entered: span.map(|(span, within)| (span, EnteredSpan::enter(within))),
            of_this_thread: PhantomData,
        }
    }

    /// Whether it is recorded. If it is not, what is set is lost.
    #[must_use]
    pub fn is_recorded(&self) -> bool {
        self.entered.is_some()
    }

    /// Sets an attribute.
    pub fn set(&mut self, key: impl Into<Cow<'static, str>>, value: impl Into<Attribute>) {
        if let Some((span, _)) = &mut self.entered {
            span.set(key, value);
        }
    }

    /// Notes that the work has failed.
    pub fn fail(&mut self, cause: &(impl Display + ?Sized)) {
        if let Some((span, _)) = &mut self.entered {
            span.fail_because(cause);
        }
    }
}

/// A recorded span, within which others can begin on any thread.
#[derive(Debug, Clone)]
pub struct SpanParent {
    tracer: Tracer,
    context: Arc<TraceContext>,
}

impl SpanParent {
    pub(crate) fn new(tracer: &Tracer, context: &Arc<TraceContext>) -> Self {
        Self {
            tracer: tracer.clone(),
            context: Arc::clone(context),
        }
    }

    /// The innermost span of this thread. `None` if it works on no call, or if the call's request is not recorded.
    #[must_use]
    pub fn current() -> Option<Self> {
        CURRENT.with_borrow(Clone::clone)
    }

    /// Begins a span within this one. It ends when it is dropped, and may be moved to another thread.
    #[must_use]
    pub fn begin(&self, name: impl Into<Cow<'static, str>>) -> Option<RecordedSpan> {
        self.tracer.child(name, SpanKind::Internal, &self.context)
    }

    /// The parent for spans within `span`, which began within this one.
    #[must_use]
    pub fn within(&self, span: &RecordedSpan) -> Self {
        Self::new(&self.tracer, span.context())
    }

    /// The ids of the span, as they travel to other processes.
    #[must_use]
    pub fn context(&self) -> &TraceContext {
        &self.context
    }
}

/// Makes a span the innermost of this thread, until it is dropped.
#[derive(Debug)]
pub(crate) struct EnteredSpan {
    outer: Option<SpanParent>,
}

impl EnteredSpan {
    pub(crate) fn enter(span: SpanParent) -> Self {
        note_ids(&span);
        let outer = CURRENT.replace(Some(span));
        Self { outer }
    }
}

impl Drop for EnteredSpan {
    fn drop(&mut self) {
        let outer = self.outer.take();
        if let Some(outer) = &outer {
            note_ids(outer);
        }
        CURRENT.set(outer);
    }
}

/// Lines that this thread logs belong to the span.
fn note_ids(span: &SpanParent) {
    note_span(SpanIds {
        trace: span.context.trace_id,
        span: span.context.span_id,
    });
}

#[cfg(test)]
mod tests {
    use flow_trace::Sampling;

    use super::*;

    const EVERY: Sampling = Sampling {
        ratio: 1.0,
        follows_parent: true,
    };

    /// The id of the innermost span.
    fn current() -> Option<[u8; 8]> {
        SpanParent::current().map(|it| it.context().span_id)
    }

    #[test]
    fn a_span_without_a_recorded_call_is_none() {
        let mut alone = span("alone");
        alone.set("key", true);
        alone.fail("not today");
        assert!(!alone.is_recorded());
        assert_eq!(current(), None);
    }

    #[test]
    fn stages_are_collected_only_for_a_call_whose_caller_asks() {
        let ms = Duration::from_millis;
        add_past_spans(&[("before", ms(1))]);
        let collector = StageCollector::begin();
        add_past_spans(&[("tokenize", ms(1)), ("compute", ms(2))]);
        let stages = collector.end();
        let times = stages.iter().map(|it| (it.name, it.ended - it.began));
        let times: Vec<_> = times.collect();
        assert_eq!(times, [("tokenize", ms(1)), ("compute", ms(2))]);
        assert_eq!(stages[0].ended, stages[1].began);
        add_past_spans(&[("after", ms(1))]);
        assert_eq!(StageCollector::begin().end(), []);
    }

    #[test]
    fn the_number_of_collected_stages_is_limited() {
        let collector = StageCollector::begin();
        for _ in 0..STAGES_MAX {
            add_past_spans(&[("a", Duration::ZERO), ("b", Duration::ZERO)]);
        }
        assert_eq!(collector.end().len(), STAGES_MAX);
    }

    #[test]
    fn spans_are_within_each_other_until_they_end() {
        let tracer = Tracer::new(EVERY, drop);
        let call = root_span(&tracer, "call");
        assert!(call.is_recorded());
        let outer = span("outer");
        let of_outer = current();
        let inner = span("inner");
        assert_ne!(current(), of_outer);
        drop(inner);
        assert_eq!(current(), of_outer);
        drop(outer);
        drop(call);
        assert_eq!(current(), None);
    }
}
