//! Every command with a wrong address, with one that does not answer, and with none; and named contexts.

use std::process::Stdio;
use std::time::Duration;

use triad_tests::cli::{Ran, triad};
use triad_tests::dev::Dev;
use triad_tests::orders::{FULFILMENT, Files, lines, order};
use triad_tests::poll::PATIENCE;

const WHO: [&str; 4] = ["--by", "ann", "--why", "as agreed"];

/// A listener on a free port, with its address. It accepts connections and never answers.
fn silent() -> (std::net::TcpListener, String) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    (listener, address)
}

/// The commands that use the tables, and the commands that use Kafka.
fn commands(files: &Files) -> (Vec<Vec<String>>, Vec<Vec<String>>) {
    let workflow = files.write("fulfilment.yaml", FULFILMENT);
    let orders = files.write("orders.jsonl", &lines(&[order("1", 1)]));
    let of = |args: &[&str]| args.iter().map(ToString::to_string).collect::<Vec<_>>();
    let act = |args: &[&str]| of(&[args, &WHO[..]].concat());
    let acts = vec![
        act(&["resubmit", "1"]),
        act(&["resubmit", "--state", "Error"]),
        act(&["cancel", "1"]),
        act(&["retry-compensation", "1"]),
        act(&["close", "1"]),
        act(&["resolve", "1", "--step", "wire", "--not-applied"]),
        act(&["pause", "1"]),
        act(&["resume", "--downstream", "payment"]),
        act(&["downstreams", "--release", "payment"]),
        act(&["migrate", "1", "--to-workflow", "order-fulfilment"]),
    ];
    let mut store = vec![
        of(&["list"]),
        of(&["list", "--by-cause"]),
        of(&["get", "1"]),
        of(&["downstreams"]),
        of(&["workflows"]),
        of(&["publish", &workflow]),
    ];
    store.extend(acts);
    let kafka = vec![
        of(&["submit", &orders]),
        of(&["init", "--agents", "payment"]),
        of(&["init", "--agents", "payment", "--topics-only"]),
        of(&["dead-letters", "list"]),
        of(&["dead-letters", "show", "orders/0/0"]),
        act(&["dead-letters", "replay", "orders/0/0"]),
        act(&["resubmit", "1"]),
        act(&["pause", "1"]),
    ];
    (store, kafka)
}

/// The error is one sentence with the address, without the clients' log.
fn assert_one_sentence(ran: &Ran, args: &[String], address: &str) {
    assert_eq!(ran.code, 1, "{args:?}: {ran:?}");
    assert_eq!(ran.out, "", "{args:?}");
    let said = ran.err.lines().collect::<Vec<_>>();
    let [line] = said[..] else {
        panic!("{args:?}: one line: {}", ran.err)
    };
    assert!(
        line.starts_with("triad: ") && line.len() < 400,
        "{args:?}: {line}"
    );
    assert!(line.contains(address), "{args:?}: {line}");
    assert!(line.contains('?'), "{args:?}: what to do next: {line}");
    for inner in [
        "rdkafka",
        "ispatch",
        "Connector",
        "bootstrap",
        "hyper",
        "ipv4#",
        "Local:",
    ] {
        assert!(!line.contains(inner), "{args:?}: {inner} in {line}");
    }
}

async fn run_all(commands: &[Vec<String>], variables: &[(&str, &str)], address: &str) {
    // Four commands at a time: each spends most of its time waiting.
    for some in commands.chunks(4) {
        let runs = some.iter().map(async |args| {
            let words: Vec<&str> = args.iter().map(String::as_str).collect();
            let ran = triad(&words, variables, b"").await;
            assert_one_sentence(&ran, args, address);
        });
        futures::future::join_all(runs).await;
    }
}

#[tokio::test]
async fn a_store_that_is_away_or_silent_is_one_sentence_with_its_address() {
    let files = Files::new();
    let (store, _) = commands(&files);
    let dev = Dev::on_tables(&[]).await;
    let (_kept, silent) = silent();
    for address in ["127.0.0.1:1", silent.as_str()] {
        let url = format!("http://{address}");
        let variables = [
            ("TRIAD_DYNAMODB_ENDPOINT", url.as_str()),
            ("TRIAD_BROKERS", dev.kafka.as_str()),
        ];
        run_all(&store, &variables, address).await;
        run_all(
            &[vec!["init".into(), "--agents".into(), "payment".into()]],
            &variables,
            address,
        )
        .await;
    }
}

