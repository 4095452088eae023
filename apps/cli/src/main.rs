//! `triad`: run, submit, watch and operate order workflows.
//!
//! Exit codes: 0 success, 1 something failed or an order did not end well, 2 the command or its files are wrong, 130
//! interrupted.

/// Replaces the standard library's macro, which panics when the reader has closed its end: see [`output::stream`].
macro_rules! println {
    () => { $crate::output::stream::out(format_args!("\n")) };
    ($($text:tt)*) => { $crate::output::stream::out(format_args!("{}\n", format_args!($($text)*))) };
}

/// Like `println!`, for standard error.
macro_rules! eprintln {
    ($($text:tt)*) => { $crate::output::stream::err(format_args!("{}\n", format_args!($($text)*))) };
}

mod agent;
mod answers;
#[cfg(feature = "bench")]
#[path = "../../../tests/benchmarks/one_machine/mod.rs"]
mod bench;
mod campaigns;
mod commands;
mod connection;
mod console;
mod contexts;
mod data;
mod dev;
#[cfg(test)]
mod examples;
mod installation;
mod machine;
#[cfg_attr(not(feature = "mcp"), path = "no_mcp.rs")]
mod mcp;
mod mounted;
mod moved_mark;
mod moving;
mod new;
mod operate;
mod origin;
mod output;
mod place;
mod serve;
mod store;
mod terraform;
mod traces;
mod user_files;
mod values;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use triad_bootstrap::{ConfigError, environment, logging, memory};

use installation::Installation;
use output::Usage;

/// Most allocations are small and short-lived, above all in the SDK.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Run, submit, watch and operate order workflows.
#[derive(Debug, Parser)]
#[command(
    name = "triad",
    version = env!("TRIAD_VERSION"),
    propagate_version = true,
    arg_required_else_help = true
)]
struct Cli {
    /// Take brokers, tables, region and the way to log in from a Terraform installation: its
    /// directory, or a file with what `terraform output -json` says
    #[arg(long, global = true, value_name = "DIR|FILE")]
    from_terraform: Option<PathBuf>,
    /// Take brokers, tables and the way to log in from this context: see `triad context`
    #[arg(
        long,
        global = true,
        value_name = "NAME",
        env = "TRIAD_CONTEXT",
        hide_short_help = true
    )]
    context: Option<String>,
    /// Confirms a change in this context, which is marked as production
    #[arg(long, global = true, value_name = "NAME", hide_short_help = true)]
    confirm: Option<String>,
    /// Show the log of the Kafka and AWS clients; given twice, show more of it
    #[arg(long, short, global = true, action = clap::ArgAction::Count, hide_short_help = true)]
    verbose: u8,
    /// When to use colours. NO_COLOR in the environment is never, for auto
    #[arg(
        long,
        global = true,
        value_enum,
        value_name = "WHEN",
        default_value_t = output::Colour::Auto,
        hide_short_help = true
    )]
    color: output::Colour,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    New(new::NewArgs),
    Dev(Box<dev::DevArgs>),
    Serve(serve::ServeArgs),
    Backup(moving::backup::BackupArgs),
    Check(moving::check::CheckArgs),
    Export(Box<moving::export::ExportArgs>),
    Import(Box<moving::import::ImportArgs>),
    Console(Box<console::ConsoleArgs>),
    Mcp(Box<mcp::McpArgs>),
    Submit(commands::submit::SubmitArgs),
    Get(commands::get::GetArgs),
    Watch(commands::watch::WatchArgs),
    Status(operate::status::StatusArgs),
    List(operate::list::ListArgs),
    Audit(operate::audit::AuditArgs),
    #[command(flatten)]
    Orders(operate::orders::OrderCommand),
    Signal(operate::signal::SignalArgs),
    Campaign(campaigns::CampaignArgs),
    Pause(operate::downstream::PauseArgs),
    Resume(operate::downstream::ResumeArgs),
    Downstreams(operate::downstream::DownstreamsArgs),
    Workflows(operate::workflows::WorkflowsArgs),
    DeadLetters(commands::dead_letters::DeadLettersArgs),
    Validate(commands::validate::ValidateArgs),
    Test(commands::test::TestArgs),
    Publish(commands::publish::PublishArgs),
    Init(commands::init::InitArgs),
    #[cfg(feature = "aws")]
    Doctor(commands::doctor::DoctorArgs),
    Context(contexts::ContextArgs),
    Schema(commands::validate::SchemaArgs),
    Token(commands::token::TokenArgs),
    Agent(agent::AgentCommandArgs),
    CheckService(commands::check_service::CheckServiceArgs),
    #[cfg(feature = "bench")]
    Bench(bench::BenchArgs),
    Docs(commands::docs::DocsArgs),
    Completions(commands::shell::CompletionsArgs),
    Man(commands::shell::ManArgs),
}

