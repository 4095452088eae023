//! `triad completions` and `triad man`: completions for a shell, and manual pages.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Args, Command};
use clap_complete::Shell;
use clap_mangen::Man;

use crate::output::stream;

/// Print what a shell needs to complete commands, options and their values
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  triad completions bash > /etc/bash_completion.d/triad
  triad completions zsh > \"${fpath[1]}/_triad\"
  triad completions fish > ~/.config/fish/completions/triad.fish")]
pub struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

/// Print the manual page, or write one for each command into a directory
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  triad man | man -l -
  triad man --out /usr/local/share/man/man1")]
pub struct ManArgs {
    /// Directory for the pages triad.1, triad-serve.1 and so on; made if it is missing
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// Runs `triad completions` for this command line.
pub fn completions(args: &CompletionsArgs, mut command: Command) -> ExitCode {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, "triad", &mut script);
    stream::out_bytes(&script);
    ExitCode::SUCCESS
}

/// Runs `triad man` for this command line.
///
/// # Errors
/// If the directory or a page cannot be written.
pub fn man(args: &ManArgs, command: Command) -> Result<ExitCode> {
    match &args.out {
        Some(dir) => {
            let refused = || format!("{}: the pages cannot be written", dir.display());
            std::fs::create_dir_all(dir).with_context(refused)?;
            clap_mangen::generate_to(command, dir).with_context(refused)?;
        }
        None => {
            let mut page = Vec::new();
            Man::new(command).render(&mut page)?;
            stream::out_bytes(&page);
        }
    }
    Ok(ExitCode::SUCCESS)
}
