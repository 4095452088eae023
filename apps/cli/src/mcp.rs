//! `triad mcp`: queries and acts of operators for a model, over standard input and output.

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use triad_bootstrap::Sending;
use triad_operator::operations::{Caller, Hidden, Role, Settings};

use crate::commands::who::operator_name;
use crate::connection::{KafkaArgs, StoreArgs};
use crate::mounted::tools;

/// Let a model look at an installation: the Model Context Protocol over standard input and output
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  triad mcp --data ./state                    beside a triad dev or triad serve, to look alone
  triad mcp --context shop --hide card        where a context says; fields of this name are not shown
  triad mcp --data ./state --allow-acts --by 'model of ann'

A client starts this command. Most clients use this form:
  {\"mcpServers\": {\"triad\": {\"command\": \"triad\", \"args\": [\"mcp\", \"--data\", \"/var/lib/triad\"]}}}

An act needs a dry run first (`dry_run`), whose id permits the act for five minutes (`act`); the order's
record has the operator and the reason. The same tools are at /mcp of triad serve, triad dev and triad console.
It ends with its input. See triad docs mcp.")]
pub struct McpArgs {
    /// The model may act; without this option it may only read
    #[arg(long)]
    allow_acts: bool,
    /// Name of the operator that is stored with each act. Default: the user who runs this
    #[arg(long, value_name = "NAME")]
    by: Option<String>,
    /// A field of payloads that is not shown; may be given several times
    #[arg(long = "hide", value_name = "FIELD")]
    hidden: Vec<String>,
    #[command(flatten)]
    store: StoreArgs,
    #[command(flatten)]
    kafka: KafkaArgs,
}

impl McpArgs {
    /// Whether the model may act.
    pub fn changes(&self) -> bool {
        self.allow_acts
    }
}

/// Runs `triad mcp` until its input ends.
///
/// # Errors
/// [`Usage`](crate::output::Usage) if the options do not fit together, or the operator's name is unknown; if the
/// store or Kafka cannot be reached, or the input does not begin with the protocol's handshake.
pub async fn run(args: McpArgs) -> Result<ExitCode> {
    let caller = match args.allow_acts {
        true => Caller {
            name: Some(operator_name(args.by.as_deref())?),
            role: Role::Operate,
        },
        false => Caller {
            name: args.by,
            role: Role::Read,
        },
    };
    let rules = Settings {
        read_only: !args.allow_acts,
        hidden: Hidden::of(args.hidden),
        ..Settings::default()
    };
    let operations = args
        .store
        .operations(&args.kafka, rules, Sending::Beside)
        .await?;
    let (input, output) = (tokio::io::stdin(), tokio::io::stdout());
    triad_mcp::serve(tools(args.allow_acts), operations, caller, input, output).await?;
    Ok(ExitCode::SUCCESS)
}
