//! What the function is asked for.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;
use triad_installation::{MappingPollers, TopicPart};

/// A request, as Terraform or an operator sends it.
#[derive(Debug, Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Request {
    /// Make the topics that are missing.
    Topics {
        /// All topics of the installation.
        topics: Vec<TopicPart>,
    },
    /// Make workflow files the present versions of their workflows.
    Publish {
        /// The texts of the files by name: `NAME.yaml`, and `agents/NAME.yaml` for descriptions of services.
        files: BTreeMap<String, String>,
        /// The agents that exist.
        agents: Vec<String>,
    },
    /// Set the pollers of event source mappings.
    Mappings {
        /// The group in which they share poller units; empty: none.
        group: String,
        /// The mappings.
        mappings: Vec<MappingPollers>,
    },
    /// Let everybody invoke the console's function by its URL.
    Console {
        /// Name of the function.
        function: String,
    },
    /// Examine the installation.
    Doctor,
}

impl Request {
    /// Reads a request. The error is for people.
    pub fn read(event: Value) -> Result<Self, String> {
        serde_json::from_value(event).map_err(|e| {
            format!("this is no request: {e}; `do` is topics, publish, mappings, console or doctor")
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn requests_are_read_as_terraform_sends_them() {
        for event in [
            json!({"do": "topics", "topics": [{"name": "orders", "partitions": 8, "replication": null, "settings": {"retention.ms": "1"}}]}),
            json!({"do": "publish", "files": {"w.yaml": "workflow: w"}, "agents": ["payment"]}),
            json!({"do": "mappings", "group": "", "mappings": [{"uuid": "u", "least": 1, "most": 2}]}),
            json!({"do": "console", "function": "shop-console"}),
            json!({"do": "doctor"}),
        ] {
            assert!(Request::read(event.clone()).is_ok(), "{event}");
        }
        for event in [
            json!({}),
            json!({"do": "nothing"}),
            json!({"do": "console"}),
        ] {
            let why = Request::read(event).unwrap_err();
            assert!(why.contains("`do` is topics"), "{why}");
        }
    }
}
