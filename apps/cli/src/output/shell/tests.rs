use std::path::{Path, PathBuf};
use std::process::Command;

use clap::CommandFactory as _;
use serde_json::{Value, json};
use triad_core::downstream::{Downstream, Forced, ForcedTo, PausedStep};
use triad_core::inspect::ServiceCall;
use triad_core::order::Hold;
use triad_core::{
    Attention, Direction, Failure, FailureKind, IdempotencyKey, OperatorAct, Order, OrderId,
    ProcessState, Timestamp, Timing,
};
use triad_operator::causes::CauseGroup;
use triad_operator::counts::{OrderCounts, UnderWay};
use triad_operator::downstreams::{Deferred, DownstreamView};
use triad_operator::inputs::{Inputs, StepInputs};
use triad_operator::operations::order_queries::CausesFound;
use triad_operator::operations::overview::{Counts, Overview};
use triad_workflow::{AgentName, Limits, StepId, Workflow, WorkflowName};

use super::*;
use crate::commands::{get, inputs};
use crate::dev::engines::Addresses;
use crate::machine::stores::StoreAddress;
use crate::operate::status;
use crate::output::stream;

/// Words with characters that a shell would interpret if unquoted.
const HOSTILE: [&str; 12] = [
    "x';touch pwned;'",
    "x\";touch pwned;\"",
    "$(touch pwned)",
    "`touch pwned`",
    "a b  c",
    "x&touch pwned&",
    "x>pwned",
    "*",
    "~",
    "#!1",
    "x\\",
    "größe=ü",
];

/// Runs these lines in a shell, in an empty directory, and returns the words with which it started `triad`, `curl`
/// and `cd`.
fn run(lines: &[String]) -> Vec<Vec<String>> {
    let dir = tempfile::tempdir().expect("a directory");
    let mut script = String::new();
    for name in ["triad", "curl", "cd"] {
        script += &format!("{name}() {{ printf '%s\\0' \"$(($# + 1))\" {name} \"$@\"; }}\n");
    }
    for line in lines {
        script += &stream::plain(format_args!("{line}\n"));
    }
    let mut shell = Command::new("sh");
    shell.args(["-eu", "-c", &script]).current_dir(dir.path());
    let ended = shell.env("PAYMENT_URL", "http://pay").output();
    let ended = ended.expect("a shell");
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{said}\n{script}");
    let left = std::fs::read_dir(dir.path()).expect("it is there").count();
    assert_eq!(left, 0, "a file was made by\n{script}");
    let said = String::from_utf8(ended.stdout).expect("text");
    let mut words = said.split_terminator('\0').map(str::to_owned);
    let mut commands = Vec::new();
    while let Some(number) = words.next() {
        let number = number.parse().expect("a number of words");
        commands.push(words.by_ref().take(number).collect());
    }
    commands
}

/// The commands among lines for people.
fn to_be_typed(lines: Vec<String>) -> Vec<String> {
    let is_one = |line: &String| {
        let line = line.trim_start();
        line.starts_with("triad ") || line.starts_with("curl ")
    };
    lines.into_iter().filter(is_one).collect()
}

fn hold() -> Hold {
    Hold {
        at: Timestamp(1),
        act: OperatorAct::new("ann", "x"),
    }
}

fn order(id: &str) -> Order {
    let definition = json!({"workflow": "w", "steps": [{"id": "pay", "agent": "payment",
        "action": "do", "compensation": "none"}]});
    let definition = serde_json::from_value(definition).expect("a definition");
    let workflow = Workflow::compile(definition, &Limits::published()).expect("it is sound");
    let accepted = json!({"order_id": id, "workflow": format!("w@{}", workflow.hash),
        "submitted_at": 0, "due": 1, "details": {}});
    let accepted = serde_json::from_value(accepted).expect("an order");
    let mut order = Order::new(&accepted, &workflow, Timestamp(0));
    order.state = ProcessState::Error {
        cause: Failure::new(FailureKind::Permanent, "x", ""),
        at: Timestamp(1),
    };
    order
}

#[test]
fn each_word_of_a_command_reaches_the_program_as_it_is() {
    for text in HOSTILE
        .into_iter()
        .chain(["", "-x", "a\nb", "!!", "{a,b}", "%1", "=ls"])
    {
        let words = ["triad", "get", text, "--cause", text];
        assert_eq!(run(&[command(words)]), [words.map(str::to_owned)], "{text}");
    }
}

