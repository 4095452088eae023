//! Wrong workflow files and wrong orders with their errors, which `docs/reference/wrong-files.md` shows.
//!
//! The first line of each file in `tests/wrong/workflows` gives, between bars, the mistake, the line that the error
//! must name, and words that the error must contain. `tests/wrong/orders.txt` does the same for the files in
//! `tests/wrong/orders`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde_json::Value;
use triad_core::message::StatusMessage;
use triad_core::status::Status;
use triad_core::submission::{MAX_SUBMISSION_BYTES, SubmissionRefusal};
use triad_core::topics;
use triad_dynamodb::DynamoStore;
use triad_runtime::InputRecord;
use triad_runtime::dead_letter::LetterEntry;
use triad_runtime::settings::Settings;
use triad_runtime::submission::Submission;
use triad_runtime::system::SystemClock;
use triad_tests::bus::MemoryBus;
use triad_tests::cli::triad;
use triad_tests::clock::ManualClock;
use triad_tests::engines::{Store, workflow};

const WORKFLOWS: usize = 73;
const ORDERS: usize = 30;
const AGENTS: &str = "stock,payment,mail";

/// Terms of the libraries that parse files, which must not occur in an error.
const NOT_OURS: [&str; 14] = [
    "anyOf",
    "oneOf",
    "schema keyword",
    "is not valid under",
    "DuplicateKeyPolicy",
    "in Options",
    "is not of type",
    "untagged",
    "expected struct",
    "invalid type",
    "steps.0",
    "steps.1",
    "mismatched input",
    "did not find",
];

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

fn files(name: &str) -> Vec<PathBuf> {
    let found = std::fs::read_dir(folder(name)).expect("the folder is there");
    let mut files: Vec<PathBuf> = found.map(|f| f.expect("an entry").path()).collect();
    files.sort();
    files
}

fn name(file: &Path) -> String {
    file.file_name()
        .expect("a file")
        .to_string_lossy()
        .into_owned()
}

/// The errors of each workflow file, by file name.
async fn said_of_workflows() -> BTreeMap<String, Vec<Value>> {
    let files = files("wrong/workflows");
    let mut args = vec!["validate", "--json", "--agents", AGENTS];
    args.extend(files.iter().map(|f| f.to_str().expect("a path")));
    let ran = triad(&args, &[], b"").await.ended(2);
    let mut said: BTreeMap<String, Vec<Value>> =
        files.iter().map(|f| (name(f), Vec::new())).collect();
    for line in ran.json_lines() {
        let file = name(Path::new(line["file"].as_str().expect("a file")));
        said.get_mut(&file).expect("one of the files").push(line);
    }
    said
}

fn text<'v>(line: &'v Value, key: &str) -> &'v str {
    line[key].as_str().unwrap_or_default()
}

/// The error as a text: the step, the part, the reason.
fn told(line: &Value) -> String {
    let parts = [text(line, "step"), text(line, "path")];
    let parts = parts.iter().filter(|p| !p.is_empty());
    let place: Vec<&str> = parts.copied().collect();
    match place.is_empty() {
        true => text(line, "reason").to_owned(),
        false => format!("{}: {}", place.join(": "), text(line, "reason")),
    }
}

#[tokio::test]
async fn each_wrong_workflow_file_is_told_of_at_its_place_in_the_words_of_the_language() {
    let said = said_of_workflows().await;
    assert_eq!(said.len(), WORKFLOWS);
    let mut unclear = Vec::new();
    for file in files("wrong/workflows") {
        let content = std::fs::read_to_string(&file).expect("a text");
        let first = content.lines().next().unwrap_or_default();
        let [_, line, words] = first.split(" | ").collect::<Vec<_>>()[..] else {
            panic!("{file:?}: its first line says what is wrong, where, and what is said");
        };
        let found = &said[&name(&file)];
        let fits = |l: &&Value| {
            let all = format!("{}; {}", told(l), text(l, "hint"));
            all.contains(words) && l["line"] == line.parse::<u64>().expect("a line")
        };
        if !found.iter().any(|l| fits(&l)) {
            unclear.push(format!(
                "{}: wanted {words:?} in line {line}: {found:#?}",
                name(&file)
            ));
        }
        for line in found {
            let all = format!("{}; {}", told(line), text(line, "hint"));
            let foreign = NOT_OURS.iter().find(|words| all.contains(**words));
            if foreign.is_some() || line["column"].as_u64().is_none() || line["hash"].is_string() {
                unclear.push(format!("{}: {all} {foreign:?}", name(&file)));
            }
        }
    }
    assert!(unclear.is_empty(), "{}", unclear.join("\n"));
}