fn main() -> ExitCode {
    let (cli, context) = match parse() {
        Ok(parsed) => parsed,
        Err(e) => {
            eprintln!("triad: {e:#}");
            return ExitCode::from(2);
        }
    };
    output::init_style(cli.color);
    let filter =
        environment("TRIAD_LOG").unwrap_or_else(|| cli.command.log(cli.verbose).to_owned());
    logging::start(cli.command.log_form(), Some(&filter));
    memory::usual_pages();
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    // Tokio's own variable takes precedence.
    if environment("TOKIO_WORKER_THREADS").is_none() {
        runtime.worker_threads(machine::workers());
    }
    let runtime = match runtime.enable_all().build() {
        Ok(runtime) => runtime,
        Err(e) => {
            eprintln!("triad: no threads can be started: {e}");
            return ExitCode::FAILURE;
        }
    };
    let confirmed = match &context {
        Some(context) if cli.command.changes() => context.confirm(cli.confirm.as_deref()),
        _ => Ok(()),
    };
    let ran = match confirmed {
        Ok(()) => runtime.block_on(async {
            let ran = run(cli.command).await;
            traces::flush().await;
            ran
        }),
        Err(refused) => Err(refused.into()),
    };
    match ran {
        Ok(code) => match output::stream::fault() {
            None => code,
            Some(why) => {
                eprintln!("triad: standard output: {why}");
                ExitCode::FAILURE
            }
        },
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

/// Parses the command line, with the values of its installation; also returns the context, if there is one.
fn parse() -> anyhow::Result<(Cli, Option<contexts::Chosen>)> {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let meant = installation::select_installation(Cli::command(), &arguments)?;
    let mut command = Cli::command();
    if meant.ignores_data {
        command = installation::without_data(command);
    }
    if let Some(installation) = &meant.installation {
        command = installation.defaults_of(command)?;
    }
    let matches = command.try_get_matches_from(&arguments);
    let matches = matches.unwrap_or_else(|refused| {
        let Some(variable) = installation::variable_of(Cli::command(), &refused, &arguments) else {
            refused.exit();
        };
        // If standard error fails, there is no other place for the error.
        let _ = refused.print();
        eprintln!("\nThe value is that of the environment variable {variable}.");
        std::process::exit(refused.exit_code());
    });
    let words = meant.installation.as_ref().map(Installation::words);
    origin::keep(&Cli::command(), &matches, words.as_deref());
    let cli = Cli::from_arg_matches(&matches).unwrap_or_else(|e| e.exit());
    let context = match meant.installation {
        Some(Installation::Context(chosen)) => Some(chosen),
        _ => None,
    };
    Ok((cli, context))
}

impl Command {
    /// The default log filter; `TRIAD_LOG` overrides it. A command prints its own error, so the clients' log is shown
    /// only on request. `triad dev`, `triad bench`, `triad console` and `triad mcp` run longer and log warnings.
    fn log(&self, verbose: u8) -> &'static str {
        match (self, verbose) {
            (Self::Serve(_), 0) => "info",
            (Self::Dev(_) | Self::Console(_) | Self::Mcp(_), 0) | (_, 1) => "warn",
            #[cfg(feature = "bench")]
            (Self::Bench(_), 0) => "warn",
            (_, 0) => "off",
            (_, 2) => "info",
            _ => "debug",
        }
    }

    /// The form of the log.
    fn log_form(&self) -> logging::Form {
        match self {
            Self::Serve(args) => args.log_form(),
            _ => logging::Form::Text,
        }
    }

    /// Whether the command changes the installation, or sends a message to it.
    fn changes(&self) -> bool {
        match self {
            Self::Submit(_) | Self::Signal(_) | Self::Publish(_) | Self::Init(_) => true,
            Self::Console(args) => args.changes(),
            Self::Mcp(args) => args.changes(),
            Self::Orders(act) => act.changes(),
            Self::Campaign(args) => args.changes(),
            Self::Pause(args) => args.changes(),
            Self::Resume(args) => args.changes(),
            Self::Downstreams(args) => args.changes(),
            Self::Workflows(args) => args.changes(),
            Self::DeadLetters(args) => args.changes(),
            Self::Import(args) => args.changes(),
            #[cfg(feature = "aws")]
            Self::Doctor(_) => false,
            Self::Dev(_)
            | Self::Serve(_)
            | Self::Backup(_)
            | Self::Check(_)
            | Self::Export(_)
            | Self::Token(_)
            | Self::New(_)
            | Self::Get(_)
            | Self::Watch(_)
            | Self::Status(_)
            | Self::List(_)
            | Self::Audit(_)
            | Self::Validate(_)
            | Self::Test(_)
            | Self::Agent(_)
            | Self::CheckService(_)
            | Self::Context(_)
            | Self::Schema(_)
            | Self::Docs(_)
            | Self::Completions(_)
            | Self::Man(_) => false,
            #[cfg(feature = "bench")]
            Self::Bench(_) => false,
        }
    }
}

async fn run(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Dev(args) => {
            dev::check(&args)?;
            dev::run(*args).await
        }
        Command::Serve(args) => serve::run(args).await,
        Command::Backup(args) => moving::backup::run(args).await,
        Command::Check(args) => moving::check::run(args).await,
        Command::Export(args) => moving::export::run(*args).await,
        Command::Import(args) => moving::import::run(*args).await,
        Command::Console(args) => console::run(*args).await,
        Command::Mcp(args) => mcp::run(*args).await,
        Command::Token(args) => commands::token::run(&args),
        Command::New(args) => new::run(&args),
        Command::Submit(args) => commands::submit::run(args).await,
        Command::Get(args) => commands::get::run(args).await,
        Command::Watch(args) => commands::watch::run(args).await,
        Command::Status(args) => operate::status::run(args).await,
        Command::List(args) => operate::list::run(args).await,
        Command::Audit(args) => operate::audit::run(args).await,
        Command::Orders(act) => operate::orders::run_command(act).await,
        Command::Signal(args) => operate::signal::run(args).await,
        Command::Campaign(args) => campaigns::run(args).await,
        Command::Pause(args) => operate::downstream::pause(args).await,
        Command::Resume(args) => operate::downstream::resume(args).await,
        Command::Downstreams(args) => operate::downstream::show(args).await,
        Command::Workflows(args) => operate::workflows::run(args).await,
        Command::DeadLetters(args) => commands::dead_letters::run(args).await,
        Command::Validate(args) => commands::validate::run(&args),
        Command::Test(args) => commands::test::run(&args),
        Command::Publish(args) => commands::publish::run(args).await,
        Command::Init(args) => commands::init::run(args).await,
        #[cfg(feature = "aws")]
        Command::Doctor(args) => commands::doctor::run(args).await,
        Command::Agent(args) => agent::run(args).await,
        Command::CheckService(args) => commands::check_service::run(args).await,
        Command::Context(args) => contexts::run(args),
        #[cfg(feature = "bench")]
        Command::Bench(args) => bench::run(args).await,
        Command::Docs(args) => commands::docs::run(&args),
        Command::Completions(args) => Ok(commands::shell::completions(&args, Cli::command())),
        Command::Man(args) => commands::shell::man(&args, Cli::command()),
        Command::Schema(args) => commands::validate::schema(&args),
    }
}
