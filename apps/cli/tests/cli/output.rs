//! The output of the commands: to a closed pipe, as JSON for programs, and on terminals of several widths.

use std::collections::BTreeSet;
use std::process::Stdio;

use serde_json::{Value, json};
use triad_runtime::system::SystemClock;
use triad_sqlite::SqliteStore;
use triad_tests::cli::triad;
use triad_tests::dev::Dev;
use triad_tests::orders::{FULFILMENT, Files, lines, order, orders};
use triad_tests::poll::{PATIENCE, until};
use triad_tests::process::command;
use triad_tests::topics::{Raw, read_until, write};
use triad_workflow::Millis;

const WHO: [&str; 4] = ["--by", "ann", "--why", "as agreed"];

/// A running installation with processed orders, orders in Error and a dead letter.
async fn world() -> (Dev, String) {
    let dev = Dev::on_tables(&[]).await;
    let text = lines(&orders("good", 3));
    let _ = dev.triad_reading(&["submit", "-"], text.as_bytes()).await;
    dev.all_finished(3).await;
    let plan = json!({"notification": {"permanent": 1.0}});
    dev.services(plan).await;
    let text = lines(&orders("bad", 2));
    let _ = dev.triad_reading(&["submit", "-"], text.as_bytes()).await;
    dev.all_finished(5).await;
    let record = Raw {
        topic: "orders".to_owned(),
        key: None,
        value: Some(b"{".to_vec()),
        headers: Vec::new(),
    };
    let (topic, partition, offset) = write(&dev.kafka, &[record]).await.remove(0);
    read_until(&dev.kafka, &["dead-letter"], |r| !r.is_empty()).await;
    (dev, format!("{topic}/{partition}/{offset}"))
}

/// Runs a command whose standard output is closed; returns the exit code and standard error.
async fn with_closed_reader(dev: &Dev, args: &[&str]) -> (i32, String) {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let mut command = command("triad");
    command
        .args(args)
        .envs(dev.variables())
        .env("TRIAD_CONTEXTS", "/nonexistent")
        .stdout(Stdio::from(writer))
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    let child = command.spawn().expect("triad starts");
    let ended = tokio::time::timeout(PATIENCE, child.wait_with_output()).await;
    let ended = ended
        .unwrap_or_else(|_| panic!("triad {args:?} does not end"))
        .expect("a child can be waited for");
    let err = String::from_utf8_lossy(&ended.stderr).into_owned();
    (ended.status.code().unwrap_or(-1), err)
}

/// The names of the commands in a help text.
fn listed(help: &str) -> BTreeSet<String> {
    let listed = help.lines().skip_while(|l| *l != "Commands:").skip(1);
    let listed = listed.take_while(|line| !line.is_empty());
    // An indented line continues the previous command's description.
    let names = listed.filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
    let names = names.filter(|name| !name.is_empty() && *name != "help");
    names.map(str::to_owned).collect()
}