#[test]
fn what_status_says_to_type_reaches_triad_whatever_the_causes_and_ids_hold() {
    for text in HOSTILE {
        let group = |state, cause: &str| CauseGroup {
            state,
            cause: cause.to_owned(),
            orders: 1,
            oldest: Timestamp(1),
            newest: Timestamp(1),
            example: OrderId::new(text).expect("an id"),
        };
        let cause = format!("permanent/pay/{text}");
        let held = DownstreamView {
            downstream: AgentName::new("payment").expect("a name"),
            record: Downstream {
                forced: Some(Forced {
                    to: ForcedTo::Open,
                    hold: hold(),
                }),
                paused: vec![PausedStep {
                    workflow: WorkflowName::new("w").expect("a name"),
                    step: StepId::new("pay").expect("a name"),
                    hold: hold(),
                }],
                ..Downstream::default()
            },
        };
        let counts = OrderCounts {
            needing: Vec::new(),
            under_way: UnderWay::default(),
            orders: None,
        };
        let causes = vec![
            group(Attention::Error, &cause),
            group(Attention::CompensationFailed, &cause),
            group(Attention::Paused, ""),
        ];
        let found = Overview {
            counts: Counts {
                counts,
                rates: None,
            },
            needing_an_operator: 3,
            causes: CausesFound {
                causes,
                ..CausesFound::default()
            },
            more_causes: false,
            outages: Vec::new(),
            downstreams: vec![held],
            waiting: Vec::new(),
            deferred: Deferred::default(),
            alerts: Vec::new(),
            alert_groups: 0,
            alerts_unread: None,
            dead_letters: None,
            dead_letters_unread: None,
        };
        let why = ["--why", "…", "--dry-run"];
        let cause = ["--cause", &cause];
        let expected: [Vec<&str>; 8] = [
            ["triad", "downstreams", "--release", "payment", "--why", "…"].to_vec(),
            ["triad", "resume", "--step-type", "w/pay", "--why", "…"].to_vec(),
            ["triad", "get", text].to_vec(),
            [&["triad", "resubmit", "--state", "Error"][..], &cause, &why].concat(),
            ["triad", "get", text].to_vec(),
            [
                &[
                    "triad",
                    "retry-compensation",
                    "--state",
                    "CompensationFailed",
                ][..],
                &cause,
                &why,
            ]
            .concat(),
            ["triad", "get", text].to_vec(),
            [&["triad", "resume", "--state", "Paused"][..], &why].concat(),
        ];
        let lines = to_be_typed(status::lines(&found, Timestamp(2)));
        assert_eq!(run(&lines), expected, "{text}");
    }
}

#[test]
fn what_get_says_to_type_reaches_triad_and_curl_whatever_the_order_holds() {
    for text in HOSTILE {
        let order = order(text);
        let next = to_be_typed(get::next_lines(&order, &Timing::default()));
        let acts = ["resubmit", "cancel", "close"].map(|act| ["triad", act, text, "--why", "…"]);
        assert_eq!(run(&next), acts, "{text}");

        let input = json!({"name": text, "control": "\u{1b}[2J\u{202e}", "it's": "\"q\""});
        let given = Inputs {
            details: json!({}),
            steps: vec![StepInputs {
                step: order.steps[0].step.clone(),
                calls: vec![ServiceCall {
                    direction: Direction::Forward,
                    agent: AgentName::new("payment").expect("a name"),
                    action: text.to_owned(),
                    form: None,
                    idempotency_key: IdempotencyKey(format!("{text}/pay/1")),
                    compensates: None,
                    input: Ok(input.clone()),
                }],
                output: None,
            }],
        };
        let calls = run(&to_be_typed(inputs::lines(&order, &given.json())));
        let [call] = calls.as_slice() else {
            panic!("one call, and not {calls:?}");
        };
        let [curl, silent, x, post, url, headers @ .., data, body] = call.as_slice() else {
            panic!("{call:?}");
        };
        assert_eq!(
            [curl, silent, x, post, data],
            ["curl", "-sS", "-X", "POST", "-d"]
        );
        let action = triad_operator::address::in_path(text);
        assert_eq!(url, &format!("http://pay/{action}"));
        assert!(
            headers.contains(&format!("idempotency-key: {text}/pay/1")),
            "{headers:?}"
        );
        assert!(
            headers.iter().step_by(2).all(|word| word == "-H"),
            "{headers:?}"
        );
        let body: Value = serde_json::from_str(body).expect("JSON");
        assert_eq!(body, input);
    }
}

#[test]
fn the_variables_that_triad_dev_says_to_set_name_the_directory_whatever_it_is_called() {
    for text in HOSTILE {
        let at = "127.0.0.1:1".parse().expect("an address");
        let addresses = Addresses {
            kafka: at,
            store: StoreAddress::Data(PathBuf::from(text)),
            service: at,
        };
        let show = "triad \"$TRIAD_DATA\"".to_owned();
        let words = run(&[addresses.variables(), show]);
        assert_eq!(words, [["triad", text]]);
    }
}

/// Every command with text from outside is built by [`command`].
#[test]
fn no_command_is_put_together_anywhere_else() {
    let cli = crate::Cli::command();
    let names: Vec<&str> = cli.get_subcommands().map(clap::Command::get_name).collect();
    // A command within a text ends where the sentence continues.
    let is_put_together = |rest: &str| {
        let end = rest.find(['"', '`', ':', ';', ',', '(']);
        // An example may contain JSON.
        rest[..end.unwrap_or(rest.len())]
            .replace("{\\", "")
            .contains('{')
    };
    let mut found = Vec::new();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for path in sources(&root.join("src"))
        .into_iter()
        .chain(sources(&root.join("../../shared")))
    {
        let text = std::fs::read_to_string(&path).expect("it is text");
        let lines = text.lines().map(str::trim_start);
        for line in lines.filter(|line| !line.starts_with("//")) {
            let commands = line.match_indices("triad ").filter(|(at, _)| {
                let rest = &line[at + "triad ".len()..];
                let name = rest
                    .split(|c: char| !c.is_ascii_lowercase() && c != '-')
                    .next();
                (rest.starts_with('{') || name.is_some_and(|name| names.contains(&name)))
                    && is_put_together(rest)
            });
            if commands.count() > 0 || line.contains("cd {") {
                found.push(format!("{}: {line}", path.display()));
            }
        }
    }
    assert!(
        found.is_empty(),
        "made by output::command instead:\n{}",
        found.join("\n")
    );
}

/// The Rust sources below a directory, without templates of projects and tests.
fn sources(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() && !path.ends_with("templates") && !path.ends_with("target") {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|is| is == "rs") && !path.ends_with("tests.rs") {
            found.push(path);
        }
    }
    found
}
