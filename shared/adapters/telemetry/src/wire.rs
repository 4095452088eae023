//! Spans as OTLP has them.

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::span::{Link, SpanKind as WireKind};
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span, Status};
use prost::Message;
use triad_runtime::traces::{Attribute, AttributeValue, SpanKind, TraceSpan};

use crate::settings::ExportSettings;

/// The resource of every span of a process.
pub(crate) fn resource(settings: &ExportSettings) -> Resource {
    let said = [
        ("service.name", &settings.service),
        ("service.instance.id", &settings.instance),
        ("service.version", &settings.version),
    ];
    let text = |(name, value): (&'static str, &String)| (name, value.clone().into());
    Resource {
        attributes: said.map(text).into_iter().map(attribute).collect(),
        ..Resource::default()
    }
}

/// The body of a post.
pub(crate) fn request(resource: &Resource, spans: &[TraceSpan]) -> Vec<u8> {
    let scope = InstrumentationScope {
        name: "triad".to_owned(),
        ..InstrumentationScope::default()
    };
    let request = ExportTraceServiceRequest {
        resource_spans: vec![ResourceSpans {
            resource: Some(resource.clone()),
            scope_spans: vec![ScopeSpans {
                scope: Some(scope),
                spans: spans.iter().map(span).collect(),
                schema_url: String::new(),
            }],
            schema_url: String::new(),
        }],
    };
    request.encode_to_vec()
}

fn span(span: &TraceSpan) -> Span {
    let mut attributes: Vec<KeyValue> = span.attributes.iter().cloned().map(attribute).collect();
    let failure = span.failure.clone();
    attributes.extend(failure.map(|code| attribute(("error.type", code.into()))));
    let hop = |id: u64| id.to_be_bytes().to_vec();
    let link = |to: &triad_runtime::traces::TraceContext| Link {
        trace_id: to.trace_id().to_be_bytes().to_vec(),
        span_id: hop(to.hop_id()),
        flags: u32::from(to.is_sampled()),
        ..Link::default()
    };
    Span {
        trace_id: span.context.trace_id().to_be_bytes().to_vec(),
        span_id: hop(span.context.hop_id()),
        parent_span_id: span
            .parent
            .map(|parent| hop(parent.hop_id()))
            .unwrap_or_default(),
        flags: u32::from(span.context.is_sampled()),
        name: span.name.clone().into_owned(),
        kind: kind(span.kind).into(),
        start_time_unix_nano: span.began.0.saturating_mul(1_000_000),
        end_time_unix_nano: span.ended.0.saturating_mul(1_000_000),
        attributes,
        links: span.links.iter().map(link).collect(),
        status: span.failure.as_ref().map(|code| Status {
            message: code.clone(),
            code: StatusCode::Error.into(),
        }),
        ..Span::default()
    }
}

fn kind(kind: SpanKind) -> WireKind {
    match kind {
        SpanKind::Internal => WireKind::Internal,
        SpanKind::Server => WireKind::Server,
        SpanKind::Client => WireKind::Client,
        SpanKind::Producer => WireKind::Producer,
        SpanKind::Consumer => WireKind::Consumer,
    }
}

fn attribute((name, value): Attribute) -> KeyValue {
    let value = match value {
        AttributeValue::Text(text) => Value::StringValue(text.into_owned()),
        AttributeValue::Number(number) => Value::IntValue(number),
    };
    KeyValue {
        key: name.to_owned(),
        value: Some(AnyValue { value: Some(value) }),
        ..KeyValue::default()
    }
}
