//! `triad init`: creates the tables and topics of an installation without templates.

use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Args;
use serde_json::json;
use triad_core::topics;
use triad_kafka::{Topic, create_topics};
use triad_workflow::AgentName;

use super::connection::{KafkaArgs, StoreArgs};
use crate::output::{Usage, print_line};

/// Tables of an installation.
const TABLES: usize = 4;

/// Make the tables and topics that are missing, for LocalStack and tests
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  triad init --brokers 127.0.0.1:9092 --dynamodb http://127.0.0.1:4566 --agents inventory,payment

In the cloud the templates make the tables, with backups, encryption and protection, and
`triad init --topics-only` the topics.")]
pub struct InitArgs {
    /// Agents whose topics are made
    #[arg(long, value_name = "NAME", value_delimiter = ',', required = true)]
    agents: Vec<String>,
    /// Reply topics that are made
    #[arg(long, value_name = "TOPIC", value_delimiter = ',')]
    reply_topic: Vec<String>,
    /// Partitions of each topic
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(i32).range(1..=1000))]
    partitions: i32,
    /// Make the topics alone: the templates make the tables
    #[arg(long)]
    topics_only: bool,
    /// Print a JSON line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    kafka: KafkaArgs,
    #[command(flatten)]
    store: StoreArgs,
}

/// Runs `triad init`. Existing tables and topics are left unchanged. The exit code is always 0.
///
/// # Errors
/// [`Usage`] if an agent's name or a reply topic is not allowed; if Kafka or DynamoDB cannot be reached or refuses.
pub async fn run(args: InitArgs) -> Result<ExitCode> {
    let agents: Vec<AgentName> = args
        .agents
        .iter()
        .map(|n| AgentName::new(n).map_err(|e| Usage(format!("--agents: {e}"))))
        .collect::<Result<_, _>>()?;
    if let Some(bad) = args.reply_topic.iter().find(|t| !topics::is_reply_topic(t)) {
        return Err(Usage(format!(
            "--reply-topic {bad:?} is not of the form reply.<app>"
        ))
        .into());
    }
    let new: Vec<Topic> = topics::all(&agents, &args.reply_topic)
        .into_iter()
        .map(|name| Topic {
            name,
            partitions: args.partitions,
        })
        .collect();
    if args.topics_only {
        create_topics(&args.kafka.reached().await?, &new).await?;
        return done(&args, new.len(), 0);
    }
    let (kafka, tables) = tokio::join!(args.kafka.reached(), args.store.tables());
    let (kafka, tables) = (kafka?, tables?);
    create_topics(&kafka, &new).await?;
    let made = tables.make_missing().await;
    made.context("the tables could not be made")?;
    done(&args, new.len(), TABLES)
}

/// Prints the result.
fn done(args: &InitArgs, topics: usize, tables: usize) -> Result<ExitCode> {
    if args.json {
        print_line(&json!({"kind": "summary", "topics": topics, "tables": tables}))?;
    } else if tables == 0 {
        println!("{topics} topics are there");
    } else {
        println!("{topics} topics and {tables} tables are there");
    }
    Ok(ExitCode::SUCCESS)
}
