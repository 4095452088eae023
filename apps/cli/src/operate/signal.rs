//! `triad signal`: sends an event to an order that waits for it.

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use serde_json::Value;
use triad_operator::operations::{SendEvent, SendKeyedEvent};

use crate::commands::who::operator_name;

use super::orders::json;
use crate::connection::{KafkaArgs, StoreArgs};
use crate::output::print_line;
use triad_operator::operations::Form;

/// Send an event to an order: the step that waits for it goes on
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  triad signal 10248 payment-confirmed --input '{\"amount\": 20}'
  triad signal 10248 payment-confirmed --id p-17 --input @payment.json
  triad signal 10248 decided --by ann --input '{\"decision\": \"yes\"}'
  triad signal pay-77 payment-confirmed --by-key
  triad signal 10248 approved --url https://triad.example.com

An event of the same name and id is the same event again: it is sent once. Exit code 1 if no step of the order waits for
an event of this name, now or later.")]
pub struct SignalArgs {
    /// The order's id; with --by-key, the key under which the order waits for the event
    #[arg(value_name = "ORDER")]
    order: String,
    /// The event's name, as the workflow's `await` has it
    #[arg(value_name = "EVENT")]
    event: String,
    /// ORDER is the `key` of the workflow's `await`, such as a payment id that an earlier step has returned
    #[arg(long)]
    by_key: bool,
    /// The event's id. Default: made of its name and its data
    #[arg(long, value_name = "ID")]
    id: Option<String>,
    /// What it brings: JSON, or @FILE
    #[arg(long, value_name = "JSON")]
    input: Option<String>,
    /// Who sends it. Default: the user of this machine; with --url, the name of the token
    #[arg(long, value_name = "NAME")]
    by: Option<String>,
    /// Print the answer as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    store: StoreArgs,
    #[command(flatten)]
    kafka: KafkaArgs,
}

/// Runs `triad signal`.
///
/// # Errors
/// [`Usage`](crate::output::Usage) if the data is not JSON; if the event is refused, or the installation cannot be
/// reached.
pub async fn run(args: SignalArgs) -> Result<ExitCode> {
    let data = match &args.input {
        Some(text) => json("--input", text)?,
        None => Value::Null,
    };
    let by = match args.store.data.far()? {
        Some(_) => args.by,
        None => operator_name(args.by.as_deref()).ok(),
    };
    let place = args.store.place_with(&args.kafka).await?;
    let (order, event, event_id) = (args.order, args.event, args.id);
    let sent = match args.by_key {
        true => {
            let key = order;
            let request = SendKeyedEvent {
                key,
                event,
                event_id,
                data,
                by,
            };
            place.ask(request).await?
        }
        false => {
            let id = order;
            let request = SendEvent {
                id,
                event,
                event_id,
                data,
                by,
            };
            place.ask(request).await?
        }
    };
    if args.json {
        print_line(&sent.form()?)?;
    } else if sent.is_repeated {
        println!(
            "{}: has had the event {} ({}) before",
            sent.order_id, sent.event, sent.event_id
        );
    } else {
        println!(
            "{}: the event {} ({}) is sent",
            sent.order_id, sent.event, sent.event_id
        );
    }
    Ok(ExitCode::SUCCESS)
}
