//! Replaces `mcp` in a build without that feature.

use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;

use crate::output::Usage;

/// Not in this build, which lacks --features mcp: the Model Context Protocol
#[derive(Debug, Args)]
pub struct McpArgs {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    _ignored: Vec<OsString>,
}

impl McpArgs {
    pub fn changes(&self) -> bool {
        false
    }
}

/// # Errors
/// Always, saying which feature is missing.
pub async fn run(_args: McpArgs) -> Result<ExitCode> {
    let why = "triad mcp: this program was built without it; build it with --features mcp";
    Err(Usage(why.into()).into())
}