#[tokio::test]
async fn a_broker_that_is_away_or_silent_is_one_sentence_with_its_address() {
    let files = Files::new();
    let (_, kafka) = commands(&files);
    let dev = Dev::on_tables(&[]).await;
    let (_kept, silent) = silent();
    for address in ["127.0.0.1:1", silent.as_str()] {
        let variables = [
            ("TRIAD_DYNAMODB_ENDPOINT", dev.dynamodb.as_str()),
            ("TRIAD_BROKERS", address),
        ];
        run_all(&kafka, &variables, address).await;
    }
}

/// Time limit of a command in these tests. A command must report an unreachable address within five seconds.
const HANGS: Duration = Duration::from_secs(20);

/// An address reserved for documentation (RFC 5737): connection attempts are neither accepted nor refused.
const NOWHERE: &str = "192.0.2.1:9092";

#[tokio::test]
async fn no_command_hangs_where_nobody_answers() {
    let files = Files::new();
    let workflow = files.write("fulfilment.yaml", FULFILMENT);
    let orders = files.write("orders.jsonl", &lines(&[order("1", 1)]));
    let cancel = [&["cancel", "1"][..], &WHO].concat();
    let commands = [
        &["list"][..],
        &["get", "1"],
        &["watch", "1"],
        &["publish", &workflow],
        &["submit", &orders],
        &["submit", "--wait", &orders],
        &["dead-letters", "list"],
        &["init", "--agents", "payment"],
        &cancel,
    ];
    let (_kept, silent) = silent();
    for address in [silent.as_str(), NOWHERE] {
        // All commands wait for an answer that never comes, so they run concurrently.
        let url = format!("http://{address}");
        let variables = [
            ("TRIAD_DYNAMODB_ENDPOINT", url.as_str()),
            ("TRIAD_BROKERS", address),
        ];
        let runs = commands.iter().map(async |args| {
            let ran = tokio::time::timeout(HANGS, triad(args, &variables, b"")).await;
            let ran = ran.unwrap_or_else(|_| panic!("{args:?} at {address} hangs"));
            let words: Vec<String> = args.iter().map(ToString::to_string).collect();
            assert_one_sentence(&ran, &words, address);
        });
        futures::future::join_all(runs).await;
    }
}

#[tokio::test]
async fn what_the_clients_below_say_is_shown_to_who_asks_for_it() {
    let list = ["dead-letters", "list", "--brokers", "127.0.0.1:1"];
    let quiet = triad(&list, &[], b"").await.ended(1).err;
    assert_eq!(quiet.lines().count(), 1, "{quiet}");
    assert!(quiet.contains("(from --brokers)"), "{quiet}");
    let loud = triad(&[&list[..], &["-v"]].concat(), &[], b"")
        .await
        .ended(1)
        .err;
    assert!(loud.contains("Connect to ipv4#127.0.0.1:1"), "{loud}");
}

#[tokio::test]
async fn without_an_address_no_command_tries_aws() {
    let files = Files::new();
    let (store, _) = commands(&files);
    let variables = [
        ("TRIAD_BROKERS", "127.0.0.1:1"),
        ("AWS_ACCESS_KEY_ID", "x"),
        ("AWS_SECRET_ACCESS_KEY", "y"),
        ("AWS_REGION", "eu-west-1"),
    ];
    for args in &store {
        let words: Vec<&str> = args.iter().map(String::as_str).collect();
        let err = triad(&words, &variables, b"").await.ended(2).err;
        for way in ["--dynamodb", "--context", "--from-terraform", "--aws"] {
            assert!(err.contains(way), "{way} in {args:?}: {err}");
        }
    }
    // With `--aws` or `--region` the command uses AWS; here its endpoint is a port on which nothing listens.
    let away = [("AWS_ENDPOINT_URL", "http://127.0.0.1:1")];
    let variables = [&variables[..], &away].concat();
    for said in [&["list", "--aws"][..], &["list", "--region", "eu-west-1"]] {
        let err = triad(said, &variables, b"").await.ended(1).err;
        assert!(err.contains("DynamoDB of AWS"), "{said:?}: {err}");
    }
    let both = ["list", "--aws", "--dynamodb", "http://127.0.0.1:1"];
    let err = triad(&both, &variables, b"").await.ended(2).err;
    assert!(err.contains("not both"), "{err}");
}

#[tokio::test]
async fn a_table_that_is_missing_is_named() {
    let dev = Dev::on_tables(&[]).await;
    let prefix = ["--prefix", "other-"];
    for (args, table) in [
        (&["list"][..], "other-order-state"),
        (&["get", "1"], "other-order-state"),
        (&["workflows"], "other-workflows"),
        (&["downstreams"], "other-workflows"),
    ] {
        let ran = dev.triad(&[args, &prefix[..]].concat()).await.ended(1);
        assert!(ran.err.contains(table), "{args:?}: {}", ran.err);
        assert!(ran.err.contains("triad init"), "{args:?}: {}", ran.err);
    }
}

