//! `triad submit`: orders from a file or standard input, through Kafka.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use serde::de::IgnoredAny;
use serde_json::json;
use triad_core::submission::Submission;
use triad_core::{Envelope, Priority, topics};
use triad_runtime::Bus;
use triad_workflow::Millis;

use super::watch::{Waited, until_finished};
use crate::connection::{KafkaArgs, StoreArgs};
use crate::output::{Usage, command, print_line};
use crate::user_files;

/// Orders in one batch, which is acknowledged before the next one.
const CHUNK: usize = 500;
/// Longest wait for the acknowledgement of one chunk.
const PATIENCE: Duration = Duration::from_secs(15);
/// Most unfinished orders that are listed by id after a wait.
const SHOWN: usize = 20;

/// Submit orders, one JSON object a line
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  triad submit orders.jsonl
  echo '{\"order_id\": \"7\", \"workflow\": \"order-fulfilment\", \"details\": {}}' | triad submit -
  triad submit --priority high urgent.jsonl
  triad submit --wait orders.jsonl

With --wait the exit code is 0 if all orders are Processed, and 1 if one ended in another way or has not
finished in time.")]
pub struct SubmitArgs {
    /// A JSON-lines file; - is standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Lane
    #[arg(long, value_enum, default_value_t = Lane::Normal)]
    priority: Lane,
    /// Send every line unchanged, without a check before Submission's
    #[arg(long)]
    raw: bool,
    /// Wait until all orders have finished, at most for this time
    #[arg(long, value_name = "TIME", num_args = 0..=1, default_missing_value = "5m", require_equals = true, value_parser = str::parse::<Millis>, conflicts_with = "raw")]
    wait: Option<Millis>,
    /// Print a JSON line instead of text
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    kafka: KafkaArgs,
    /// The store in which --wait looks the orders up.
    #[command(flatten)]
    store: StoreArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Lane {
    Normal,
    High,
}

/// Runs `triad submit`: checks all lines, unless `--raw` is given, then sends them. The exit code is 0; with `--wait`
/// it is 1 unless all orders are Processed in time.
///
/// # Errors
/// [`Usage`] if the file cannot be read, or naming every line that is no order; then no order is sent. An error if no
/// broker answers within 15 s or the broker refuses an order; then earlier orders may be sent.
pub async fn run(args: SubmitArgs) -> Result<ExitCode> {
    let shown = user_files::display_path(&args.file);
    let text = user_files::text(&args.file)?;
    let priority = match args.priority {
        Lane::Normal => Priority::Normal,
        Lane::High => Priority::High,
    };
    let mut messages = Vec::new();
    let mut ids = Vec::new();
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
            Ok(order) => {
                messages.push(Envelope {
                    topic: topics::orders(priority).to_owned(),
                    key: Some(order.order_id.as_str().as_bytes().to_vec()),
                    value: line.as_bytes().to_vec(),
                    headers: Vec::new(),
                    trace: None,
                });
                ids.push(order.order_id);
            }
            Err(e) => problems.push(format!("{shown}:{}: {e}", number + 1)),
        }
    }
    if let (false, Some(order)) = (problems.is_empty(), broken_line(&text)) {
        problems = vec![format!(
            "{shown}:{order}: this JSON goes over more than one line: write one order a line, such as with jq -c . FILE"
        )];
    }
    if !problems.is_empty() {
        problems.push("nothing was submitted".to_owned());
        return Err(Usage(problems.join("\n")).into());
    }
    let count = messages.len();
    let topic = topics::orders(priority);
    let (store, bus) = match args.wait {
        Some(_) => {
            let (store, bus) = tokio::join!(args.store.store(), args.kafka.bus_to(topic));
            (Some(store?), bus?)
        }
        None => (None, args.kafka.bus_to(topic).await?),
    };
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
        print_line(&json!({"kind": "summary", "submitted": count}))?;
    } else {
        println!("{count} submitted");
    }
    match (args.wait, store) {
        (Some(patience), Some(store)) => {
            let waited = until_finished(&store, ids, patience).await?;
            print_waited(&waited, args.json)?;
            Ok(waited.code())
        }
        _ => Ok(ExitCode::SUCCESS),
    }
}

/// If the text consists of JSON values, the line on which the first value begins that spans several lines; `None`
/// otherwise.
fn broken_line(text: &str) -> Option<usize> {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<IgnoredAny>();
    let mut begins = 0;
    let mut broken = None;
    while let Some(value) = values.next() {
        value.ok()?;
        let ends = values.byte_offset();
        let value = text[begins..ends].trim_start();
        if value.contains('\n') {
            let before = &text[..ends - value.len()];
            broken = broken.or(Some(before.matches('\n').count() + 1));
        }
        begins = ends;
    }
    broken
}

/// Prints the number of orders in each final state, and each order that is not Processed.
fn print_waited(waited: &Waited, as_json: bool) -> Result<()> {
    let mut states = BTreeMap::<&str, usize>::new();
    for order in waited.finished.values() {
        *states.entry(order.state.name()).or_default() += 1;
    }
    if as_json {
        let unfinished = &waited.unfinished;
        return print_line(&json!({"finished": states, "unfinished": unfinished}));
    }
    for (state, orders) in states {
        println!("{orders} {state}");
    }
    let failed = waited.finished.values().filter_map(|order| {
        let cause = order.state.cause()?;
        Some(format!("{}  {}  {cause}", order.id, order.state.name()))
    });
    let unfinished = waited.unfinished.iter();
    let unfinished = unfinished.map(|id| {
        let get = command(["triad", "get", id.as_str()]);
        format!("{id}  has not finished: {get}")
    });
    let lines: Vec<String> = failed.chain(unfinished).collect();
    for line in lines.iter().take(SHOWN) {
        println!("{line}");
    }
    if lines.len() > SHOWN {
        println!("and {} more", lines.len() - SHOWN);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_over_several_lines_is_found_where_there_is_nothing_but_values() {
        assert_eq!(broken_line("{\n  \"order_id\": \"1\"\n}\n"), Some(1));
        assert_eq!(broken_line("[\n  {}\n]"), Some(1));
        assert_eq!(broken_line("{}\n{}\n\n{\n}\n{}"), Some(4));
        assert_eq!(broken_line("{}\n{}\n"), None, "one object a line");
        assert_eq!(
            broken_line("{\n}\nx"),
            None,
            "something else is wrong as well"
        );
        assert_eq!(broken_line(""), None);
    }
}
