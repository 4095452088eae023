//! `triad`: run, submit, watch and operate order workflows.
//!
//! Exit codes: 0 as wished, 1 something failed or an order did not end well, 2 the command or
//! its files are wrong, 130 interrupted.

mod bench;
mod commands;
mod dev;
mod operate;
mod output;
mod terraform;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use triad_bootstrap::{ConfigError, environment, logging};

use output::Usage;

/// Most of the work is small short-lived allocations, of the SDK above all.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Run, submit, watch and operate order workflows.
#[derive(Debug, Parser)]
#[command(
    name = "triad",
    version,
    propagate_version = true,
    arg_required_else_help = true
)]
struct Cli {
    /// Take brokers, tables, region and the way to log in from a Terraform installation: its
    /// directory, or a file with what `terraform output -json` says
    #[arg(long, global = true, value_name = "DIR|FILE")]
    from_terraform: Option<PathBuf>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Dev(Box<dev::DevArgs>),
    Submit(commands::submit::SubmitArgs),
    Get(commands::get::GetArgs),
    List(operate::list::ListArgs),
    Resubmit(operate::orders::ResubmitArgs),
    Cancel(operate::orders::CancelArgs),
    #[command(name = "retry-undo")]
    RetryCompensation(operate::orders::RetryCompensationArgs),
    Close(operate::orders::CloseArgs),
    Settle(operate::orders::SettleArgs),
    Pause(operate::downstream::PauseArgs),
    Resume(operate::downstream::ResumeArgs),
    Downstreams(operate::downstream::DownstreamsArgs),
    Workflows(operate::workflows::WorkflowsArgs),
    Migrate(operate::migrate::MigrateArgs),
    DeadLetters(commands::dead_letters::DeadLettersArgs),
    Validate(commands::validate::ValidateArgs),
    Publish(commands::publish::PublishArgs),
    Init(commands::init::InitArgs),
    Schema(commands::validate::SchemaArgs),
    Bench(bench::BenchArgs),
}

fn main() -> ExitCode {
    let cli = match parse() {
        Ok(cli) => cli,
        Err(e) => {
            eprintln!("triad: {e:#}");
            return ExitCode::from(2);
        }
    };
    let filter = environment("TRIAD_LOG").unwrap_or_else(|| "warn".to_owned());
    logging::start(logging::Form::Text, Some(&filter));
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(e) => {
            eprintln!("triad: no threads can be started: {e}");
            return ExitCode::FAILURE;
        }
    };
    match runtime.block_on(run(cli.command)) {
        Ok(code) => code,
        Err(e) => {
            eprintln!("triad: {e:#}");
            if e.is::<Usage>() || e.is::<ConfigError>() || e.is::<triad_workflow::load::LoadError>()
            {
                ExitCode::from(2)
            } else {
                ExitCode::FAILURE
            }
        }
    }
}

/// Parses the command line; an installation's values take the place of the environment's.
fn parse() -> anyhow::Result<Cli> {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let mut command = Cli::command();
    if let Some(path) = terraform::named(&arguments) {
        command = terraform::Installation::read(&path)?.defaults_of(command);
    }
    let matches = command.get_matches_from(arguments);
    let cli = Cli::from_arg_matches(&matches).unwrap_or_else(|e| e.exit());
    Ok(cli)
}

async fn run(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Dev(args) => {
            dev::check(&args)?;
            dev::run(*args).await
        }
        Command::Submit(args) => commands::submit::run(args).await,
        Command::Get(args) => commands::get::run(args).await,
        Command::List(args) => operate::list::run(args).await,
        Command::Resubmit(args) => operate::orders::resubmit(args).await,
        Command::Cancel(args) => operate::orders::cancel(args).await,
        Command::RetryCompensation(args) => operate::orders::retry_compensation(args).await,
        Command::Close(args) => operate::orders::close(args).await,
        Command::Settle(args) => operate::orders::settle(args).await,
        Command::Pause(args) => operate::downstream::pause(args).await,
        Command::Resume(args) => operate::downstream::resume(args).await,
        Command::Downstreams(args) => operate::downstream::show(args).await,
        Command::Workflows(args) => operate::workflows::run(args).await,
        Command::Migrate(args) => operate::migrate::run(args).await,
        Command::DeadLetters(args) => commands::dead_letters::run(args).await,
        Command::Validate(args) => commands::validate::run(&args),
        Command::Publish(args) => commands::publish::run(args).await,
        Command::Init(args) => commands::init::run(args).await,
        Command::Bench(args) => bench::run(args).await,
        Command::Schema(_) => commands::validate::schema(),
    }
}
