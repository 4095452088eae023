//! `triad doctor`: examines an installation in AWS.

use std::process::ExitCode;

use anyhow::{Context as _, Result};
use clap::Args;
use serde_json::json;
use triad_bootstrap::Account;
use triad_installation::{Finding, Parts, SdkConfig, State, examine, examine_by_function, is_fine};

use crate::connection::{KafkaArgs, LoginArgs, StoreArgs};
use crate::output::{self, Usage, print_line};

/// Examine an installation in AWS: brokers, topics, tables, functions, rights, mappings, schedule, alarms, clock
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  triad doctor --from-terraform infra
  triad doctor --from-terraform infra --function
  triad doctor --aws --prefix shop- --brokers b-1.shop.example:9098 --kafka-auth msk-iam --json

It changes nothing: each function is invoked with an empty batch, and the Supervisor for a sweep. With --function the
installation's function setup looks from inside the network of the installation, with a role that may see every part; without
it this command looks from here, with your rights.

Exit codes: 0 nothing is wrong, 1 something is wrong, 2 the command is wrong.")]
pub struct DoctorArgs {
    /// Let the function setup examine the installation. NAME: that of the function, if it is not PREFIXsetup
    #[arg(long, value_name = "NAME", num_args = 0..=1, default_missing_value = "")]
    function: Option<String>,
    /// The parts of the installation, as JSON. Default: those of --from-terraform
    #[arg(long, value_name = "JSON", hide_short_help = true)]
    setup: Option<String>,
    /// Print a JSON line for each part, and a summary
    #[arg(long)]
    json: bool,
    /// Kafka bootstrap addresses; without them no broker is examined
    #[arg(
        long,
        value_name = "HOST:PORT",
        env = "TRIAD_BROKERS",
        help_heading = "Connection"
    )]
    brokers: Option<String>,
    #[command(flatten)]
    login: LoginArgs,
    #[command(flatten)]
    store: StoreArgs,
}

/// Runs `triad doctor`. The exit code is 1 if something is wrong.
///
/// # Errors
/// [`Usage`] if the parts cannot be read; if the function or the tables cannot be reached.
pub async fn run(args: DoctorArgs) -> Result<ExitCode> {
    let account = Account::of_user().in_region(args.store.region.clone());
    let aws = account.load().await;
    let findings = match &args.function {
        Some(name) => {
            let named = format!("{}setup", args.store.data.prefix);
            let name = if name.is_empty() { &named } else { name };
            let found = examine_by_function(&aws, name).await;
            found.map_err(|why| anyhow::anyhow!("{why}"))?
        }
        None => from_here(&args, &aws).await?,
    };
    for finding in &findings {
        show(finding, args.json)?;
    }
    let wrong = findings.iter().filter(|f| f.found == State::Wrong).count();
    match args.json {
        true => output::summary(findings.len(), false, None, json!({"wrong": wrong}))?,
        false if wrong == 0 => println!("nothing is wrong: {} parts", findings.len()),
        false => println!("{wrong} of {} parts are wrong", findings.len()),
    }
    Ok(match is_fine(&findings) {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

async fn from_here(args: &DoctorArgs, aws: &SdkConfig) -> Result<Vec<Finding>> {
    let parts: Parts = match &args.setup {
        Some(text) => Parts::read(text)
            .map_err(|e| Usage(format!("--setup: is not the parts of an installation: {e}")))?,
        None => Parts::default(),
    };
    let kafka = match &args.brokers {
        Some(brokers) => {
            let login = args.login.clone();
            let brokers = brokers.clone();
            Some(KafkaArgs { brokers, login }.config().await?)
        }
        None => None,
    };
    let tables = args.store.tables().await.context("nothing was examined")?;
    let is_of_aws = args.store.is_of_aws()?;
    let aws = is_of_aws.then_some(aws);
    Ok(examine(kafka.as_ref(), Some(tables.parts()), aws, &parts).await)
}

fn show(finding: &Finding, in_json: bool) -> Result<()> {
    if in_json {
        let mut line = serde_json::to_value(finding)?;
        line["kind"] = "finding".into();
        return print_line(&line);
    }
    let mark = match finding.found {
        State::Ok => "ok   ",
        State::Wrong => "WRONG",
    };
    let name = match finding.name.as_str() {
        "" => String::new(),
        name => format!(" {name}"),
    };
    println!("{mark}  {}{name}: {}", finding.part, finding.text);
    Ok(())
}
