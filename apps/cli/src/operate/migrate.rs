//! `triad migrate`: moves orders to another version of their workflow.

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use triad_operator::{acts, versions};
use triad_runtime::ports::OperatorStore;
use triad_runtime::system::SystemClock;

use super::bulk::{BulkArgs, interrupted};
use super::{ActArgs, operator, workflows};
use crate::commands::connection::{KafkaArgs, StoreArgs};

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
    bulk: BulkArgs,
    #[command(flatten)]
    act: ActArgs,
    #[command(flatten)]
    store: StoreArgs,
    #[command(flatten)]
    kafka: KafkaArgs,
}

impl MigrateArgs {
    /// Whether anything is written: it is no dry run.
    pub fn changes(&self) -> bool {
        !self.bulk.is_dry()
    }
}

/// Runs `triad migrate`. The exit code is 0 if every order is moved, 130 if the user interrupted it, otherwise 1.
///
/// # Errors
/// [`Usage`] if the version is not stored or not unique, or the command names no orders; if the store or Kafka fails.
pub async fn run(args: MigrateArgs) -> Result<ExitCode> {
    let act = args.act.act()?;
    let (store, operator) = operator(&args.store, &args.kafka).await?;
    let stored = store.versions().await?;
    let to = versions::find(&stored, &args.to_workflow, args.to_version.as_deref());
    let to = to.map_err(|e| workflows::unknown(&e))?;
    let orders = args.bulk.orders(&store).await?;
    let progress = args.bulk.progress(&orders, "migrated")?;
    let tally = acts::migrate(
        &operator,
        &SystemClock,
        orders,
        (&to, &act),
        args.bulk.selection()?,
        interrupted(),
        |line| progress.line(line),
    )
    .await?;
    progress.end(tally)
}
