//! `triad migrate`: moving orders to another version of their workflow.

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use triad_core::migrate::Change;
use triad_runtime::operator::Migrated;
use triad_runtime::ports::OperatorStore;

use super::bulk::{BulkArgs, Line};
use super::{ActArgs, operator, workflows};
use crate::commands::connection::{KafkaArgs, StoreArgs};

/// Move orders to another version of their workflow
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  triad migrate 10248 --to-workflow order-fulfilment --why 'new carrier' --dry-run
  triad migrate --workflow order-fulfilment --state Pending --to-workflow order-fulfilment --yes --why 'new carrier'

An order ends on the version it began with; moving it is possible only where what it has done is
done in the other version too. A dry run says for each order what would change, or what stands
against it.")]
pub struct MigrateArgs {
    /// The workflow
    #[arg(long, value_name = "NAME")]
    to_workflow: String,
    /// The version, or its beginning. Default: the present one
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

pub async fn run(args: MigrateArgs) -> Result<ExitCode> {
    let act = args.act.act()?;
    let store = args.store.store().await?;
    let versions = store.versions().await?;
    let to = workflows::find(&versions, &args.to_workflow, args.to_version.as_deref())?;
    let operator = operator(&args.store, &args.kafka).await?;
    let orders = args.bulk.orders(&store).await?;
    args.bulk
        .run(orders, |id, dry| {
            let (operator, to, act) = (&operator, &to, &act);
            async move {
                match operator.migrate(&id, to, act, dry).await {
                    Ok(Migrated::Done(order, changes)) => {
                        Line::Done(format!("on {}: {}", order.workflow, text(&changes)))
                    }
                    Ok(Migrated::Refused(against)) => Line::Refused(against.join("; ")),
                    Ok(Migrated::NotFound) => Line::Refused("there is no such order".into()),
                    Err(e) => Line::Failed(e.to_string()),
                }
            }
        })
        .await
}

fn text(changes: &[Change]) -> String {
    if changes.is_empty() {
        return "nothing changes for it".to_owned();
    }
    let lines: Vec<String> = changes
        .iter()
        .map(|c| format!("{} {}", c.step, c.what))
        .collect();
    lines.join(", ")
}
