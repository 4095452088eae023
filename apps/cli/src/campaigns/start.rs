//! `triad campaign start`.

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use serde_json::json as value;
use triad_operator::Rate;
use triad_operator::campaign::Preview;
use triad_operator::campaign::form::{PATIENCE, STOP_SHARE};
use triad_operator::operations::campaigns::CampaignStarted;
use triad_operator::operations::order_acts::{ActDetails, OrderAct};
use triad_operator::operations::{OrderFilter, StartCampaign};
use triad_workflow::Millis;

use super::{print_status, show};
use crate::commands::who::ActArgs;
use crate::connection::StoreArgs;
use crate::operate::orders::json;
use crate::output::{Usage, count, print_line};

/// Start a campaign; without --yes, only count the orders that fit
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  triad campaign start resubmit --cause 'permanent/notify-customer/*' --why 'mail is back' --yes
  triad campaign start resubmit --state Error --step charge --set currency=EUR --why 'moved' --yes
  triad campaign start retry-compensation --state CompensationFailed --stop-share 5 --why 'refunds work' --yes --wait
  triad campaign start migrate --state Error --to-workflow order-fulfilment --why 'new carrier' --yes

Which orders: --cause, or --state with Error, CompensationFailed, Paused, Pending, Processing or Compensating,
and with them --workflow and --older-than. Only orders that fit when it is started are acted on.")]
pub(super) struct StartArgs {
    /// The act on each order
    #[arg(value_enum)]
    what: OrderAct,
    #[command(flatten)]
    filter: OrderFilter,
    /// Stop the campaign if more than this percentage of orders fails again; 100 disables this
    #[arg(long, value_name = "N", default_value_t = STOP_SHARE, value_parser = clap::value_parser!(u8).range(1..=100))]
    stop_share: u8,
    /// Longest wait for the orders of a batch to end; the campaign stops if most of them have not ended by then
    #[arg(long, value_name = "TIME", default_value_t = PATIENCE, value_parser = str::parse::<Millis>)]
    patience: Millis,
    /// Most orders a second
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=i64::from(Rate::MAX)))]
    rate: u32,
    /// With resubmit: the step whose input is corrected
    #[arg(long, value_name = "STEP", requires = "correction")]
    step: Option<String>,
    /// With resubmit: its new input as a whole: JSON, or @FILE
    #[arg(long, value_name = "JSON", requires = "step", group = "correction")]
    input: Option<String>,
    /// With resubmit: one value to replace in the present input, such as amount=12.5; may be given several times
    #[arg(
        long,
        value_name = "PATH=VALUE",
        requires = "step",
        group = "correction"
    )]
    set: Vec<String>,
    /// With migrate: the workflow
    #[arg(long, value_name = "NAME")]
    to_workflow: Option<String>,
    /// With migrate: the version, or the beginning of its hash. Default: the present one
    #[arg(long, value_name = "HASH", requires = "to_workflow")]
    to_version: Option<String>,
    #[command(flatten)]
    act: ActArgs,
    /// Start it; without this, only count the orders that fit
    #[arg(long)]
    yes: bool,
    /// Wait for its end, and show the progress
    #[arg(long)]
    wait: bool,
    /// Print JSON lines
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    store: StoreArgs,
}

impl StartArgs {
    pub(super) fn changes(&self) -> bool {
        self.yes
    }
}

/// Runs `triad campaign start`. The exit code is 0; with `--wait` 1 if it ended before it was through.
pub(super) async fn run(args: StartArgs) -> Result<ExitCode> {
    if args.step.is_some() && args.what != OrderAct::Resubmit {
        return Err(Usage("a corrected input is for resubmit".into()).into());
    }
    if args.to_workflow.is_some() != (args.what == OrderAct::Migrate) {
        return Err(Usage("--to-workflow is for migrate, which needs it".into()).into());
    }
    let input = args.input.as_deref().map(|text| json("--input", text));
    let asked = StartCampaign {
        act: args.what,
        filter: args.filter.clone(),
        details: ActDetails {
            step: args.step.clone(),
            input: input.transpose()?,
            set: args.set.clone(),
            to_workflow: args.to_workflow.clone(),
            to_version: args.to_version.clone(),
            ..ActDetails::default()
        },
        reason: args.act.reason(args.store.data.far()?.is_some())?,
        dry_run: !args.yes,
        rate: Some(args.rate),
        stop_share: Some(args.stop_share),
        patience: Some(args.patience.to_string()),
    };
    let place = args.store.place().await?;
    match place.ask(asked).await? {
        CampaignStarted::Tried(preview) => {
            show(preview, &args)?;
            Ok(ExitCode::SUCCESS)
        }
        CampaignStarted::Started(view) => {
            print_status(&view, args.json)?;
            match args.wait {
                true => show::follow(&place, &view.id, args.json).await,
                false => Ok(ExitCode::SUCCESS),
            }
        }
    }
}

fn show(preview: Preview, args: &StartArgs) -> Result<()> {
    let Preview { orders, more } = preview;
    if args.json {
        let line =
            value!({"kind": "campaign-preview", "dry_run": true, "orders": orders, "more": more});
        return print_line(&line);
    }
    let least = if more { "at least " } else { "" };
    println!(
        "{least}{} fit (nothing was written)",
        count(orders, "order", "orders")
    );
    println!("add --yes to start the campaign");
    Ok(())
}
