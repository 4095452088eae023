//! `triad token`: a token for the HTTP interface of `triad serve`.

use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, ValueEnum};
use triad_ingress::{NewToken, Role};

/// Make a token for the HTTP interface of `triad serve`
///
/// The token is printed once, on standard error; its line for the file of tokens, which holds no secret, on
/// standard output.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  triad token shop --role submit --role read >> tokens
  TRIAD_TOKENS=tokens TRIAD_HTTP=0.0.0.0:7070 triad serve
  curl -H 'authorization: Bearer triad_…' -H 'content-type: application/json' 'http://host:7070/v1/orders?wait=30s' -d @order.json")]
pub struct TokenArgs {
    /// Name of the token's owner, for the log
    name: String,
    /// What the token permits; may be given several times
    #[arg(long = "role", value_enum, required = true)]
    roles: Vec<May>,
}

/// Permissions of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum May {
    /// Submit orders
    Submit,
    /// Read orders, and wait for their ends
    Read,
    /// Act as an operator
    Operate,
}

impl From<May> for Role {
    fn from(may: May) -> Self {
        match may {
            May::Submit => Self::Submit,
            May::Read => Self::Read,
            May::Operate => Self::Operate,
        }
    }
}

/// Runs `triad token`.
///
/// # Errors
/// If the name is not allowed, or standard output fails.
pub fn run(args: &TokenArgs) -> Result<ExitCode> {
    let roles: Vec<Role> = args.roles.iter().map(|may| (*may).into()).collect();
    let made = NewToken::make(&args.name, &roles)?;
    println!("{}", made.line);
    eprintln!("{}", made.token);
    Ok(ExitCode::SUCCESS)
}
