//! What operators do to orders: resubmit, cancel, retry an undo, close, pause, resume, settle.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use serde_json::Value;
use triad_core::{Action, Operation};
use triad_operator::acts;
use triad_runtime::system::SystemClock;
use triad_workflow::StepId;

use super::bulk::{BulkArgs, interrupted};
use super::{ActArgs, operator};
use crate::commands::connection::{KafkaArgs, StoreArgs};
use crate::output::Usage;

/// The options that all acts on orders share.
#[derive(Debug, Args)]
pub struct OrderArgs {
    #[command(flatten)]
    pub(super) bulk: BulkArgs,
    #[command(flatten)]
    pub(super) act: ActArgs,
    #[command(flatten)]
    pub(super) store: StoreArgs,
    #[command(flatten)]
    pub(super) kafka: KafkaArgs,
}

/// Have the failed step of orders in Error done again, or run Compensated orders again
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  triad resubmit 10248 --why 'card was unlocked'
  triad resubmit 10248 --step charge-payment --input '{\"amount\": 12.5}' --why 'typo in amount'
  triad resubmit --state Error --cause 'permanent/notify-customer/*' --rate 20 --yes --why 'mail is back'

A corrected input must have the fields of the one it replaces, and is recorded. It is possible
only while the step has surely had no effect.")]
pub struct ResubmitArgs {
    /// The step whose input is replaced
    #[arg(long, value_name = "STEP", requires = "input")]
    step: Option<String>,
    /// Its new input: JSON, or @FILE
    #[arg(long, value_name = "JSON", requires = "step")]
    input: Option<String>,
    #[command(flatten)]
    common: OrderArgs,
}

/// Undo orders that have not reached their point of no return
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  triad cancel 10248 --why 'customer called'
  triad cancel --state Processing --workflow order-fulfilment --older-than 2d --why 'stuck' --dry-run")]
pub struct CancelArgs {
    #[command(flatten)]
    common: OrderArgs,
}

/// Try failed compensations again
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  triad retry-undo 10248 --why 'refunds work again'
  triad retry-undo --state CompensationFailed --yes --why 'refunds work again'")]
pub struct RetryCompensationArgs {
    #[command(flatten)]
    common: OrderArgs,
}

/// Take orders in Error or CompensationFailed as settled by hand
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  triad close 10248 --why 'refunded by hand, ticket 4711'

The order keeps its state and leaves the lists of what needs an operator.")]
pub struct CloseArgs {
    #[command(flatten)]
    common: OrderArgs,
}

/// Say whether an effect in doubt happened that may not be repeated, and let the order go on
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  triad settle 10248 --step wire --applied --output '{\"reference\": \"w-17\"}' --why 'bank confirms'
  triad settle 10248 --step wire --not-applied --why 'bank has nothing'")]
pub struct SettleArgs {
    /// The step in doubt
    #[arg(long, value_name = "STEP")]
    step: String,
    /// The effect happened
    #[arg(long, required_unless_present = "not_applied")]
    applied: bool,
    /// The effect did not happen
    #[arg(long, conflicts_with = "applied")]
    not_applied: bool,
    /// What the service answered: JSON, or @FILE
    #[arg(long, value_name = "JSON", requires = "applied")]
    output: Option<String>,
    #[command(flatten)]
    common: OrderArgs,
}

/// JSON from the command line, or from a file after an @.
fn json(name: &str, text: &str) -> Result<Value, Usage> {
    let read;
    let json = match text.strip_prefix('@') {
        Some(file) => {
            let path = PathBuf::from(file);
            read = std::fs::read_to_string(&path)
                .map_err(|e| Usage(format!("{name}: {}: {e}", path.display())))?;
            read.as_str()
        }
        None => text,
    };
    serde_json::from_str(json).map_err(|e| Usage(format!("{name} is not JSON: {e}")))
}

/// The id of a step, from the value of `--step`.
///
/// # Errors
/// [`Usage`] if the text breaks the rule for names.
pub fn step(name: &str) -> Result<StepId, Usage> {
    StepId::new(name).map_err(|e| Usage(format!("--step {name:?}: {e}")))
}

/// Runs `triad resubmit`. Exit codes are those of [`run`].
///
/// # Errors
/// [`Usage`] if the step's id or the input cannot be read, and those of [`run`].
pub async fn resubmit(args: ResubmitArgs) -> Result<ExitCode> {
    let input = match (&args.step, &args.input) {
        (Some(name), Some(text)) => Some((step(name)?, json("--input", text)?)),
        _ => None,
    };
    run(args.common, Action::Resubmit { input }).await
}

/// Runs `triad cancel`. Exit codes are those of [`run`].
///
/// # Errors
/// Those of [`run`].
pub async fn cancel(args: CancelArgs) -> Result<ExitCode> {
    run(args.common, Action::Cancel).await
}

/// Runs `triad retry-undo`. Exit codes are those of [`run`].
///
/// # Errors
/// Those of [`run`].
pub async fn retry_compensation(args: RetryCompensationArgs) -> Result<ExitCode> {
    run(args.common, Action::RetryCompensation).await
}

/// Runs `triad close`. Exit codes are those of [`run`].
///
/// # Errors
/// Those of [`run`].
pub async fn close(args: CloseArgs) -> Result<ExitCode> {
    run(args.common, Action::Close).await
}

/// Runs `triad settle`. Exit codes are those of [`run`].
///
/// # Errors
/// [`Usage`] if the step's id or the output cannot be read, and those of [`run`].
pub async fn settle(args: SettleArgs) -> Result<ExitCode> {
    let applied = match (&args.output, args.applied) {
        (Some(text), _) => Some(json("--output", text)?),
        (None, true) => Some(Value::Null),
        (None, false) => None,
    };
    let action = Action::Settle {
        step: step(&args.step)?,
        applied,
    };
    run(args.common, action).await
}

/// Does one action on the orders that the options name, and prints what came of each. The exit code
/// is 0 if it is done on every order, 130 if the user interrupted it, otherwise 1.
///
/// # Errors
/// [`Usage`] if the options do not fit together; if the store fails while orders are looked for, no
/// broker lets the command in, or standard output fails.
pub async fn run(args: OrderArgs, action: Action) -> Result<ExitCode> {
    let operation = Operation {
        action,
        act: args.act.act()?,
    };
    let store = args.store.store().await?;
    let operator = operator(&args.store, &args.kafka).await?;
    let bulk = &args.bulk;
    let orders = bulk.orders(&store).await?;
    let progress = bulk.progress(&orders)?;
    let tally = acts::operate(
        &operator,
        &SystemClock,
        orders,
        &operation,
        bulk.how()?,
        interrupted(),
        |line| progress.line(line),
    )
    .await?;
    Ok(progress.end(tally))
}