/// What happened to a wrong order.
struct Refused {
    file: String,
    what: String,
    mend: String,
    cause: String,
    message: String,
    is_told: bool,
}

/// Submits a record.
async fn submitted(submission: &Handler, value: Option<Vec<u8>>, offset: i64) {
    let record = InputRecord {
        topic: topics::ORDERS.to_owned(),
        partition: 0,
        offset,
        timestamp_ms: 0,
        key: None,
        value,
        headers: Vec::new(),
    };
    let handled = submission.handle(&[record]).await;
    assert!(handled[0].is_done(), "{handled:?}");
}

type Handler = Submission<DynamoStore<SystemClock>, MemoryBus, ManualClock>;

async fn refused_orders() -> Vec<Refused> {
    let engine = Store::start().await;
    engine
        .publish(&workflow(
            "workflow: shop
details_schema:
  type: object
  required: [customer]
  properties: { customer: { type: string }, count: { type: integer }, note: { type: string } }
steps: [{ id: only, agent: x, action: go, compensation: none }]
",
        ))
        .await;
    let settings = Settings {
        reply_topics: ["reply.shop".to_owned()].into(),
        ..Settings::default()
    };
    let bus = MemoryBus::default();
    let clock = ManualClock::at(4_000_000_000_000);
    let submission = Submission::new(engine.store(), bus.clone(), clock, settings);
    let good = br#"{"order_id": "B-1", "workflow": "shop", "details": {"customer": "VINET"}}"#;
    submitted(&submission, Some(good.to_vec()), 1_000).await;
    while bus.next().is_some() {}
    let table = std::fs::read_to_string(folder("wrong/orders.txt")).expect("the table is there");
    let mut refused = Vec::new();
    for (offset, row) in table.lines().skip(1).enumerate() {
        let [file, what, cause, is_told, mend] = row.split(" | ").collect::<Vec<_>>()[..] else {
            panic!("a row of five: {row}");
        };
        let mut value =
            std::fs::read(folder("wrong/orders").join(file)).expect("the file is there");
        if file.contains("too-large") {
            value.resize(MAX_SUBMISSION_BYTES + 1, b' ');
        }
        let value = (!file.contains("tombstone")).then_some(value);
        submitted(&submission, value, offset as i64).await;
        let mut letters = Vec::new();
        let mut statuses = Vec::new();
        while let Some(record) = bus.next() {
            match record.topic.as_str() {
                topics::DEAD_LETTER => letters.push(LetterEntry::read(record).expect("a letter")),
                topics::STATUS | "reply.shop" => statuses.push(record),
                topics::ALERTS => {}
                other => panic!("{file}: a message in {other}"),
            }
        }
        let [LetterEntry::Letter(letter)] = &letters[..] else {
            panic!("{file}: one letter: {letters:?}");
        };
        assert_eq!(letter.cause, cause, "{file}: {}", letter.message);
        assert!(SubmissionRefusal::CODES.contains(&cause), "{file}");
        let wants_reply = String::from_utf8_lossy(letter.value.bytes()).contains("reply.shop");
        let topic = if wants_reply {
            "reply.shop"
        } else {
            topics::STATUS
        };
        for status in &statuses {
            let read: StatusMessage =
                serde_json::from_slice(status.value.as_deref().expect("a value"))
                    .expect("a status");
            let wanted = match cause {
                "conflicting-submission" => Status::Conflict,
                _ => Status::Rejected,
            };
            assert_eq!((read.status, read.sequence), (wanted, 0), "{file}");
            assert_eq!(read.cause.expect("a cause").code, cause, "{file}");
            assert_eq!(status.topic, topic, "{file}");
        }
        assert_eq!(
            statuses.len(),
            usize::from(is_told == "yes"),
            "{file}: told"
        );
        refused.push(Refused {
            file: file.to_owned(),
            what: what.to_owned(),
            mend: mend.to_owned(),
            cause: letter.cause.clone(),
            message: letter.message.clone(),
            is_told: is_told == "yes",
        });
    }
    refused
}

#[tokio::test]
async fn each_wrong_order_has_a_cause_of_its_own_and_is_told_where_it_can_be() {
    let refused = refused_orders().await;
    assert_eq!(refused.len(), ORDERS);
    assert_eq!(
        files("wrong/orders").len(),
        ORDERS,
        "each file is in the table"
    );
    let mut by_cause: BTreeMap<&str, usize> = BTreeMap::new();
    for order in &refused {
        *by_cause.entry(order.cause.as_str()).or_default() += 1;
        for words in NOT_OURS {
            assert!(
                !order.message.contains(words),
                "{}: {}",
                order.file,
                order.message
            );
        }
    }
    assert!(by_cause["not-an-order"] <= 2, "{by_cause:?}");
    assert!(by_cause.len() >= 12, "{by_cause:?}");
}

