//! `triad backup`: copies a data directory while it is in use.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::copy::{Content, folder_of, is_inside, make, require_store};
use super::progress::Progress;
use crate::output::{Usage, command, count, print_line};

/// Copy the data directory of triad serve while it runs
///
/// The copy is a data directory: triad serve runs on it, there is nothing to restore. It holds everything as it
/// was at one moment: orders, topics and what consumers have committed. It is checked before it gets its name.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  triad backup --data /var/lib/triad --to /backup/triad-monday
  triad serve --data /backup/triad-monday                       run on the copy

A copy has the state of its moment: orders that finished later run to their end again, with the same
idempotency keys. Use it only when the original is lost or stopped for good. The configuration, the workflows
and the tokens are your own files, and not in the copy.

Exit codes: 0 the copy is there and sound, 1 there is none or a record in it is damaged, 2 the options
are wrong.")]
pub struct BackupArgs {
    /// The data directory
    #[arg(long, value_name = "DIR", env = "TRIAD_DATA")]
    data: PathBuf,
    /// Directory of the copy; made, never overwritten
    #[arg(long, value_name = "DIR")]
    to: PathBuf,
    /// Print a JSON line
    #[arg(long)]
    json: bool,
}

/// Runs `triad backup`. The exit code is 0 if every record of the copy can be read, otherwise 1.
///
/// # Errors
/// [`Usage`] if there is no store of SQLite in the directory, or something at the copy's place; if the copy
/// cannot be made or is not sound.
pub async fn run(args: BackupArgs) -> Result<ExitCode> {
    require_store(&args.data)?;
    let folder = folder_of(&args.to);
    let to = args.to.display();
    if args.to.exists() {
        return Err(Usage(format!(
            "--to {to}: is there already; name a directory that is not there"
        ))
        .into());
    }
    if is_inside(folder, &args.data) {
        return Err(Usage(format!(
            "--to {to}: is inside of --data, and would be lost with it; name a directory elsewhere"
        ))
        .into());
    }
    let progress = Progress::new(args.json);
    let say = |done, of| progress.say(format!("{done} of {of} pages copied"));
    let stop = CancellationToken::new();
    // Blocks; no other task is waiting.
    let made =
        tokio::task::block_in_place(|| make(&args.data, folder, ".triad-backup-", &stop, say));
    progress.end();
    let made = made?;
    let content = made.name(&args.data, &args.to)?;
    print_summary(&args, &content)
}

fn print_summary(args: &BackupArgs, content: &Content) -> Result<ExitCode> {
    let (counts, messages) = (content.counts, content.messages);
    for damaged in &content.unreadable.named {
        eprintln!(
            "triad backup: {} cannot be read, and neither in the original: {}",
            damaged.order_id, damaged.why
        );
    }
    let unreadable = content.unreadable.unreadable;
    if args.json {
        let mut line = json!({"kind": "summary", "messages": messages, "unreadable": unreadable, "to": args.to});
        line["counts"] = serde_json::to_value(counts)?;
        print_line(&line)?;
    } else {
        println!(
            "{}: {}, {} of them alive, {}; {} runs on it",
            args.to.display(),
            count(counts.orders, "order", "orders"),
            counts.alive,
            count(messages, "message", "messages"),
            command(["triad", "serve", "--data", &args.to.display().to_string()]),
        );
    }
    Ok(match unreadable {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    })
}