#[tokio::test]
async fn a_reader_that_has_gone_away_ends_no_command_with_a_panic() {
    let (dev, letter) = world().await;
    let files = Files::new();
    let workflow = files.write("fulfilment.yaml", FULFILMENT);
    let one = files.write("one.jsonl", &lines(&[order("one", 1)]));
    let project = files.arg("project");
    let exported = files.arg("exported.jsonl");
    let (data, copy) = (files.arg("data"), files.arg("copy"));
    let store = files.path("data");
    drop(SqliteStore::open(&store, SystemClock, Millis(0)).expect("a store"));
    let tokens = files.arg("no-such-tokens");
    let service = format!("{}/payment", dev.service);
    let acts = |args: &[&'static str]| [args, &WHO[..]].concat();
    let runs: Vec<Vec<&str>> = vec![
        vec!["serve", "--schema"],
        // The console cannot listen on this address, so the command fails at once instead of running on.
        vec!["console", "--listen", "192.0.2.1:0", "--tokens", &tokens],
        vec!["token", "shop", "--role", "read"],
        vec!["export", "--to", &exported],
        vec!["import", "--from", &exported, "--dry-run"],
        vec!["backup", "--data", &data, "--to", &copy],
        vec!["check", "--data", &data],
        vec!["submit", &one],
        vec!["get", "good-0"],
        vec!["get", "good-0", "--json"],
        vec!["get", "good-0", "--inputs"],
        vec!["watch", "good-0"],
        vec!["status"],
        vec!["status", "--json"],
        vec!["list"],
        vec!["list", "--json"],
        vec!["list", "--by-cause"],
        acts(&["resubmit", "--state", "Error"]),
        acts(&["resubmit", "--state", "Error", "--json"]),
        acts(&["cancel", "--state", "Processing"]),
        acts(&["retry-compensation", "--state", "CompensationFailed"]),
        acts(&["close", "bad-0"]),
        acts(&[
            "resolve",
            "--step",
            "notify",
            "--not-applied",
            "--state",
            "Error",
        ]),
        vec!["signal", "bad-0", "paid"],
        acts(&["amend", "bad-0", "--details", r#"{"gift": true}"#]),
        acts(&["pause", "--downstream", "payment"]),
        acts(&["resume", "--downstream", "payment"]),
        vec!["downstreams"],
        vec!["downstreams", "--json"],
        vec!["workflows"],
        vec!["workflows", "--json"],
        acts(&[
            "migrate",
            "--state",
            "Error",
            "--to-workflow",
            "order-fulfilment",
        ]),
        vec!["campaign", "list"],
        vec!["campaign", "list", "--json"],
        vec!["audit", "--json"],
        vec!["dead-letters", "list"],
        vec!["dead-letters", "list", "--json"],
        vec!["dead-letters", "show", &letter],
        vec!["dead-letters", "show", &letter, "--value"],
        acts(&["dead-letters", "replay", "--all", "--dry-run"]),
        acts(&["dead-letters", "dismiss", "--all"]),
        vec!["validate", &workflow],
        vec!["validate", "--json", &workflow],
        vec!["test", &workflow, &one],
        vec!["new", &project],
        vec![
            "check-service",
            &service,
            "--action",
            "charge",
            "--compensation",
            "refund",
        ],
        vec![
            "agent",
            "import",
            concat!(
                env!("CARGO_MANIFEST_DIR"),
                "/../../examples/services/payments/openapi.yaml"
            ),
            "--operation",
            "createCharge",
            "--out",
            "-",
        ],
        vec!["publish", &workflow],
        vec!["init", "--agents", "payment", "--prefix", "new-"],
        vec!["doctor"],
        vec!["context", "list"],
        vec!["schema"],
        vec!["completions", "bash"],
        vec!["mcp"],
        vec!["docs"],
        vec!["docs", "--find", "order"],
        vec!["man"],
        vec!["bench", "--orders", "10"],
        vec!["dev", "--orders", &one, "--until-done"],
    ];
    // Commands that are refused here, need an operator's input, or need a service that does not run.
    let refused = [
        "retry-compensation",
        "migrate",
        "resolve",
        "amend",
        "signal",
        "status",
        "check-service",
        "console",
    ];
    for run in &runs {
        let (code, err) = with_closed_reader(&dev, run).await;
        assert!(!err.contains("panicked"), "{run:?}: {err}");
        let may_be_refused = refused.contains(&run[0]);
        assert!(
            code == 0 || (may_be_refused && code == 1),
            "{run:?}: {code}: {err}"
        );
    }
    let help = triad(&["--help"], &[], b"").await.good().out;
    let ran: BTreeSet<String> = runs.iter().map(|run| run[0].to_owned()).collect();
    let never: Vec<_> = listed(&help).difference(&ran).cloned().collect();
    assert!(
        never.is_empty(),
        "add these commands to the test: {never:?}"
    );
    let (code, err) = with_closed_reader(&dev, &["--help"]).await;
    assert_eq!((code, err.as_str()), (0, ""));
}

#[tokio::test]
async fn an_act_is_done_on_every_order_though_nobody_reads_what_it_prints() {
    let (dev, _) = world().await;
    let close = [&["close", "--state", "Error", "--yes"][..], &WHO].concat();
    let (code, err) = with_closed_reader(&dev, &close).await;
    assert_eq!(code, 0, "{err}");
    let left = dev.triad(&["list", "--by-cause"]).await.good();
    assert_eq!(left.out, "no orders need an operator\n");
}

#[tokio::test]
async fn a_fault_of_standard_output_is_an_error_and_no_panic() {
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full");
    let mut command = command("triad");
    command
        .arg("schema")
        .stdout(full.expect("the device is there"));
    let child = command
        .stderr(Stdio::piped())
        .spawn()
        .expect("triad starts");
    let ended = child.wait_with_output().await.expect("it ends");
    let err = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(1), "{err}");
    assert!(err.contains("standard output: No space left"), "{err}");
}

/// Checks that every time in a JSON value is RFC 3339 text: no number is as large as a time in milliseconds, and
/// fields with names of times can be parsed.
fn assert_moments(value: &Value, name: &str, line: &Value) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                assert_moments(value, name, line);
            }
        }
        Value::Array(items) => {
            for item in items {
                assert_moments(item, name, line);
            }
        }
        Value::Number(number) => {
            let is_moment = number
                .as_u64()
                .is_some_and(|n| n > 1_500_000_000_000 && n < 3_000_000_000_000);
            assert!(!is_moment, "{name} is a number of milliseconds: {line}");
        }
        Value::String(text) if name.ends_with("_at") || name == "oldest" || name == "newest" => {
            assert!(humantime::parse_rfc3339(text).is_ok(), "{name}: {line}");
        }
        _ => {}
    }
}