/// The directory of a user who has a file of contexts.
struct User(Files);

impl User {
    async fn triad(&self, args: &[&str], more: &[(&str, &str)]) -> Ran {
        let file = self.0.arg("config/contexts.json");
        let variables = [&[("TRIAD_CONTEXTS", file.as_str())][..], more].concat();
        triad(args, &variables, b"").await
    }
}

#[tokio::test]
async fn a_context_has_the_addresses_and_flags_and_variables_win_over_it() {
    let dev = Dev::on_tables(&[]).await;
    let user = User(Files::new());
    let add = [
        "context",
        "add",
        "here",
        "--brokers",
        &dev.kafka,
        "--dynamodb",
        &dev.dynamodb,
    ];
    let _ = user.triad(&add, &[]).await.good();
    let away = [
        "context",
        "add",
        "away",
        "--brokers",
        "127.0.0.1:1",
        "--dynamodb",
        "http://127.0.0.1:1",
    ];
    let _ = user.triad(&away, &[]).await.good();
    let _ = user.triad(&["list"], &[]).await.ended(2);
    let named = user.triad(&["list", "--context", "here"], &[]).await.good();
    assert_eq!(named.out, "no orders\n");
    let named = user
        .triad(&["list"], &[("TRIAD_CONTEXT", "here")])
        .await
        .good();
    assert_eq!(named.out, "no orders\n");
    let _ = user.triad(&["context", "use", "away"], &[]).await.good();
    let err = user.triad(&["list"], &[]).await.ended(1).err;
    assert!(
        err.contains("http://127.0.0.1:1 (from the context away)"),
        "{err}"
    );
    let err = user
        .triad(&["dead-letters", "list"], &[])
        .await
        .ended(1)
        .err;
    assert!(err.contains("127.0.0.1:1 (from the context away)"), "{err}");
    let _ = user
        .triad(&["list", "--dynamodb", &dev.dynamodb], &[])
        .await
        .good();
    let variable = [("TRIAD_DYNAMODB_ENDPOINT", dev.dynamodb.as_str())];
    let _ = user.triad(&["list"], &variable).await.good();
    let wrong = [("TRIAD_DYNAMODB_ENDPOINT", "http://127.0.0.1:2")];
    let err = user
        .triad(&["list", "--context", "here"], &wrong)
        .await
        .ended(1)
        .err;
    assert!(err.contains("(from TRIAD_DYNAMODB_ENDPOINT)"), "{err}");

    let all = user
        .triad(&["context", "list", "--json"], &[])
        .await
        .good()
        .json_lines();
    let names: Vec<_> = all
        .iter()
        .map(|c| (c["name"].as_str(), c["current"].as_bool()))
        .collect();
    assert_eq!(
        names,
        [(Some("away"), Some(true)), (Some("here"), Some(false))]
    );
    let shown = user
        .triad(&["context", "show", "here"], &[])
        .await
        .good()
        .out;
    assert!(
        shown.contains(&dev.dynamodb) && shown.contains(&dev.kafka),
        "{shown}"
    );
    let unknown = user
        .triad(&["list", "--context", "nowhere"], &[])
        .await
        .ended(2)
        .err;
    assert!(
        unknown.contains("away, here") && unknown.contains("contexts.json"),
        "{unknown}"
    );
    let _ = user.triad(&["context", "remove", "away"], &[]).await.good();
    let _ = user.triad(&["list"], &[]).await.ended(2);
    let home = [("XDG_CONFIG_HOME", "/nonexistent")];
    let err = triad(&["list", "--context", "here"], &home, b"")
        .await
        .ended(2)
        .err;
    assert!(err.contains("/nonexistent/triad/contexts.json"), "{err}");
}

#[tokio::test]
async fn a_file_of_contexts_that_is_damaged_is_named_and_holds_no_secret() {
    let user = User(Files::new());
    std::fs::create_dir(user.0.path("config")).expect("a directory");
    user.0.write("config/contexts.json", "{");
    let err = user.triad(&["list"], &[]).await.ended(2).err;
    assert!(err.contains("contexts.json"), "{err}");
    let secret = [
        "context",
        "add",
        "x",
        "--dynamodb",
        "http://ann:secret@127.0.0.1:1",
    ];
    user.0.write("config/contexts.json", "{}");
    let err = user.triad(&secret, &[]).await.ended(2).err;
    assert!(
        err.contains("no secrets") && !err.contains("ann:secret"),
        "{err}"
    );
    for bad in [
        &["context", "add", "x"][..],
        &["context", "add", "a b", "--brokers", "b:1"],
        &[
            "context",
            "add",
            "x",
            "--brokers",
            "b:1",
            "--kafka-auth",
            "magic",
        ],
        &["context", "use", "nobody"],
        &["context", "remove", "nobody"],
        &["context", "show"],
    ] {
        let _ = user.triad(bad, &[]).await.ended(2);
    }
    let file = std::fs::read_to_string(user.0.path("config/contexts.json")).expect("the file");
    assert_eq!(file, "{}", "nothing was written");
}

