//! `triad workflows`: lists the stored versions, and removes those that no order needs.

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use serde_json::json;
use triad_operator::operations::workflows::PrunedVersion;
use triad_operator::operations::{ListWorkflows, PruneWorkflows, Reason};
use triad_runtime::Clock;
use triad_runtime::system::SystemClock;

use crate::commands::who::operator_name;
use crate::connection::StoreArgs;
use crate::output::{self, count, print_line, relative_time};

/// Show the stored versions of workflows, and how many orders are pinned to each
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  triad workflows
  triad workflows --prune --dry-run
  triad workflows --prune

A version is kept until no stored order needs it: --prune removes those that are not the present
one, that no order in the table is pinned to, and that were published over an hour ago. On
DynamoDB the whole table of process records is read to count the orders.")]
pub struct WorkflowsArgs {
    /// Remove the versions that no order needs
    #[arg(long)]
    prune: bool,
    /// Show what would be removed, and remove nothing
    #[arg(long, requires = "prune")]
    dry_run: bool,
    /// Print a JSON line for each version
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    store: StoreArgs,
}

impl WorkflowsArgs {
    /// Whether versions are removed.
    pub fn changes(&self) -> bool {
        self.prune && !self.dry_run
    }
}

/// Runs `triad workflows`. The exit code is always 0.
///
/// # Errors
/// If the store fails, a record cannot be read, a version cannot be removed, or standard output
/// fails.
pub async fn run(args: WorkflowsArgs) -> Result<ExitCode> {
    let now = SystemClock.now();
    let place = args.store.place().await?;
    let versions = match args.prune {
        false => {
            let kept = |version| PrunedVersion {
                version,
                removed: false,
            };
            let found = place.ask(ListWorkflows { count: true }).await?.versions;
            found.into_iter().map(kept).collect()
        }
        true => {
            let is_far = args.store.data.far()?.is_some();
            let by = operator_name(None).unwrap_or_else(|_| "triad workflows --prune".to_owned());
            let asked = PruneWorkflows {
                reason: Reason {
                    why: "no order needs them".to_owned(),
                    by: (!is_far).then_some(by),
                },
                dry_run: args.dry_run,
            };
            place.ask(asked).await?.versions
        }
    };
    let mut gone: u64 = 0;
    let mut table = output::table([
        "Workflow",
        "Version",
        "Published",
        "Present",
        "Under way",
        "Finished",
        "",
    ]);
    for PrunedVersion { version, removed } in &versions {
        let removed = *removed;
        gone += u64::from(removed);
        let what = match (removed, args.dry_run) {
            (true, true) => "would be removed",
            (true, false) => "removed",
            (false, _) => "",
        };
        if args.json {
            let mut line = triad_operator::json::line("version", version)?;
            line["result"] = what.into();
            print_line(&line)?;
        } else {
            table.add_row([
                version.workflow.to_string(),
                version.version.to_string(),
                relative_time(version.published_at, now),
                if version.present { "yes" } else { "" }.to_owned(),
                version.under_way.unwrap_or_default().to_string(),
                version.finished.unwrap_or_default().to_string(),
                what.to_owned(),
            ]);
        }
    }
    let number = versions.len();
    if args.json {
        let further = json!({"removed": gone, "dry_run": args.dry_run});
        output::summary(number, false, None, further)?;
        return Ok(ExitCode::SUCCESS);
    }
    if number > 0 {
        table.print();
    }
    let removed = match (args.prune, args.dry_run) {
        (false, _) => String::new(),
        (true, true) => format!(", {gone} would be removed (dry run: nothing was removed)"),
        (true, false) => format!(", {gone} removed"),
    };
    println!("{}{removed}", count(number as u64, "version", "versions"));
    Ok(ExitCode::SUCCESS)
}
