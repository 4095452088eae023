//! `triad campaign list`, `show` and `watch`.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use comfy_table::Cell;
use serde_json::json;
use triad_core::CampaignId;
use triad_operator::campaign::commands::is_left_behind;
use triad_operator::campaign::{CampaignOrder, Done, OrderAfterAct, View};
use triad_operator::operations::{GetCampaign, GetCampaignBatch, ListCampaigns};
use triad_runtime::Clock;
use triad_runtime::system::SystemClock;

use crate::connection::StoreArgs;
use crate::operate::bulk::interrupted;
use crate::output::{self, print, print_line, relative_time};
use crate::place::Place;

/// Interval between two looks at a campaign under `watch`.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Most campaigns of a list.
const MAX_CAMPAIGNS: usize = 200;

/// List campaigns, the newest first
#[derive(Debug, Args)]
pub(super) struct ListArgs {
    /// Most campaigns to list; 0 is no limit
    #[arg(long, value_name = "N", default_value_t = 20)]
    limit: usize,
    /// Print a JSON line for each
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    store: StoreArgs,
}

/// Show a campaign, and the orders that could not be moved
#[derive(Debug, Args)]
pub(super) struct ShowArgs {
    /// The campaign
    #[arg(value_name = "CAMPAIGN")]
    id: CampaignId,
    /// Show every order, and not only those that refused, could not be acted on or failed again
    #[arg(long)]
    all: bool,
    /// Print JSON lines: the campaign, each order, and a summary
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    store: StoreArgs,
}

/// Watch a campaign until it is over; the exit code is 1 if it ended before it was through
#[derive(Debug, Args)]
pub(super) struct WatchArgs {
    /// The campaign
    #[arg(value_name = "CAMPAIGN")]
    id: CampaignId,
    /// Print a JSON line at each change
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    store: StoreArgs,
}

/// A campaign in one line.
pub(super) fn line(view: &View) -> String {
    let counts = view.orders;
    format!(
        "{}  {}  {}: {} acted on, {} well, {} failed again, {} refused, {} could not be acted on; {}",
        view.id,
        view.what.name(),
        view.end.as_ref().unwrap_or(&view.phase),
        counts.done,
        counts.well,
        counts.again,
        counts.refused,
        counts.failed,
        view.text,
    )
}

pub(super) async fn list(args: ListArgs) -> Result<ExitCode> {
    let place = args.store.place().await?;
    let asked = ListCampaigns {
        limit: Some(output::limit(args.limit).min(MAX_CAMPAIGNS)),
    };
    let all = place.ask(asked).await?.campaigns;
    if args.json {
        for view in &all {
            print("campaign", view)?;
        }
        output::summary(all.len(), false, None, json!({}))?;
        return Ok(ExitCode::SUCCESS);
    }
    if all.is_empty() {
        println!("no campaigns");
        return Ok(ExitCode::SUCCESS);
    }
    let now = SystemClock.now();
    let mut table = output::table([
        "Campaign",
        "What",
        "Started",
        "By",
        "Stands",
        "Acted on",
        "Well",
        "Failed again",
        "Refused",
    ]);
    for view in &all {
        table.add_row([
            Cell::new(view.id.to_string()),
            Cell::new(view.what.name()),
            Cell::new(relative_time(view.started_at, now)),
            Cell::new(&view.operator.by),
            Cell::new(view.end.as_ref().unwrap_or(&view.phase)),
            Cell::new(view.orders.done),
            Cell::new(view.orders.well),
            Cell::new(view.orders.again),
            Cell::new(view.orders.refused + view.orders.failed),
        ]);
    }
    table.print();
    Ok(ExitCode::SUCCESS)
}

pub(super) async fn show(args: ShowArgs) -> Result<ExitCode> {
    let place = args.store.place().await?;
    let id = args.id.to_string();
    let view = place.ask(GetCampaign { id: id.clone() }).await?.0;
    match args.json {
        true => print("campaign", &view)?,
        false => {
            println!("{}", line(&view));
            println!("by {}: {}", view.operator.by, view.operator.why);
            for note in &view.notes {
                println!(
                    "{} by {}: {}",
                    note.what, note.operator.by, note.operator.why
                );
            }
        }
    }
    let mut shown = 0;
    for number in 1..=view.batch {
        let asked = GetCampaignBatch {
            id: id.clone(),
            batch: number,
        };
        let Some(batch) = place.find(asked).await? else {
            continue;
        };
        for entry in batch
            .orders
            .iter()
            .filter(|e| args.all || is_left_behind(e))
        {
            shown += 1;
            print_order(entry, number, args.json)?;
        }
    }
    if args.json {
        output::summary(shown, false, None, json!({}))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn print_order(entry: &CampaignOrder, batch: u32, json: bool) -> Result<()> {
    if json {
        let mut line = serde_json::to_value(entry)?;
        line["kind"] = "campaign-order".into();
        line["batch"] = batch.into();
        return print_line(&line);
    }
    let result = match (entry.result, entry.then) {
        (None, _) => "to come",
        (Some(Done::Done), None) => "acted on",
        (Some(Done::Done), Some(OrderAfterAct::Well)) => "well",
        (Some(Done::Done), Some(OrderAfterAct::Again)) => "failed again",
        (Some(Done::Refused), _) => "refused",
        (Some(Done::Failed), _) => "could not be acted on",
    };
    match &entry.text {
        Some(text) => println!("{}  {result}: {text}", entry.order_id),
        None => println!("{}  {result}", entry.order_id),
    }
    Ok(())
}

pub(super) async fn watch(args: WatchArgs) -> Result<ExitCode> {
    let place = args.store.place().await?;
    follow(&place, &args.id, args.json).await
}

/// Shows the progress of a campaign until it is over; Ctrl-C ends only the command.
pub(super) async fn follow(place: &Place, id: &CampaignId, json: bool) -> Result<ExitCode> {
    let mut last = None;
    let stop = interrupted();
    tokio::pin!(stop);
    // Repeats until the campaign is over, or until Ctrl-C.
    loop {
        let view = place.ask(GetCampaign { id: id.to_string() }).await?.0;
        if last.as_ref() != Some(&view) {
            match json {
                true => print("campaign", &view)?,
                false => println!("{}", line(&view)),
            }
        }
        if view.is_over() {
            return Ok(match view.is_cut_short() {
                true => ExitCode::FAILURE,
                false => ExitCode::SUCCESS,
            });
        }
        last = Some(view);
        tokio::select! {
            () = tokio::time::sleep(LOOK_EVERY) => {}
            () = &mut stop => return Ok(ExitCode::from(130)),
        }
    }
}