#[tokio::test]
async fn programs_read_one_vocabulary_from_every_command() {
    let (dev, letter) = world().await;
    let files = Files::new();
    let workflow = files.write("fulfilment.yaml", FULFILMENT);
    let acts = |args: &[&'static str]| [args, &WHO[..], &["--json"]].concat();
    let runs: Vec<(Vec<&str>, &[&str])> = vec![
        (vec!["list", "--json"], &["order"]),
        (vec!["list", "--by-cause", "--json"], &["cause"]),
        (acts(&["resubmit", "--state", "Error"]), &["result"]),
        (acts(&["pause", "--downstream", "payment"]), &["result"]),
        (vec!["downstreams", "--json"], &["downstream", "waiting"]),
        (vec!["workflows", "--json"], &["version"]),
        (vec!["dead-letters", "list", "--json"], &["cause", "letter"]),
        (
            acts(&["dead-letters", "replay", "--all", "--dry-run"]),
            &["letter"],
        ),
        (vec!["publish", "--json", &workflow], &["published"]),
    ];
    for (run, kinds) in &runs {
        let ran = dev.triad(run).await.good();
        let summary = ran.summary();
        assert_eq!(summary["kind"], "summary", "{run:?}");
        let lines = ran.json_lines();
        assert!(!lines.is_empty(), "{run:?}: {ran:?}");
        for line in &lines {
            let kind = line["kind"].as_str().expect("a kind");
            assert!(kinds.contains(&kind), "{run:?}: {line}");
            assert_moments(line, "", line);
        }
    }
    for run in [
        &["get", "bad-0", "--json"][..],
        &["dead-letters", "show", &letter, "--json"],
    ] {
        let [line] = &dev.triad(run).await.good().json_lines()[..] else {
            panic!("{run:?}: one line");
        };
        assert!(line["kind"].is_string(), "{line}");
        assert_moments(line, "", line);
    }
    // A cause as `get` prints it is accepted by the filter of `list`.
    let order = dev
        .triad(&["get", "bad-0", "--json"])
        .await
        .json_lines()
        .remove(0);
    assert_eq!(order["state"], "Error");
    assert!(order["submitted_at"].is_string(), "{order}");
    let group = dev
        .triad(&["list", "--by-cause", "--json"])
        .await
        .json_lines()
        .remove(0);
    assert_eq!(
        (&group["cause"], &group["state"]),
        (&order["cause"], &order["state"])
    );
    let cause = order["cause"].as_str().expect("a fingerprint");
    let found = dev.triad(&["list", "--cause", cause, "--json"]).await;
    assert_eq!(found.good().summary()["shown"], 2);
    assert_eq!(order["failure"]["code"], "declined");
    for run in [
        &["submit", "--json", "-"][..],
        &["init", "--agents", "payment", "--prefix", "new-", "--json"],
    ] {
        assert_eq!(
            dev.triad(run).await.good().summary()["kind"],
            "summary",
            "{run:?}"
        );
    }
}

#[tokio::test]
async fn a_list_for_people_ends_with_how_many_it_shows() {
    let (dev, _) = world().await;
    for (run, last) in [
        (&["list"][..], "5 orders"),
        (
            &["list", "--limit", "2"],
            "2 orders shown, and there are more; --limit 0 for all",
        ),
        (&["list", "--by-cause"], "2 orders of 1 cause"),
        (&["workflows"], "1 version"),
        (&["downstreams"], "5 downstreams, 0 not to be called"),
        (&["dead-letters", "list"], "1 cause, 1 letter"),
    ] {
        let ran = dev.triad(run).await.good();
        assert_eq!(ran.out.lines().last(), Some(last), "{run:?}");
    }
    let dry = [&["resubmit", "--state", "Error"][..], &WHO].concat();
    let dry = dev.triad(&dry).await.good().out;
    let said = "2 orders would be resubmitted, 0 would be refused (dry run: nothing was written)\nadd --yes to do it\n";
    assert!(dry.ends_with(said), "{dry}");
}

/// Output of a command on a terminal of this width, with plain line ends.
async fn on_terminal(dev: &Dev, columns: u16, args: &str, variables: &[(&str, &str)]) -> String {
    let triad = triad_tests::process::binary("triad");
    let line = format!(
        "stty cols {columns} rows 24 && exec {} {args} 2>/dev/null",
        triad.display()
    );
    let mut script = tokio::process::Command::new("script");
    script
        .args(["--quiet", "--return", "--command", &line, "/dev/null"])
        .envs(dev.variables())
        .env("SHELL", "/bin/sh")
        .env_remove("NO_COLOR")
        .envs(variables.iter().copied())
        .stdin(Stdio::null())
        .kill_on_drop(true);
    let ended = tokio::time::timeout(PATIENCE, script.output()).await;
    let ended = ended
        .expect("it ends")
        .expect("`script` of util-linux is there");
    let out = String::from_utf8_lossy(&ended.stdout).replace('\r', "");
    assert!(ended.status.success(), "{args}: {out}");
    out
}

/// A text without its colour codes.
fn plain(text: &str) -> String {
    let mut parts = text.split('\u{1b}');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |all, part| {
        all + part.split_once('m').map_or(part, |(_, rest)| rest)
    })
}

