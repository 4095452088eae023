//! `triad check`: reads a whole data directory, and tries for every alive order whether it can go on.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use serde_json::json;
use tokio_util::sync::CancellationToken;
use triad_core::Envelope;
use triad_operator::moving::MAX_NAMED;
use triad_runtime::ports::Unreadable;
use triad_runtime::settings::Settings;
use triad_runtime::supervisor::Supervisor;
use triad_runtime::system::{SystemClock, SystemEntropy};
use triad_runtime::{Bus, BusError};
use triad_sqlite::{SqliteStore, check_file};
use triad_workflow::Millis;

use super::copy::{read_whole, require_store};
use super::progress::Progress;
use crate::machine::directory::refuse_root;
use crate::output::{count, print_line};

/// Check the data directory of triad serve, also while it runs
///
/// Reads the whole file: every page and index, every record with its checksum, the details and outputs that it names,
/// and the workflows. For every alive order it makes the messages with which a start would drive it on, and sends none.
/// Nothing is written.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  triad check --data /var/lib/triad
  triad check --data /backup/triad-monday --json    a copy, for a program

What is damaged is named on standard error, the first 100 things of each kind. Everything else goes on: only an order that
is named here cannot. Restore a backup, or ask for help with the lines of the log.

Exit codes: 0 everything is sound, 1 something is damaged or cannot be read, 2 the options are wrong.")]
pub struct CheckArgs {
    /// The data directory
    #[arg(long, value_name = "DIR", env = "TRIAD_DATA")]
    data: PathBuf,
    /// Print a JSON line for each damaged thing, and one for the whole
    #[arg(long)]
    json: bool,
}

/// A bus on which messages are only made.
struct Nowhere;

impl Bus for Nowhere {
    async fn publish(&self, messages: Vec<Envelope>) -> Vec<Result<(), BusError>> {
        messages.iter().map(|_| Ok(())).collect()
    }
}

/// Everything that is damaged.
#[derive(Default)]
struct Damage {
    things: u64,
    /// The first of each kind.
    named: Vec<Unreadable>,
}

impl Damage {
    fn add(&mut self, things: u64, named: Vec<Unreadable>) {
        self.things += things;
        self.named.extend(named);
    }
}

/// Runs `triad check`. The exit code is 0 if nothing is damaged, otherwise 1.
///
/// # Errors
/// [`Usage`](crate::output::Usage) if there is no store of SQLite in the directory; if the file cannot be opened or
/// read.
pub async fn run(args: CheckArgs) -> Result<ExitCode> {
    require_store(&args.data)?;
    if !triad_sqlite::is_taken(&args.data) {
        refuse_root(&args.data)?;
    }
    let progress = Progress::new(args.json);
    progress.say("checking the pages of the file".to_owned());
    let mut damage = Damage::default();
    // Blocks; no other task is waiting.
    let stop = CancellationToken::new();
    let faults = tokio::task::block_in_place(|| check_file(&args.data, &stop))?;
    let of_file = |why| Unreadable {
        order_id: "triad.sqlite".to_owned(),
        why,
    };
    damage.add(
        faults.len() as u64,
        faults.into_iter().map(of_file).collect(),
    );
    let store = SqliteStore::join(&args.data, SystemClock, Millis(0))?;
    let (counts, unreadable) = read_whole(&store, |read| progress.counts("read", read)).await?;
    damage.add(unreadable.unreadable, unreadable.named);
    progress.say("trying whether every alive order can go on".to_owned());
    let supervisor = Supervisor::new(
        store,
        Nowhere,
        SystemClock,
        SystemEntropy,
        Settings::default(),
    );
    let mut driven = supervisor.drive_on().await;
    progress.end();
    // A record that cannot be read is named by both looks at it.
    let of_driven = driven.named.len();
    driven
        .named
        .retain(|new| damage.named.iter().all(|old| old.order_id != new.order_id));
    let twice = of_driven - driven.named.len();
    let unread = (0..driven.unread).map(|_| Unreadable {
        order_id: "index of due orders".to_owned(),
        why: "a part of it cannot be read".to_owned(),
    });
    let things = driven.failed + driven.unread - twice;
    driven.named.extend(unread);
    damage.add(things as u64, driven.named);

    for Unreadable { order_id, why } in &damage.named {
        match args.json {
            true => print_line(&json!({"kind": "damaged", "of": order_id, "why": why}))?,
            false => eprintln!("triad check: {order_id}: {why}"),
        }
    }
    let drivable = driven.alive.saturating_sub(driven.failed);
    if args.json {
        print_line(
            &json!({"kind": "summary", "orders": counts.orders, "alive": driven.alive,
            "drivable": drivable, "damaged": damage.things}),
        )?;
    } else {
        let alive = match driven.alive {
            0 => "none alive".to_owned(),
            alive if alive == drivable => format!("{alive} alive, which can all go on"),
            alive => format!("{alive} alive, of which {drivable} can go on"),
        };
        println!(
            "{}: {}, {alive}; {}",
            args.data.display(),
            count(counts.orders, "order", "orders"),
            match damage.things {
                0 => "sound".to_owned(),
                things =>
                    format!("{things} damaged, of each kind the first {MAX_NAMED} named above"),
            }
        );
    }
    Ok(match damage.things {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    })
}
