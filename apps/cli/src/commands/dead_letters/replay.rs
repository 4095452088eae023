//! `triad dead-letters replay` and `dismiss`: sends letters to their topics again and marks them, or only marks them.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Result;
use clap::Args;
use serde_json::json;
use triad_kafka::{KafkaBus, KafkaError};
use triad_operator::Rate;
use triad_operator::dead_letters::{
    Bytes, Chosen, Deed, Replay, ReplayError, ReplayOutcome, Tally, replay,
};
use triad_operator::operations::letters::LetterAct;
use triad_operator::operations::{ActOnDeadLetters, DeadLetterFilter};
use triad_runtime::Clock;
use triad_runtime::dead_letter::replay::{ReplayAct, ReplayRefusal};
use triad_runtime::dead_letter::{Letter, MAX_VALUE_BYTES};
use triad_runtime::system::SystemClock;

use super::text;
use super::topic::KafkaLetters;
use crate::commands::who::ActArgs;
use crate::connection::Far;
use crate::connection::KafkaAloneArgs;
use crate::output::{self, Usage, print_line};
use crate::place::{Place, explained};

/// Send dead letters again to the topics that they came from, and mark them as replayed
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  triad dead-letters replay --all --cause unknown-workflow --why 'workflow published' --dry-run
  triad dead-letters replay --all --cause unknown-workflow --yes --why 'workflow published' --rate 20/s
  triad dead-letters show orders/3/42 --value > record.json
  triad dead-letters replay orders/3/42 --value record.json --why 'comma added'

A letter is sent with its record's key, value and headers. A letter that was replayed before is replayed
again only with --again. Exit code 1 if a letter could not be replayed.")]
pub struct ReplayArgs {
    /// Letters: topic, partition and offset of their records
    #[arg(
        value_name = "TOPIC/PARTITION/OFFSET",
        required_unless_present = "all",
        conflicts_with_all = ["all", "cause", "topic", "since"]
    )]
    ids: Vec<String>,
    /// All letters, or all of this cause, topic or time
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    filter: DeadLetterFilter,
    /// Why they are replayed; kept in the marker
    #[arg(long, value_name = "TEXT")]
    why: String,
    /// Who replays them; kept in the marker. Default: the variable USER, else LOGNAME
    #[arg(long, value_name = "NAME")]
    by: Option<String>,
    /// A file with the corrected value of a single letter; - is standard input
    #[arg(long, value_name = "FILE", conflicts_with = "all")]
    value: Option<PathBuf>,
    /// Replay also what was replayed before
    #[arg(long)]
    again: bool,
    /// Say what would be replayed and send nothing
    #[arg(long)]
    dry_run: bool,
    /// Replay the letters that --all finds; without --yes they are only listed
    #[arg(long)]
    yes: bool,
    /// At most this many letters a second
    #[arg(long, value_name = "N/s", default_value = "100/s", value_parser = rate)]
    rate: Rate,
    /// Print a JSON line for each letter, and a summary
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    kafka: KafkaAloneArgs,
    #[arg(skip)]
    deed: Deed,
}

/// Mark dead letters as dismissed: they are not shown any more, and not replayed with the others
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  triad dead-letters dismiss orders/3/42 --why 'a test of the sender'
  triad dead-letters dismiss --all --cause not-an-order --topic orders --why 'port scan' --yes

The letter stays in the topic, with the operator who dismissed it and the reason: triad dead-letters list
--dismissed shows it, and it can still be replayed by its id.")]
pub struct DismissArgs {
    /// Letters: topic, partition and offset of their records
    #[arg(
        value_name = "TOPIC/PARTITION/OFFSET",
        required_unless_present = "all",
        conflicts_with_all = ["all", "cause", "topic", "since"]
    )]
    ids: Vec<String>,
    /// All letters, or all of this cause, topic or time
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    filter: DeadLetterFilter,
    /// Why they are dismissed; kept in the marker
    #[arg(long, value_name = "TEXT")]
    why: String,
    /// Who dismisses them; kept in the marker. Default: the variable USER, else LOGNAME
    #[arg(long, value_name = "NAME")]
    by: Option<String>,
    /// Say what would be dismissed and mark nothing
    #[arg(long)]
    dry_run: bool,
    /// Dismiss the letters that --all finds; without --yes they are only listed
    #[arg(long)]
    yes: bool,
    /// At most this many letters a second
    #[arg(long, value_name = "N/s", default_value = "100/s", value_parser = rate)]
    rate: Rate,
    /// Print a JSON line for each letter, and a summary
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    kafka: KafkaAloneArgs,
}

impl DismissArgs {
    /// Whether nothing is marked: `--dry-run` was given, or `--all` without `--yes`.
    pub fn is_dry(&self) -> bool {
        self.dry_run || (self.all && !self.yes)
    }
}