#[tokio::test]
async fn what_changes_production_is_confirmed_by_its_name() {
    let dev = Dev::on_tables(&[]).await;
    let user = User(Files::new());
    let add = [
        "context",
        "add",
        "shop",
        "--brokers",
        &dev.kafka,
        "--dynamodb",
        &dev.dynamodb,
        "--production",
    ];
    let _ = user.triad(&add, &[]).await.good();
    let pause = [
        &["pause", "--downstream", "payment", "--context", "shop"][..],
        &WHO,
    ]
    .concat();
    let refused = user.triad(&pause, &[]).await.ended(2).err;
    assert!(
        refused.contains("--confirm shop") && refused.contains("nothing was done"),
        "{refused}"
    );
    let other = [&pause[..], &["--confirm", "ship"]].concat();
    let refused = user.triad(&other, &[]).await.ended(2).err;
    assert!(refused.contains("nothing was done"), "{refused}");
    // Reads and dry runs need no confirmation.
    let _ = user
        .triad(&["downstreams", "--context", "shop"], &[])
        .await
        .good();
    let dry = [
        &["cancel", "--state", "Processing", "--context", "shop"][..],
        &WHO,
    ]
    .concat();
    let _ = user.triad(&dry, &[]).await.good();
    let shown = dev.triad(&["downstreams"]).await.good().out;
    assert!(!shown.contains("open by ann"), "{shown}");
    let meant = [&pause[..], &["--confirm", "shop"]].concat();
    let _ = user.triad(&meant, &[]).await.good();
    let shown = dev.triad(&["downstreams"]).await.good().out;
    assert!(shown.contains("open by ann"), "{shown}");
}

/// Runs a command on a terminal and types the line `typed`; returns success and the output.
async fn at_terminal(user: &User, args: &[&str], typed: &str) -> (bool, String) {
    let triad = triad_tests::process::binary("triad");
    let mut script = tokio::process::Command::new("script");
    let line = format!("exec {} {}", triad.display(), args.join(" "));
    script
        .args(["--quiet", "--return", "--command", &line, "/dev/null"])
        .env("TRIAD_CONTEXTS", user.0.arg("config/contexts.json"))
        .env("SHELL", "/bin/sh")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true);
    let mut child = script.spawn().expect("`script` of util-linux is there");
    let mut stdin = child.stdin.take().expect("it is a pipe");
    let typed = format!("{typed}\n");
    tokio::io::AsyncWriteExt::write_all(&mut stdin, typed.as_bytes())
        .await
        .expect("it reads");
    let ended = tokio::time::timeout(PATIENCE, child.wait_with_output()).await;
    let ended = ended.expect("it ends").expect("a child can be waited for");
    drop(stdin);
    (
        ended.status.success(),
        String::from_utf8_lossy(&ended.stdout).into_owned(),
    )
}

#[tokio::test]
async fn on_a_terminal_the_name_of_production_is_typed() {
    let dev = Dev::on_tables(&[]).await;
    let user = User(Files::new());
    let add = [
        "context",
        "add",
        "shop",
        "--brokers",
        &dev.kafka,
        "--dynamodb",
        &dev.dynamodb,
        "--production",
    ];
    let _ = user.triad(&add, &[]).await.good();
    let pause = [
        "--context",
        "shop",
        "pause",
        "--downstream",
        "payment",
        "--by",
        "ann",
        "--why",
        "x",
    ];
    let (good, said) = at_terminal(&user, &pause, "ship").await;
    assert!(!good && said.contains("nothing was done"), "{said}");
    let (good, said) = at_terminal(&user, &pause, "shop").await;
    assert!(good && said.contains("Type its name"), "{said}");
    let shown = dev.triad(&["downstreams"]).await.good().out;
    assert!(shown.contains("open by ann"), "{shown}");
}

#[tokio::test]
async fn who_reaches_no_installation_needs_no_readable_contexts() {
    let files = Files::new();
    // A directory cannot be read as a file, whoever asks.
    let directory = files.arg(".");
    let variables = [("TRIAD_CONTEXTS", directory.as_str())];
    let _ = triad(&["docs"], &variables, b"").await.good();
    let _ = triad(&["serve", "--help"], &variables, b"").await.good();
    let refused = triad(&["list"], &variables, b"").await.ended(2).err;
    assert!(refused.contains("the contexts in"), "{refused}");
}