fn shop(more: &str) -> triad_workflow::Workflow {
    workflow(&format!(
        "workflow: shop\n{more}steps: [{{ id: only, agent: x, action: go, compensation: none }}]\n"
    ))
}

#[tokio::test]
async fn an_order_that_was_let_in_keeps_its_place_whatever_comes_after_it() {
    let engine = Store::start().await;
    engine.publish(&shop("")).await;
    let (bus, clock) = (MemoryBus::default(), ManualClock::at(4_000_000_000_000));
    let settings = Settings::default();
    let refresh = settings.refresh_definitions;
    let submission = Submission::new(engine.store(), bus.clone(), clock.clone(), settings);
    let order = br#"{"order_id": "A-1", "workflow": "shop", "details": {}}"#.to_vec();
    submitted(&submission, Some(order.clone()), 0).await;
    // Publishes a version of the workflow that the order does not fit.
    engine
        .publish(&shop("details_schema: { required: [customer] }\n"))
        .await;
    clock.advance(refresh);
    let sent = || {
        let topics = std::iter::from_fn(|| bus.next()).map(|record| record.topic);
        topics.collect::<Vec<_>>()
    };
    let _ = sent();
    submitted(&submission, Some(order), 1).await;
    assert!(
        !sent().contains(&topics::DEAD_LETTER.to_owned()),
        "it came again"
    );
    let others = br#"{"order_id": "A-2", "workflow": "shop", "details": {}}"#.to_vec();
    submitted(&submission, Some(others), 2).await;
    assert_eq!(
        sent(),
        [topics::DEAD_LETTER, topics::ALERTS, topics::STATUS]
    );
    // Another order with the id of the first one, whose statuses continue.
    let wrong = br#"{"order_id": "A-1", "workflow": "shop", "detials": {}}"#.to_vec();
    submitted(&submission, Some(wrong), 3).await;
    assert_eq!(sent(), [topics::DEAD_LETTER, topics::ALERTS]);
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

async fn page() -> String {
    let mut page = String::from(
        "# Wrong files and wrong orders

What is said of each of the files in [`tests/wrong`](../../tests/wrong). This page is made by a test, which
compares it with what the tool says now.

## Workflow files

`triad validate`; `publish` and `dev` say the same.

| file | what is wrong | line:column | what is said | how to mend it |
|---|---|---|---|---|
",
    );
    let said = said_of_workflows().await;
    for file in files("wrong/workflows") {
        let content = std::fs::read_to_string(&file).expect("a text");
        let what = content.split(" | ").next().unwrap_or_default();
        for line in &said[&name(&file)] {
            let hint = match text(line, "hint") {
                "" => "as it says",
                hint => hint,
            };
            let _ = writeln!(
                page,
                "| {} | {} | {}:{} | {} | {} |",
                name(&file),
                cell(what.trim_start_matches("# ")),
                line["line"],
                line["column"],
                cell(&told(line)),
                cell(hint)
            );
        }
    }
    page.push_str(
        "
## Orders

What Submission makes of them: a dead letter with this cause, and where an id and an allowed reply topic can
be read, the status `rejected`.

| file | what is wrong | cause | what is said | told `rejected` | how to mend it |
|---|---|---|---|---|---|
",
    );
    for order in refused_orders().await {
        let _ = writeln!(
            page,
            "| {} | {} | `{}` | {} | {} | {} |",
            order.file,
            cell(&order.what),
            order.cause,
            cell(&order.message),
            if order.is_told { "yes" } else { "no" },
            cell(&order.mend)
        );
    }
    page
}

fn page_file() -> PathBuf {
    folder("../docs/reference/wrong-files.md")
}

#[tokio::test]
async fn the_page_of_what_is_said_is_what_is_said() {
    let kept = std::fs::read_to_string(page_file()).unwrap_or_default();
    assert!(
        kept == page().await,
        "docs/reference/wrong-files.md is not what the tool says: run the test `write_the_page` with `--run-ignored all`"
    );
}

#[tokio::test]
#[ignore = "writes the golden file anew"]
async fn write_the_page() {
    std::fs::write(page_file(), page().await).expect("it can be written");
}
