//! What is reached over the network without AWS's own interfaces: brokers, topics, tables, services of agents.

use std::time::Duration;

use triad_dynamodb::{Client, Tables};
use triad_kafka::{KafkaConfig, TopicDifference, WantedTopic, compare_topics, topics_seen};

use crate::finding::{Finding, causes};
use crate::parts::Parts;

/// Longest wait for brokers, and for each service.
const WITHIN: Duration = Duration::from_secs(10);

pub(super) async fn kafka(config: &KafkaConfig, parts: &Parts) -> Vec<Finding> {
    let (part, name) = ("brokers", &config.brokers);
    let asked = config.clone();
    // `topics_seen` blocks.
    let seen = tokio::task::spawn_blocking(move || topics_seen(&asked, WITHIN)).await;
    let seen = match seen {
        Ok(Ok(seen)) => seen,
        Ok(Err(why)) => {
            let text = format!(
                "{why}; see whether they run, and whether the security groups let this place in"
            );
            return vec![Finding::wrong(part, name, text)];
        }
        Err(why) => return vec![Finding::wrong(part, name, why.to_string())],
    };
    let answer = format!(
        "they answer, and show {} topics of the installation",
        seen.len()
    );
    let mut findings = vec![Finding::ok(part, name, answer)];
    let wanted: Vec<WantedTopic> = parts.topics.iter().cloned().map(Into::into).collect();
    if wanted.is_empty() {
        return findings;
    }
    match compare_topics(config, &wanted).await {
        Err(why) => findings.push(Finding::wrong("topics", "", why.to_string())),
        Ok(differences) if differences.is_empty() => {
            let text = format!("all {} exist, with the settings that the installation needs", wanted.len());
            findings.push(Finding::ok("topics", "", text));
        }
        Ok(differences) => findings.extend(differences.into_iter().map(|difference| {
            let said = difference.to_string();
            match difference {
                TopicDifference::Missing(name) => {
                    let text = "it does not exist, or the login may not see it: apply the module again, or make it with triad init --topics-only";
                    Finding::wrong("topic", name, text)
                }
                TopicDifference::Other { name, .. } => {
                    let text = format!("{said}: change the topic (kafka-configs), or the module's `topics`");
                    Finding::wrong("topic", name, text)
                }
            }
        })),
    }
    findings
}

pub(super) async fn tables(client: &Client, tables: &Tables) -> Vec<Finding> {
    let examined = triad_dynamodb::examine(client, tables).await;
    let finding = |one: triad_dynamodb::Examined| match one.fault {
        None => Finding::ok(
            "table",
            one.table,
            "it is there, with its indexes, and answers",
        ),
        Some(why) => Finding::wrong("table", one.table, why),
    };
    examined.into_iter().map(finding).collect()
}

/// Whether the services of agents answer at all. What they answer to a call is the matter of `triad agent check`.
pub(super) async fn agents(parts: &Parts) -> Vec<Finding> {
    let client = match triad_http::client_builder().build() {
        Ok(client) => client,
        Err(why) => return vec![Finding::wrong("agents", "", why.to_string())],
    };
    let looks = parts.agents.iter().map(async |(name, url)| {
        let answered = client.head(url).timeout(WITHIN).send().await;
        match answered {
            Ok(_) => Finding::ok("agent", name, "its service answers"),
            Err(why) => {
                let text = format!(
                    "its service does not answer: {}; see whether it runs, and whether the security groups and routes let this place out",
                    causes(&why.without_url())
                );
                Finding::wrong("agent", name, text)
            }
        }
    });
    futures::future::join_all(looks).await
}
