//! Acts of operators on orders, each one command.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use serde_json::Value;
use triad_operator::operations::order_acts::{ActDetails, OrderAct};
use triad_workflow::numbers;

use super::bulk::BulkArgs;
use super::correct;
use crate::commands::who::ActArgs;
use crate::connection::{KafkaArgs, StoreArgs};
use crate::output::Usage;
use crate::user_files;

/// Options that all acts on orders share.
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

/// Try the failed step of orders in Error again, or run Compensated orders again
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  triad resubmit 10248 --why 'card was unlocked'
  triad resubmit 10248 --step charge-payment --set amount=12.5 --why 'typo in amount'
  triad resubmit 10248 --step charge-payment --edit --why 'typo in amount'
  triad resubmit --state Error --cause 'permanent/charge/currency' --step charge --set currency=EUR --why 'moved'
  triad resubmit --state Error --cause 'permanent/notify-customer/*' --rate 20 --yes --why 'mail is back'

A corrected input starts from the present one, or replaces it as a whole (--input). The differences are shown
before the act. The new input must have the fields of the present one, each of the same type, and is
recorded. It is possible only while the step certainly has had no effect.")]
pub struct ResubmitArgs {
    /// The step whose input is corrected
    #[arg(long, value_name = "STEP", requires = "correction")]
    step: Option<String>,
    /// The step's new input as a whole: JSON, or @FILE
    #[arg(long, value_name = "JSON", requires = "step", group = "correction")]
    input: Option<String>,
    /// One value to replace in the present input, such as amount=12.5 or lines[0].sku=A-1: JSON, or a text; may be
    /// given several times
    #[arg(
        long,
        value_name = "PATH=VALUE",
        requires = "step",
        group = "correction",
        conflicts_with = "input"
    )]
    set: Vec<String>,
    /// Open the present input in VISUAL or EDITOR; for a single order
    #[arg(long, requires = "step", group = "correction", conflicts_with_all = ["input", "set"])]
    edit: bool,
    #[command(flatten)]
    common: OrderArgs,
}

/// Compensate orders that have not reached their point of no return
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
  triad retry-compensation 10248 --why 'refunds work again'
  triad retry-compensation --state CompensationFailed --yes --why 'refunds work again'")]
pub struct RetryCompensationArgs {
    #[command(flatten)]
    common: OrderArgs,
}

/// Mark orders in Error or CompensationFailed as resolved by hand
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  triad close 10248 --why 'refunded by hand, ticket 4711'

The order keeps its state and leaves the lists of orders that need an operator.")]
pub struct CloseArgs {
    #[command(flatten)]
    common: OrderArgs,
}

/// Replace details of orders that no step has read yet
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  triad amend 10248 --details '{\"ship\": {\"city\": \"Lyon\"}}' --why 'the customer has moved'
  triad amend 10248 --details '{\"gift\": null}' --why 'no gift' --dry-run
  triad amend 10248 --details @changes.json --why 'the customer has moved'

The JSON is a merge patch (RFC 7396): the fields that it has are replaced, null removes a field, and all others stay.
What a step has read stays as it is, and so does what a search key was made of: the act is refused then, and says which
part was read by which step. The same act again changes nothing and is no error.")]
pub struct AmendArgs {
    /// What changes in the details: JSON, or @FILE
    #[arg(long, value_name = "JSON")]
    details: String,
    #[command(flatten)]
    common: OrderArgs,
}

/// Say whether an effect in doubt happened whose step may not be repeated, and let the order continue
#[derive(Debug, Args)]
#[command(
    group = clap::ArgGroup::new("answer").args(["applied", "not_applied"]).required(true),
    after_help = "Examples:
  triad resolve 10248 --step wire --applied --output '{\"reference\": \"w-17\"}' --why 'bank confirms'
  triad resolve 10248 --step wire --not-applied --attempt 2 --why 'bank has nothing'

One of the two answers must be given. An output must have the fields that later steps and the compensation
read: missing ones are named."
)]
pub struct ResolveArgs {
    /// The step in doubt
    #[arg(long, value_name = "STEP")]
    step: String,
    /// The effect happened
    #[arg(long)]
    applied: bool,
    /// The effect did not happen
    #[arg(long)]
    not_applied: bool,
    /// The service's answer: JSON, or @FILE
    #[arg(long, value_name = "JSON", requires = "applied")]
    output: Option<String>,
    /// The attempt about which the service was asked, by its number in the timeline: refused if there is a later one.
    /// Default: the latest
    #[arg(long, value_name = "N")]
    attempt: Option<u32>,
    #[command(flatten)]
    common: OrderArgs,
}

/// Move orders to another version of their workflow
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  triad migrate 10248 --to-workflow order-fulfilment --why 'new carrier' --dry-run
  triad migrate --workflow order-fulfilment --state Pending --to-workflow order-fulfilment --yes --why 'new carrier'

An order ends on the version it began with; it can be moved only if the steps that it has done are
in the other version too. A dry run shows for each order the changes, or the reasons why it cannot be
moved.")]
pub struct MigrateArgs {
    /// The workflow
    #[arg(long, value_name = "NAME")]
    to_workflow: String,
    /// The version, or the beginning of its hash. Default: the present one
    #[arg(long, value_name = "HASH")]
    to_version: Option<String>,
    #[command(flatten)]
    common: OrderArgs,
}

