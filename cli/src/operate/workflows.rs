//! `triad workflows`: the stored versions, and removing those that no order needs.

use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use comfy_table::Table;
use comfy_table::presets::NOTHING;
use serde_json::json;
use triad_core::WorkflowRef;
use triad_runtime::ports::{OperatorStore, StoredVersion};
use triad_runtime::system::SystemClock;
use triad_runtime::{Clock, StateStore};
use triad_workflow::Millis;

use super::Store;
use crate::commands::connection::StoreArgs;
use crate::output::{moment, print_line};

/// A version that was replaced less long ago may still be given to new orders by a Submission
/// that has not noticed.
const SETTLED: Millis = Millis(3_600_000);

/// Show the stored versions of workflows, and how many orders are pinned to each
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  triad workflows
  triad workflows --prune --dry-run
  triad workflows --prune

A version is kept until no stored order needs it: --prune removes those that are not the present
one, that no order in the table is pinned to, and that were published over an hour ago. To count
the orders the whole table of process records is read.")]
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

/// Orders pinned to one version.
#[derive(Debug, Default, Clone, Copy)]
struct Pinned {
    under_way: usize,
    finished: usize,
}

pub async fn run(args: WorkflowsArgs) -> Result<ExitCode> {
    let store = args.store.store().await?;
    let versions = store.versions().await?;
    let pinned = pinned(&store).await?;
    let now = SystemClock.now();
    let newest = newest(&versions);
    let mut table = Table::new();
    table.load_style(NOTHING).set_header([
        "Workflow",
        "Version",
        "Published",
        "Present",
        "Under way",
        "Finished",
        "",
    ]);
    for version in &versions {
        let count = pinned
            .get(&version.definition.to_string())
            .copied()
            .unwrap_or_default();
        let replaced = newest
            .get(version.definition.name.as_str())
            .is_some_and(|at| now.since(*at) >= SETTLED);
        let needless = !version.is_current && count.under_way + count.finished == 0 && replaced;
        let removed = args.prune && needless;
        if removed && !args.dry_run {
            store.remove(version.definition.clone()).await?;
        }
        let what = match (removed, args.dry_run) {
            (true, true) => "would be removed",
            (true, false) => "removed",
            (false, _) => "",
        };
        if args.json {
            print_line(&json!({
                "workflow": version.definition.name.as_str(),
                "version": version.definition.hash.to_string(),
                "published_at": version.published_at,
                "present": version.is_current,
                "under_way": count.under_way,
                "finished": count.finished,
                "needed": !needless,
                "result": what,
            }))?;
        } else {
            table.add_row([
                version.definition.name.to_string(),
                version.definition.hash.to_string(),
                moment(version.published_at),
                if version.is_current { "yes" } else { "" }.to_owned(),
                count.under_way.to_string(),
                count.finished.to_string(),
                what.to_owned(),
            ]);
        }
    }
    if !args.json {
        println!("{table}");
    }
    Ok(ExitCode::SUCCESS)
}

/// When the newest version of each name was published: since then the others are replaced.
fn newest(versions: &[StoredVersion]) -> BTreeMap<&str, triad_core::Timestamp> {
    let mut newest = BTreeMap::new();
    for version in versions {
        let at = newest
            .entry(version.definition.name.as_str())
            .or_insert(version.published_at);
        *at = version.published_at.max(*at);
    }
    newest
}

/// Counts the orders of every version.
async fn pinned(store: &Store) -> Result<BTreeMap<String, Pinned>> {
    let mut pinned: BTreeMap<String, Pinned> = BTreeMap::new();
    let mut page = None;
    loop {
        let got = store.list(None, page).await?;
        for order in got.orders {
            let count = pinned.entry(order.workflow.to_string()).or_default();
            if order.state.is_finished() {
                count.finished += 1;
            } else {
                count.under_way += 1;
            }
        }
        match got.next {
            Some(next) => page = Some(next),
            None => return Ok(pinned),
        }
    }
}

/// The version that is meant: by its hash, its beginning, or the present one.
///
/// # Errors
/// [`Usage`](crate::output::Usage) where none or several fit.
pub fn find(
    versions: &[StoredVersion],
    name: &str,
    version: Option<&str>,
) -> Result<WorkflowRef, crate::output::Usage> {
    let fits = |v: &&StoredVersion| {
        v.definition.name.as_str() == name
            && version.map_or(v.is_current, |text| {
                v.definition.hash.to_string().starts_with(text)
            })
    };
    let found: BTreeSet<String> = versions
        .iter()
        .filter(fits)
        .map(|v| v.definition.to_string())
        .collect();
    let mut found = found.into_iter();
    match (found.next(), found.next()) {
        (Some(one), None) => one.parse().map_err(crate::output::Usage),
        (None, _) => Err(crate::output::Usage(format!(
            "there is no version {} of {name}: see triad workflows",
            version.unwrap_or("present")
        ))),
        (Some(_), Some(_)) => Err(crate::output::Usage(format!(
            "several versions of {name} begin with {}: write more of it",
            version.unwrap_or_default()
        ))),
    }
}
