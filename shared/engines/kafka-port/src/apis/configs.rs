//! DescribeConfigs, and the supported topic settings.
//!
//! Settings without effect on one machine are accepted and shown, so that scripts written for Kafka run; only those
//! marked so below change what the broker does.

use std::collections::BTreeMap;

use kafka_protocol::error::ResponseError;
use kafka_protocol::messages::describe_configs_request::DescribeConfigsResource;
use kafka_protocol::messages::describe_configs_response::{
    DescribeConfigsResourceResult, DescribeConfigsResult,
};
use kafka_protocol::messages::{DescribeConfigsRequest, DescribeConfigsResponse};
use kafka_protocol::protocol::StrBytes;

use super::Reply;
use crate::core::{Core, NODE};
use crate::wire::frame::Header;

const TOPIC: i8 = 2;
const BROKER: i8 = 4;
const SOURCE_TOPIC: i8 = 1;
const SOURCE_DEFAULT: i8 = 5;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Value {
    /// A whole number; -1 stands for "no limit".
    Number,
    Text,
}

impl Value {
    /// Kafka's code of the type.
    fn kind(self) -> i8 {
        match self {
            Self::Text => 2,
            Self::Number => 5,
        }
    }
}

/// Topic settings with their defaults. `max.message.bytes`, `retention.bytes` and `retention.ms` have effect.
const TOPIC_SETTINGS: &[(&str, Value, &str)] = &[
    ("cleanup.policy", Value::Text, "delete"),
    ("compression.type", Value::Text, "producer"),
    ("delete.retention.ms", Value::Number, "86400000"),
    ("file.delete.delay.ms", Value::Number, "60000"),
    ("flush.messages", Value::Number, "9223372036854775807"),
    ("flush.ms", Value::Number, "9223372036854775807"),
    ("index.interval.bytes", Value::Number, "4096"),
    (
        "max.compaction.lag.ms",
        Value::Number,
        "9223372036854775807",
    ),
    ("max.message.bytes", Value::Number, "1048588"),
    ("message.timestamp.type", Value::Text, "CreateTime"),
    ("min.cleanable.dirty.ratio", Value::Text, "0.5"),
    ("min.compaction.lag.ms", Value::Number, "0"),
    ("min.insync.replicas", Value::Number, "1"),
    ("preallocate", Value::Text, "false"),
    ("retention.bytes", Value::Number, "-1"),
    ("retention.ms", Value::Number, "-1"),
    ("segment.bytes", Value::Number, "67108864"),
    ("segment.ms", Value::Number, "604800000"),
    ("unclean.leader.election.enable", Value::Text, "false"),
];

/// Whether a topic can be created with this setting.
pub(crate) fn is_topic_setting(name: &str, value: &str) -> bool {
    TOPIC_SETTINGS.iter().any(|(known, kind, _)| {
        *known == name && (*kind == Value::Text || value.parse::<i64>().is_ok_and(|n| n >= -1))
    })
}

pub(crate) fn describe(core: &Core, header: &Header, request: DescribeConfigsRequest) -> Reply {
    let results = request.resources.into_iter().map(|resource| {
        let result = DescribeConfigsResult::default().with_resource_type(resource.resource_type);
        let result = match describe_one(core, &resource) {
            Ok(configs) => result.with_configs(configs),
            Err(error) => result.with_error_code(error.code()),
        };
        result.with_resource_name(resource.resource_name)
    });
    let response = DescribeConfigsResponse::default().with_results(results.collect());
    Reply::Ready(header.encode(&response))
}

fn describe_one(
    core: &Core,
    resource: &DescribeConfigsResource,
) -> Result<Vec<DescribeConfigsResourceResult>, ResponseError> {
    let wanted = |name: &str| {
        resource
            .configuration_keys
            .as_ref()
            .is_none_or(|keys| keys.iter().any(|k| **k == *name))
    };
    let name = resource.resource_name.as_str();
    match resource.resource_type {
        TOPIC => {
            let topic = core
                .topics
                .get(name)
                .ok_or(ResponseError::UnknownTopicOrPartition)?;
            let broker = broker_defaults(core);
            let settings = TOPIC_SETTINGS.iter().filter(|(name, ..)| wanted(name));
            let describe = |(name, kind, default): &(&'static str, Value, &str)| {
                let own = topic.settings.get(*name);
                let inherited = broker.get(name).map_or(*default, String::as_str);
                let value = own.map_or(inherited, String::as_str);
                setting(name, *kind, value, own.is_some(), false)
            };
            Ok(settings.map(describe).collect())
        }
        BROKER if name.is_empty() || name == NODE.0.to_string() => {
            let c = &core.config;
            let all = [
                (
                    "auto.create.topics.enable",
                    Value::Text,
                    c.auto_create_topics.to_string(),
                ),
                ("broker.id", Value::Number, NODE.0.to_string()),
                ("default.replication.factor", Value::Number, "1".to_owned()),
                (
                    "max.connections",
                    Value::Number,
                    c.max_connections.to_string(),
                ),
                (
                    "message.max.bytes",
                    Value::Number,
                    core.topics.settings().max_record_bytes.to_string(),
                ),
                ("min.insync.replicas", Value::Number, "1".to_owned()),
                (
                    "num.partitions",
                    Value::Number,
                    c.default_partitions.to_string(),
                ),
                (
                    "socket.request.max.bytes",
                    Value::Number,
                    c.max_request_bytes.to_string(),
                ),
            ];
            let wanted = all.into_iter().filter(|(name, ..)| wanted(name));
            Ok(wanted
                .map(|(name, kind, value)| setting(name, kind, &value, false, true))
                .collect())
        }
        _ => Err(ResponseError::InvalidRequest),
    }
}

/// Topic settings whose default the broker's configuration decides.
fn broker_defaults(core: &Core) -> BTreeMap<&'static str, String> {
    let settings = core.topics.settings();
    let retention = settings
        .retention_bytes
        .map_or("-1".to_owned(), |n| n.to_string());
    BTreeMap::from([
        ("max.message.bytes", settings.max_record_bytes.to_string()),
        ("retention.bytes", retention),
    ])
}

fn setting(
    name: &'static str,
    kind: Value,
    value: &str,
    own: bool,
    read_only: bool,
) -> DescribeConfigsResourceResult {
    DescribeConfigsResourceResult::default()
        .with_name(StrBytes::from_static_str(name))
        .with_value(Some(StrBytes::from_string(value.to_owned())))
        .with_read_only(read_only)
        .with_config_source(if own { SOURCE_TOPIC } else { SOURCE_DEFAULT })
        .with_config_type(kind.kind())
}