impl From<DismissArgs> for ReplayArgs {
    fn from(args: DismissArgs) -> Self {
        Self {
            ids: args.ids,
            all: args.all,
            filter: args.filter,
            why: args.why,
            by: args.by,
            value: None,
            again: false,
            dry_run: args.dry_run,
            yes: args.yes,
            rate: args.rate,
            json: args.json,
            kafka: args.kafka,
            deed: Deed::Dismiss,
        }
    }
}

impl ReplayArgs {
    /// Whether nothing is sent: `--dry-run` was given, or `--all` without `--yes`.
    pub fn is_dry(&self) -> bool {
        self.dry_run || (self.all && !self.yes)
    }
}

fn rate(text: &str) -> Result<Rate, String> {
    let number = text.strip_suffix("/s").unwrap_or(text);
    let rate = number.parse().ok().and_then(|n| Rate::new(n).ok());
    rate.ok_or_else(|| "is not a rate from 1/s to 10000/s".to_owned())
}

/// Runs `triad dead-letters replay` or `dismiss`. The exit code is 1 if it could not be done with a
/// letter, or if it had been done before with a letter that was named and `--again` is missing; otherwise 0.
///
/// # Errors
/// [`Usage`] if ids, `--by`, `--why` or `--value` cannot be used; if the topic cannot be read or
/// holds too many letters, no broker answers, or standard output fails.
pub async fn run(args: ReplayArgs) -> Result<ExitCode> {
    let corrected = corrected(&args)?;
    if let Some(far) = args.kafka.data.far()? {
        return far_away(&args, far, corrected).await;
    }
    let act = act(&args)?;
    let letters = if args.all {
        let filter = args.filter.read(SystemClock.now());
        Chosen::All(filter.map_err(explained)?)
    } else {
        let parsed: Result<_, _> = args.ids.iter().map(|id| id.parse()).collect();
        Chosen::Named(parsed.map_err(|e| Usage(format!("{e}")))?)
    };
    let what = Replay {
        deed: args.deed,
        letters,
        act,
        corrected,
        again: args.again,
        dry_run: args.is_dry(),
        rate: args.rate,
    };
    let kafka = args.kafka.reached().await?;
    let topic = KafkaLetters::over(kafka.clone(), args.json)?;
    let bus = KafkaBus::new(&kafka)?;
    let ended = replay(&topic, &bus, &SystemClock, &what, |letter, outcome| {
        print_outcome(&args, &topic, letter, outcome)
    });
    let tally = match ended.await {
        Ok(tally) => tally,
        Err(ReplayError::Unknown(ids)) => {
            for id in ids {
                eprintln!(
                    "triad: there is no dead letter {id}: triad dead-letters list shows those that are there"
                );
            }
            eprintln!("triad: nothing was {}", args.deed.done());
            return Ok(ExitCode::FAILURE);
        }
        Err(other) => return Err(failed(other, &args.kafka.brokers)),
    };
    sum(&args, tally)?;
    let refused = !args.all && tally.before > 0;
    Ok(if tally.failed > 0 || refused {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

/// The same at a console far away: in requests, until all letters are handled. Letters that were handled before are not
/// handled again, so with `--again` there is one request.
async fn far_away(args: &ReplayArgs, far: Far, corrected: Option<Vec<u8>>) -> Result<ExitCode> {
    let act = ActArgs {
        why: args.why.clone(),
        by: args.by.clone(),
    };
    let asked = ActOnDeadLetters {
        act: match args.deed {
            Deed::Replay => LetterAct::Replay,
            Deed::Dismiss => LetterAct::Dismiss,
        },
        letters: args.ids.clone(),
        filter: args.all.then(|| args.filter.clone()),
        value: corrected.map(Bytes),
        again: args.again,
        reason: act.reason(true)?,
        dry_run: args.is_dry(),
        rate: Some(args.rate.per_second()),
    };
    let place = Place::of(Arc::new(far));
    let mut tally = Tally::default();
    // Each request handles one letter at least, or says that there are no more.
    loop {
        let acted = place.ask(asked.clone()).await?;
        tally.replayed += acted.done;
        tally.before = acted.done_before;
        tally.failed += acted.failed;
        for one in &acted.results {
            if args.json {
                output::print("letter", one)?;
                continue;
            }
            let why = one
                .why
                .as_deref()
                .map_or_else(String::new, |why| format!(": {why}"));
            let line = format!("{}  {}{why}", one.id, one.outcome.replace('-', " "));
            println!("{}", text::line(&line));
        }
        let is_last = !acted.more || asked.again || asked.dry_run || acted.done == 0;
        if acted.more && is_last {
            eprintln!(
                "triad: there are more letters: choose them in parts, with --since, --topic or --cause"
            );
        }
        if is_last {
            break;
        }
    }
    sum(args, tally)?;
    let refused = !args.all && tally.before > 0;
    Ok(match tally.failed > 0 || refused {
        true => ExitCode::FAILURE,
        false => ExitCode::SUCCESS,
    })
}

/// Converts an error that ended the replay.
fn failed(error: ReplayError<KafkaError, anyhow::Error>, brokers: &str) -> anyhow::Error {
    match error {
        ReplayError::Topic(error) => error.into(),
        ReplayError::Full(full) => {
            anyhow::Error::new(full).context("replay them in parts, with --since or --topic")
        }
        ReplayError::NoAnswer => anyhow::anyhow!(
            "no broker at {brokers} has answered in 15 s; the letter in hand may have been sent: look with triad dead-letters list, then run the same command again"
        ),
        ReplayError::Report(error) => error,
        ReplayError::Unknown(_) => anyhow::anyhow!(
            "some of the letters are not there: triad dead-letters list shows those that are"
        ),
    }
}

fn act(args: &ReplayArgs) -> Result<ReplayAct> {
    let by = crate::commands::who::operator_name(args.by.as_deref())?;
    Ok(ReplayAct::new(&by, &args.why, SystemClock.now()).map_err(|e| Usage(e.to_string()))?)
}

/// The corrected value, if given.
fn corrected(args: &ReplayArgs) -> Result<Option<Vec<u8>>, Usage> {
    let Some(file) = &args.value else {
        return Ok(None);
    };
    if args.ids.len() != 1 {
        return Err(Usage(
            "--value is for a single letter: name one letter by its id, as triad dead-letters list shows it".to_owned(),
        ));
    }
    let value = read(file).map_err(|e| {
        let why = crate::user_files::why(file, &e);
        Usage(format!("--value {}: {why}", file.display()))
    })?;
    if value.len() > MAX_VALUE_BYTES {
        return Err(Usage(format!(
            "--value {}: has more than {MAX_VALUE_BYTES} bytes",
            file.display()
        )));
    }
    Ok(Some(value))
}

/// A file's bytes, cut one byte beyond the largest value of a letter.
fn read(file: &Path) -> std::io::Result<Vec<u8>> {
    let most = MAX_VALUE_BYTES as u64 + 1;
    let mut value = Vec::new();
    if file.as_os_str() == "-" {
        std::io::stdin().lock().take(most).read_to_end(&mut value)?;
    } else {
        std::fs::File::open(file)?
            .take(most)
            .read_to_end(&mut value)?;
    }
    Ok(value)
}

fn with_advice(refusal: &ReplayRefusal) -> String {
    match refusal {
        ReplayRefusal::Elsewhere(_) => refusal.to_string(),
        ReplayRefusal::Cut { .. }
        | ReplayRefusal::Tombstone
        | ReplayRefusal::OfAnEvent
        | ReplayRefusal::OfABatch => {
            format!("{refusal}: --value FILE")
        }
    }
}

/// Prints the sums.
fn sum(args: &ReplayArgs, tally: Tally) -> Result<()> {
    if args.json {
        let did = args.deed.done();
        let mut line = json!({"kind": "summary", "failed": tally.failed, "dry_run": args.is_dry()});
        line[did] = tally.replayed.into();
        line[format!("{did}_before")] = tally.before.into();
        return print_line(&line);
    }
    let done = args.deed.done();
    let would = if args.is_dry() { "would be " } else { "" };
    let Tally {
        replayed,
        before,
        failed,
    } = tally;
    println!("{replayed} {would}{done}, {before} {done} before, {failed} failed");
    if args.is_dry() && !args.dry_run {
        println!("add --yes to do it");
    }
    Ok(())
}

/// Prints the result of one letter. With `--all`, letters that were replayed before are only counted.
fn print_outcome(
    args: &ReplayArgs,
    topic: &KafkaLetters,
    letter: &Letter,
    outcome: &ReplayOutcome,
) -> Result<()> {
    if args.all && matches!(outcome, ReplayOutcome::Before(_)) {
        return Ok(());
    }
    let done = args.deed.done();
    let name = outcome.name(args.deed);
    let why = match outcome {
        ReplayOutcome::Before(_) if args.deed == Deed::Replay => {
            let why = outcome.why(args.deed);
            why.map(|why| why + "; --again replays it")
        }
        ReplayOutcome::Refused(refusal) => Some(with_advice(refusal)),
        other => other.why(args.deed),
    };
    let id = letter.id.to_string();
    if args.json {
        return print_line(&json!({
            "kind": "letter", "id": id, "cause": letter.cause, "outcome": name, "why": why,
        }));
    }
    let shown = match outcome {
        ReplayOutcome::Before(_) => format!("not {done}"),
        _ => name.replace('-', " "),
    };
    let why = why.map_or_else(String::new, |why| format!(": {}", text::line(&why)));
    topic.print(&format!("{}  {shown}{why}", text::line(&id)));
    Ok(())
}