#[tokio::test]
async fn a_table_fits_its_terminal_and_is_one_line_a_row_in_a_pipe() {
    let (dev, _) = world().await;
    let cause = "permanent/notify/declined";
    for args in [
        "list",
        "list --by-cause",
        "downstreams",
        "workflows",
        "dead-letters list",
        "get bad-0",
    ] {
        let narrow = plain(&on_terminal(&dev, 80, args, &[]).await);
        let widest = narrow.lines().map(|l| l.trim_end().chars().count()).max();
        assert!(
            widest.is_some_and(|w| w <= 80),
            "{args}: {widest:?}\n{narrow}"
        );
    }
    let wide = plain(&on_terminal(&dev, 200, "list --by-cause", &[]).await);
    let row = wide
        .lines()
        .find(|l| l.contains(cause))
        .expect("the cause on one line");
    assert!(row.contains("bad-") && row.contains(" ago"), "{wide}");
    let piped = dev.triad(&["list", "--by-cause"]).await.good().out;
    let row = piped
        .lines()
        .find(|l| l.contains(cause))
        .expect("the cause on one line");
    assert!(!row.contains(" ago"), "{piped}");
    let moments = row.split_whitespace();
    let moments = moments.filter(|word| humantime::parse_rfc3339(word).is_ok());
    assert_eq!(moments.count(), 2, "two moments: {row}");
}

#[tokio::test]
async fn colours_are_for_terminals_unless_somebody_says_otherwise() {
    let (dev, _) = world().await;
    let is_coloured = |text: &str| text.contains("\u{1b}[");
    let list = "list --state Error";
    let shown = on_terminal(&dev, 100, list, &[]).await;
    assert!(is_coloured(&shown), "{shown:?}");
    let shown = on_terminal(&dev, 100, list, &[("NO_COLOR", "1")]).await;
    assert!(!is_coloured(&shown), "{shown:?}");
    let shown = on_terminal(&dev, 100, "list --state Error --color never", &[]).await;
    assert!(!is_coloured(&shown), "{shown:?}");
    let shown = dev.triad(&["list", "--state", "Error"]).await.good().out;
    assert!(!is_coloured(&shown), "{shown:?}");
    let always = ["list", "--state", "Error", "--color", "always"];
    let shown = dev.triad(&always).await.good().out;
    assert!(is_coloured(&shown), "{shown:?}");
    let json = ["list", "--json", "--color", "always"];
    assert!(!is_coloured(&dev.triad(&json).await.good().out));
}

#[tokio::test]
async fn who_acts_is_asked_for_with_the_places_that_were_looked_at() {
    let dev = Dev::start(&[]).await;
    for args in [
        &["close", "o", "--why", "x"][..],
        &["dead-letters", "replay", "orders/0/0", "--why", "x"],
        &["downstreams", "--release", "payment", "--why", "x"],
    ] {
        let err = dev.triad(args).await.ended(2).err;
        for part in ["--by", "USER", "LOGNAME"] {
            assert!(err.contains(part), "{part} in {args:?}: {err}");
        }
    }
    let variables = [dev.variables(), vec![("LOGNAME", "ann")]].concat();
    let text = lines(&[order("o", 1)]);
    let _ = dev
        .triad_reading(&["submit", "-"], text.as_bytes())
        .await
        .good();
    let paused = until("the order is there", async || {
        let ran = triad(
            &["pause", "--downstream", "payment", "--why", "x"],
            &variables,
            b"",
        )
        .await;
        (ran.code == 0).then_some(ran)
    });
    assert!(paused.await.out.contains("ann"), "who acts is told");
}

#[tokio::test]
async fn the_version_is_that_of_the_release_and_names_the_commit_that_it_is_built_from() {
    let said = triad(&["--version"], &[], b"").await.good().out;
    let version = said.trim_end().strip_prefix("triad ").expect(&said);
    let (release, commit) = version
        .split_once(' ')
        .expect("this is built in its repository");
    assert_eq!(release, env!("CARGO_PKG_VERSION"));
    let commit = commit.trim_matches(['(', ')']);
    let is_hash = commit.len() == 10 && commit.chars().all(|c| c.is_ascii_hexdigit());
    assert!(is_hash, "{said}");
}