/// The commands that act on orders, one for each act but pausing, which also pauses services.
#[derive(Debug, clap::Subcommand)]
pub enum OrderCommand {
    Resubmit(ResubmitArgs),
    Cancel(CancelArgs),
    RetryCompensation(RetryCompensationArgs),
    Close(CloseArgs),
    Amend(AmendArgs),
    Resolve(ResolveArgs),
    Migrate(MigrateArgs),
}

impl OrderCommand {
    /// Whether anything is written: it is no dry run.
    pub fn changes(&self) -> bool {
        let common = match self {
            Self::Resubmit(args) => &args.common,
            Self::Cancel(args) => &args.common,
            Self::RetryCompensation(args) => &args.common,
            Self::Close(args) => &args.common,
            Self::Amend(args) => &args.common,
            Self::Resolve(args) => &args.common,
            Self::Migrate(args) => &args.common,
        };
        !common.bulk.is_dry()
    }
}

/// Runs one of the commands. Exit codes are those of [`run`].
///
/// # Errors
/// [`Usage`] if a value cannot be read or does not go with the others, and those of [`run`].
pub async fn run_command(command: OrderCommand) -> Result<ExitCode> {
    let none = ActDetails::default();
    match command {
        OrderCommand::Resubmit(args) => resubmit(args).await,
        OrderCommand::Cancel(args) => run(args.common, OrderAct::Cancel, none).await,
        OrderCommand::RetryCompensation(args) => {
            run(args.common, OrderAct::RetryCompensation, none).await
        }
        OrderCommand::Close(args) => run(args.common, OrderAct::Close, none).await,
        OrderCommand::Amend(args) => amend(args).await,
        OrderCommand::Resolve(args) => resolve(args).await,
        OrderCommand::Migrate(args) => migrate(args).await,
    }
}

/// JSON from the command line, or from a file after an @. A number whose digits would not be kept is refused.
pub(crate) fn json(name: &str, text: &str) -> Result<Value, Usage> {
    let Some(file) = text.strip_prefix('@') else {
        return exact(text)
            .map_err(|why| Usage(format!("{name}: {text:?} {why}; a file of JSON is @FILE")));
    };
    let json = user_files::text(Path::new(file)).map_err(|why| Usage(format!("{name}: {why}")))?;
    exact(&json).map_err(|why| Usage(format!("{name}: {file}: {why}")))
}

fn exact(text: &str) -> Result<Value, String> {
    let value = serde_json::from_str(text).map_err(|e| format!("is not JSON: {e}"))?;
    match numbers::altered(text) {
        None => Ok(value),
        Some(place) => Err(format!(
            "has a number that would be rounded, at {place:?}: write it as a text"
        )),
    }
}

async fn resubmit(args: ResubmitArgs) -> Result<ExitCode> {
    let ResubmitArgs {
        step,
        input,
        set,
        edit,
        common,
    } = args;
    let mut details = ActDetails {
        input: input.map(|text| json("--input", &text)).transpose()?,
        step,
        set,
        ..ActDetails::default()
    };
    if edit {
        let [order] = common.bulk.orders.as_slice() else {
            let text = "--edit is for a single order, named by its id; --set corrects many";
            return Err(Usage(text.into()).into());
        };
        let place = common.store.place().await?;
        let step = details.step.as_deref().unwrap_or_default();
        details.input = Some(correct::edited(&place, order, step).await?);
    }
    run(common, OrderAct::Resubmit, details).await
}

async fn amend(args: AmendArgs) -> Result<ExitCode> {
    let details = ActDetails {
        amendment: Some(json("--details", &args.details)?),
        ..ActDetails::default()
    };
    run(args.common, OrderAct::Amend, details).await
}

async fn resolve(args: ResolveArgs) -> Result<ExitCode> {
    let output = args
        .output
        .map(|text| json("--output", &text))
        .transpose()?;
    let details = ActDetails {
        step: Some(args.step),
        applied: Some(args.applied),
        output,
        attempt: args.attempt,
        ..ActDetails::default()
    };
    run(args.common, OrderAct::Resolve, details).await
}

async fn migrate(args: MigrateArgs) -> Result<ExitCode> {
    let details = ActDetails {
        to_workflow: Some(args.to_workflow),
        to_version: args.to_version,
        ..ActDetails::default()
    };
    run(args.common, OrderAct::Migrate, details).await
}

/// State of an order after the act, in a word.
fn done(act: OrderAct) -> &'static str {
    match act {
        OrderAct::Resubmit => "resubmitted",
        OrderAct::Cancel => "cancelled",
        OrderAct::RetryCompensation => "set to compensate again",
        OrderAct::Close => "closed",
        OrderAct::Amend => "amended",
        OrderAct::Pause => "paused",
        OrderAct::Resume => "resumed",
        OrderAct::Resolve => "resolved",
        OrderAct::Migrate => "migrated",
    }
}

/// Acts on the orders that the options name, and prints the results. The exit code is 0 if every order succeeded, 130
/// if the user interrupted it, otherwise 1.
///
/// # Errors
/// [`Usage`] if the options do not fit together; if the store fails during the search, no broker accepts the login,
/// or standard output fails.
pub async fn run(args: OrderArgs, act: OrderAct, details: ActDetails) -> Result<ExitCode> {
    let reason = args.act.reason(args.store.data.far()?.is_some())?;
    let place = args.store.place_with(&args.kafka).await?;
    let orders = args.bulk.orders(&place).await?;
    let what = (act, details);
    args.bulk
        .act(&place, orders, what, &reason, done(act))
        .await
}
