//! `triad submit`: orders from a file or standard input, through Kafka.

use std::io::Read;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use serde_json::json;
use triad_core::submission::Submission;
use triad_core::{Envelope, Priority, topics};
use triad_runtime::Bus;

use super::connection::KafkaArgs;
use crate::output::{Usage, print_line};

/// Orders sent under one acknowledgement.
const CHUNK: usize = 500;
/// Longest wait for the acknowledgement of one chunk.
const PATIENCE: Duration = Duration::from_secs(15);

/// Submit orders, one JSON object a line
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  triad submit orders.jsonl
  echo '{\"order_id\": \"7\", \"workflow\": \"order-fulfilment\", \"details\": {}}' | triad submit -
  triad submit --priority high urgent.jsonl")]
pub struct SubmitArgs {
    /// A JSON-lines file; - is standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Lane
    #[arg(long, value_enum, default_value_t = Lane::Normal)]
    priority: Lane,
    /// Send every line as it is, checked by nobody but Submission
    #[arg(long)]
    raw: bool,
    /// Print a JSON line instead of text
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    kafka: KafkaArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Lane {
    Normal,
    High,
}

/// Runs `triad submit`: checks all lines, unless `--raw` is given, then sends them. The exit code
/// is always 0.
///
/// # Errors
/// [`Usage`] if the file cannot be read or naming every line that is no order, and then none is
/// sent; if no broker answers within 15 s or the broker refuses an order, and then earlier ones may
/// be sent.
pub async fn run(args: SubmitArgs) -> Result<ExitCode> {
    let shown = args.file.display().to_string();
    let text = if shown == "-" {
        let mut text = String::new();
        std::io::stdin()
            .read_to_string(&mut text)
            .context("standard input cannot be read")?;
        text
    } else {
        std::fs::read_to_string(&args.file).map_err(|e| Usage(format!("{shown}: {e}")))?
    };
    let priority = match args.priority {
        Lane::Normal => Priority::Normal,
        Lane::High => Priority::High,
    };
    let mut messages = Vec::new();
    let mut problems = Vec::new();
    for (number, line) in text
        .lines()
        .enumerate()
        .filter(|(_, l)| !l.trim().is_empty())
    {
        if args.raw {
            messages.push(Envelope {
                topic: topics::orders(priority).to_owned(),
                key: None,
                value: line.as_bytes().to_vec(),
                headers: Vec::new(),
                trace: None,
            });
            continue;
        }
        match Submission::decode(Some(line.as_bytes())) {
            Ok(order) => messages.push(Envelope {
                topic: topics::orders(priority).to_owned(),
                key: Some(order.order_id.as_str().as_bytes().to_vec()),
                value: line.as_bytes().to_vec(),
                headers: Vec::new(),
                trace: None,
            }),
            Err(e) => problems.push(format!("{shown}:{}: {e}", number + 1)),
        }
    }
    if !problems.is_empty() {
        problems.push("nothing was submitted".to_owned());
        return Err(Usage(problems.join("\n")).into());
    }
    let count = messages.len();
    let bus = args.kafka.bus().await?;
    while !messages.is_empty() {
        let rest = messages.split_off(messages.len().min(CHUNK));
        let sent = bus.publish(std::mem::replace(&mut messages, rest));
        let refused = || format!("Kafka at {} did not take an order", args.kafka.brokers);
        let results = tokio::time::timeout(PATIENCE, sent)
            .await
            .context("no broker answered in 15 s; is it running?")
            .with_context(refused)?;
        for result in results {
            result.with_context(refused)?;
        }
    }
    if args.json {
        print_line(&json!({"submitted": count}))?;
    } else {
        println!("{count} submitted");
    }
    Ok(ExitCode::SUCCESS)
}
