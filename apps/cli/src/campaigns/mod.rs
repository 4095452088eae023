//! `triad campaign`: one act on many orders that the Supervisor carries out.
//!
//! `triad_operator::campaign` stores and carries campaigns out; this module has the options and the output.

mod show;
mod start;

use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Subcommand};
use triad_core::CampaignId;
use triad_operator::campaign::View;
use triad_operator::operations::{ResumeCampaign, StopCampaign};

use crate::commands::who::ActArgs;
use crate::connection::StoreArgs;
use crate::output;

/// Act on many orders at once, carried out by the Supervisor in growing batches
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  triad campaign start resubmit --cause 'permanent/notify-customer/*' --why 'mail is back'
  triad campaign start resubmit --cause 'permanent/notify-customer/*' --why 'mail is back' --yes --wait
  triad campaign list
  triad campaign show c-00c0ffee00c0ffee
  triad campaign stop c-00c0ffee00c0ffee --why 'mail is gone again'

A campaign is stored, and continues after this command has ended. It acts on batches of 1, 2, 5, 20, 50,
100, 200 and then 500 orders, waits for the end of each order, and stops early, with an alert, if more than
--stop-share percent fail again. Each order is acted on once.")]
pub struct CampaignArgs {
    #[command(subcommand)]
    command: CampaignCommand,
}

#[derive(Debug, Subcommand)]
enum CampaignCommand {
    Start(Box<start::StartArgs>),
    List(show::ListArgs),
    Show(show::ShowArgs),
    Watch(show::WatchArgs),
    Stop(ChangeArgs),
    Resume(ChangeArgs),
}

/// Stop a campaign between two orders, or resume one that ended before it had acted on every order
#[derive(Debug, Args)]
struct ChangeArgs {
    /// The campaign
    #[arg(value_name = "CAMPAIGN")]
    id: CampaignId,
    #[command(flatten)]
    act: ActArgs,
    /// Print it as a JSON line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    store: StoreArgs,
}

impl CampaignArgs {
    /// Whether the command writes anything.
    pub fn changes(&self) -> bool {
        match &self.command {
            CampaignCommand::Start(args) => args.changes(),
            CampaignCommand::Stop(_) | CampaignCommand::Resume(_) => true,
            CampaignCommand::List(_) | CampaignCommand::Show(_) | CampaignCommand::Watch(_) => {
                false
            }
        }
    }
}

/// Runs the given subcommand of `triad campaign`, and returns its exit code.
///
/// # Errors
/// Those of the subcommand.
pub async fn run(args: CampaignArgs) -> Result<ExitCode> {
    match args.command {
        CampaignCommand::Start(args) => start::run(*args).await,
        CampaignCommand::List(args) => show::list(args).await,
        CampaignCommand::Show(args) => show::show(args).await,
        CampaignCommand::Watch(args) => show::watch(args).await,
        CampaignCommand::Stop(args) => change(args, false).await,
        CampaignCommand::Resume(args) => change(args, true).await,
    }
}

async fn change(args: ChangeArgs, resumes: bool) -> Result<ExitCode> {
    let reason = args.act.reason(args.store.data.far()?.is_some())?;
    let place = args.store.place().await?;
    let id = args.id.to_string();
    let changed = match resumes {
        true => place.ask(ResumeCampaign { id, reason }).await?,
        false => place.ask(StopCampaign { id, reason }).await?,
    };
    print_status(&changed.0, args.json)?;
    Ok(ExitCode::SUCCESS)
}

/// A campaign in one line, or as JSON.
fn print_status(view: &View, json: bool) -> Result<()> {
    match json {
        true => output::print("campaign", view),
        false => {
            println!("{}", show::line(view));
            Ok(())
        }
    }
}
