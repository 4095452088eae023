//! `triad init`: creates the tables and topics of an installation without templates.

use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Args;
use serde_json::json;
use triad_core::topics;
use triad_kafka::{WantedTopic, make_topics};
use triad_workflow::AgentName;

use crate::connection::{KafkaArgs, StoreArgs};
use crate::output::{Usage, print_line};

/// Tables of an installation.
const TABLES: usize = 4;

/// Make the tables and topics that are missing
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  triad init --brokers 127.0.0.1:9092 --dynamodb http://127.0.0.1:4566 --agents inventory,payment
  triad init --topics-only --brokers kafka.example:9092 --prefix shop- --agents payment --replication 3 --min-insync 2

Topics that exist are left as they are if they have what is asked for. If one differs, nothing is made: it may be another
program's. In the cloud the Terraform module makes tables and topics.")]
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
    /// Copies of each partition. Default: as many as the brokers give to a new topic
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(1..=9))]
    replication: Option<i32>,
    /// Copies that must have a message before it is acknowledged (min.insync.replicas). Default: the brokers' setting
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(1..=9))]
    min_insync: Option<i32>,
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

/// Runs `triad init`. Existing tables and topics are not changed. The exit code is always 0.
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
    if args.min_insync > args.replication && args.replication.is_some() {
        let text = "--min-insync must not be more than --replication";
        return Err(Usage(text.to_owned()).into());
    }
    let wanted = |name: String| {
        let retention = topics::retention(&name).0.to_string();
        let retention = ("retention.ms".to_owned(), retention);
        let insync = args.min_insync.map(|n| n.to_string());
        let insync = insync.map(|n| ("min.insync.replicas".to_owned(), n));
        WantedTopic {
            name,
            partitions: args.partitions,
            replication: args.replication,
            settings: insync.into_iter().chain([retention]).collect(),
        }
    };
    let all = topics::all(&agents, &args.reply_topic);
    let wanted: Vec<WantedTopic> = all.into_iter().map(wanted).collect();
    if args.topics_only {
        make_topics(&args.kafka.reached().await?, &wanted).await?;
        return done(&args, wanted.len(), 0);
    }
    let (kafka, tables) = tokio::join!(args.kafka.reached(), args.store.tables());
    let (kafka, tables) = (kafka?, tables?);
    make_topics(&kafka, &wanted).await?;
    let made = tables.make_missing().await;
    made.context("the tables could not be made")?;
    done(&args, wanted.len(), TABLES)
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
