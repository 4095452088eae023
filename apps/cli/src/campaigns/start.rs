//! `triad campaign start`.

use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, ValueEnum};
use serde_json::json as value;
use triad_operator::campaign::commands::{self, CampaignRequest, CampaignStatus, Preview};
use triad_operator::campaign::form::{PATIENCE, STOP_SHARE};
use triad_operator::campaign::{CampaignAct, Pace};
use triad_operator::correction::{Correction, Set};
use triad_operator::{Rate, versions};
use triad_runtime::Clock;
use triad_runtime::ports::OperatorStore;
use triad_runtime::system::{SystemClock, SystemEntropy};
use triad_workflow::{Millis, StepId};

use super::{print_status, refused, show};
use crate::commands::connection::StoreArgs;
use crate::operate::orders::json;
use crate::operate::select::FilterArgs;
use crate::operate::{ActArgs, Store, workflows};
use crate::output::{Usage, count, print_line};

/// Most orders that the preview counts.
const COUNTED: u64 = 10_000;

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
    what: ActName,
    #[command(flatten)]
    filter: FilterArgs,
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
    set: Vec<Set>,
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

/// The acts of a campaign.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ActName {
    Resubmit,
    Cancel,
    #[value(name = "retry-compensation")]
    RetryCompensation,
    Close,
    Pause,
    Resume,
    Migrate,
}

impl StartArgs {
    pub(super) fn changes(&self) -> bool {
        self.yes
    }

    async fn campaign_act(&self, store: &Store) -> Result<CampaignAct> {
        let corrects = self.step.is_some();
        if corrects && self.what != ActName::Resubmit {
            return Err(Usage("a corrected input is for resubmit".into()).into());
        }
        if self.to_workflow.is_some() != (self.what == ActName::Migrate) {
            return Err(Usage("--to-workflow is for migrate, which needs it".into()).into());
        }
        Ok(match self.what {
            ActName::Resubmit => match &self.step {
                None => CampaignAct::Resubmit,
                Some(step) => CampaignAct::Correct {
                    step: StepId::new(step.clone())
                        .map_err(|e| Usage(format!("--step {step:?}: {e}")))?,
                    correction: match &self.input {
                        None => Correction::Set(self.set.clone()),
                        Some(text) => Correction::Whole(json("--input", text)?),
                    },
                },
            },
            ActName::Cancel => CampaignAct::Cancel,
            ActName::RetryCompensation => CampaignAct::RetryCompensation,
            ActName::Close => CampaignAct::Close,
            ActName::Pause => CampaignAct::Pause,
            ActName::Resume => CampaignAct::Resume,
            ActName::Migrate => {
                let stored = store.versions().await?;
                let name = self.to_workflow.as_deref().unwrap_or_default();
                let to = versions::find(&stored, name, self.to_version.as_deref());
                CampaignAct::Migrate {
                    to: to.map_err(|e| workflows::unknown(&e))?,
                }
            }
        })
    }
}

/// Runs `triad campaign start`. The exit code is 0; with `--wait` 1 if it ended before it was through.
pub(super) async fn run(args: StartArgs) -> Result<ExitCode> {
    let operator = args.act.act()?;
    let store = args.store.store().await?;
    let wanted = CampaignRequest {
        what: args.campaign_act(&store).await?,
        filter: args.filter.filter(),
        operator,
        pace: Pace {
            rate: Rate::new(args.rate)?,
            stop_share: args.stop_share,
            patience: args.patience,
        },
    };
    let now = SystemClock.now();
    if !args.yes {
        commands::check(&wanted).map_err(refused)?;
        let preview = commands::preview(&store, &wanted.filter, COUNTED, now).await?;
        show(preview, &args)?;
        return Ok(ExitCode::SUCCESS);
    }
    let started = commands::start(&store, &SystemEntropy, wanted, now).await;
    let campaign = started.map_err(refused)?;
    let (id, counts) = (campaign.id.clone(), campaign.counts);
    print_status(&CampaignStatus { campaign, counts }, args.json)?;
    match args.wait {
        true => show::follow(&store, &id, args.json).await,
        false => Ok(ExitCode::SUCCESS),
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
