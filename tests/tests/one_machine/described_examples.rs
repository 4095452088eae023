//! The examples of described services, each against its stand-in.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};
use triad_tests::cli::triad;
use triad_tests::orders::Files;

/// The variables with the secrets of all stand-ins.
const SECRETS: [(&str, &str); 4] = [
    ("PAYMENT_TOKEN", "sk_test_example"),
    ("CARRIER_KEY", "EZTK_example"),
    ("SHOP_TOKEN", "shpat_example"),
    ("WAREHOUSE_SECRET", "example-secret"),
];

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/services")
}

/// Copies an example, with a free port in place of 8083.
fn copy(example: &str, files: &Files) {
    let from = examples().join(example);
    std::fs::create_dir(files.path("agents")).expect("a folder");
    let own = std::fs::read_dir(&from).expect("the example");
    let agents = std::fs::read_dir(from.join("agents")).expect("its descriptions");
    for file in own
        .chain(agents)
        .map(|entry| entry.expect("an entry").path())
    {
        if file.is_file() {
            let name = file.strip_prefix(&from).expect("it is in there");
            std::fs::copy(&file, files.path(&name.display().to_string())).expect("a copy");
        }
    }
    let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = free.local_addr().expect("it is bound").port();
    let project = std::fs::read_to_string(files.path("triad.yaml")).expect("a project");
    files.write("triad.yaml", &project.replace("8083", &port.to_string()));
}

/// Runs the orders of an example, and checks how many end in each state, and the causes of those that ended badly.
async fn run(example: &str, states: Value, causes: &[&str]) {
    let files = Files::new();
    copy(example, &files);
    let project = files.arg("");
    let arguments = ["dev", "--json", "--until-done", "--project", &project];
    let said = triad(&arguments, &SECRETS, b"").await.ended(1).json_lines();
    let summary = &said.last().expect("a summary")["summary"];
    assert_eq!(summary["states"], states, "{summary}");
    let badly = summary["ended_badly"].as_array().expect("a list").iter();
    let badly: Vec<&str> = badly.filter_map(|one| one["cause"].as_str()).collect();
    assert_eq!(badly, causes, "{summary}");
}

#[tokio::test]
async fn a_payment_api_declines_is_busy_and_pays_back() {
    let causes = [
        "permanent/charge-shipping/card_declined",
        "permanent/charge/card_declined",
    ];
    run(
        "payments",
        json!({"Processed": 2, "Compensated": 2}),
        &causes,
    )
    .await;
}

#[tokio::test]
async fn a_carrier_without_keys_loses_answers_and_voids_a_label() {
    let causes = [
        "permanent/pickup/PICKUP.DATE.INVALID",
        "permanent/shipment/ADDRESS.VERIFY.FAILURE",
    ];
    run(
        "carrier",
        json!({"Processed": 1, "Compensated": 2}),
        &causes,
    )
    .await;
}

#[tokio::test]
async fn a_shop_asks_for_patience_and_cancels() {
    let causes = ["permanent/fulfil/sold-out", "permanent/order/email-blank"];
    run("shop", json!({"Processed": 1, "Compensated": 2}), &causes).await;
}

#[tokio::test]
async fn a_warehouse_says_200_to_everything_and_wants_a_token() {
    let causes = ["permanent/pick/NO_STOCK"];
    run(
        "warehouse",
        json!({"Processed": 1, "Compensated": 1}),
        &causes,
    )
    .await;
}

/// A stand-in with these variables, and its address. It stops when it is dropped.
pub(super) async fn start(example: &str, variables: &[(&str, &str)]) -> (Child, String) {
    let mut child = Command::new("python3")
        .arg(examples().join(example).join("service.py"))
        .env("PORT", "0")
        .envs(variables.iter().copied())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .expect("python3 starts");
    let out = child.stdout.take().expect("a pipe");
    let line = BufReader::new(out).lines().next_line().await;
    let line = line.expect("text").expect("a line");
    let (_, address) = line.split_once(" on ").expect("an address");
    (child, address.to_owned())
}

#[tokio::test]
async fn what_the_service_has_at_the_end_is_what_the_orders_say() {
    let (_service, address) = start("payments", &SECRETS).await;
    let files = Files::new();
    copy("payments", &files);
    let (project, agent) = (files.arg(""), format!("payment={address}"));
    let settings =
        json!({"payment": {"base_url": address, "auth": {"bearer": {"env": "PAYMENT_TOKEN"}}}});
    let mut variables = SECRETS.to_vec();
    let settings = settings.to_string();
    variables.push(("TRIAD_AGENTS", &settings));
    let (workflow, orders) = (files.arg("pay.yaml"), files.arg("orders.jsonl"));
    let arguments = [
        "dev",
        "--until-done",
        "--workflow",
        &workflow,
        "--orders",
        &orders,
    ];
    let _ = triad(&arguments, &variables, b"").await.ended(1);

    let target = ["--project", &project, "--agent", &agent];
    let balance = ["agent", "call", "payment", "balance", "--json"];
    let ran = triad(&[&balance[..], &target].concat(), &SECRETS, b"")
        .await
        .good();
    let said: Value = serde_json::from_str(&ran.out).expect("a line of JSON");
    // P-1 and P-4 with their shipping; P-3 was paid back, and P-2 was declined.
    assert_eq!(
        said["output"],
        json!({"available": 1990 + 490 + 900 + 490}),
        "{said}"
    );

    let check = [&["agent", "check", "payment", "--json"][..], &target].concat();
    let ran = triad(&check, &SECRETS, b"").await.good();
    let points: BTreeMap<String, String> = ran
        .json_lines()
        .iter()
        .map(|line| (text(line, "point"), text(line, "found")))
        .collect();
    let wanted = [
        ("address", "ok"),
        ("balance", "ok"),
        ("charge", "not-called"),
        ("credentials", "ok"),
        ("refund", "not-called"),
    ];
    let wanted = wanted.map(|(point, found)| (point.to_owned(), found.to_owned()));
    assert_eq!(points, BTreeMap::from(wanted));

    // No address, a wrong token, and an address where nothing answers.
    let ran = triad(&check[..3], &[], b"").await.ended(2);
    assert!(ran.err.contains("has no address"), "{ran:?}");
    let wrong = [("PAYMENT_TOKEN", "sk_test_other")];
    let ran = triad(&check, &wrong, b"").await.ended(1);
    assert!(
        ran.out
            .contains("the caller is not accepted: api_key_invalid"),
        "{ran:?}"
    );
    let away = [&check[..6], &["--agent", "payment=http://127.0.0.1:1"]].concat();
    let ran = triad(&away, &SECRETS, b"").await.ended(1);
    assert!(
        ran.out.contains("Connection refused") && ran.out.contains("the address does not answer"),
        "{ran:?}"
    );
}

#[tokio::test]
async fn a_check_gets_a_token_or_says_that_it_cannot() {
    let (_service, address) = start("warehouse", &SECRETS).await;
    let files = Files::new();
    copy("warehouse", &files);
    let token_url = address.replace("/api", "/oauth/token");
    let project = std::fs::read_to_string(files.path("triad.yaml")).expect("a project");
    let lines = project
        .lines()
        .map(|line| match line.split_once("token_url: ") {
            Some((before, _)) => format!("{before}token_url: {token_url}\n"),
            None => format!("{line}\n"),
        });
    files.write("triad.yaml", &lines.collect::<String>());
    let (project, agent) = (files.arg(""), format!("warehouse={address}"));
    let check = [
        "agent",
        "check",
        "warehouse",
        "--project",
        &project,
        "--agent",
        &agent,
    ];
    let ran = triad(&check, &SECRETS, b"").await.good();
    assert!(
        ran.out.contains("ok     stock: answered 200")
            && ran.out.contains("-      pick: not called"),
        "{ran:?}"
    );
    let ran = triad(&check, &[("WAREHOUSE_SECRET", "another-one")], b"")
        .await
        .ended(1);
    assert!(
        ran.out.contains("WRONG  credentials") && !ran.out.contains("another-one"),
        "{ran:?}"
    );
    // A function may have an effect whatever the method of the description is.
    let of_aws = [
        ("TRIAD_AGENTS", r#"{"warehouse": {"lambda": "stock"}}"#),
        ("AWS_ACCESS_KEY_ID", "key"),
        ("AWS_SECRET_ACCESS_KEY", "not-a-real-one"),
        ("AWS_REGION", "eu-west-1"),
    ];
    let ran = triad(&check[..5], &of_aws, b"").await.good();
    assert!(
        ran.out
            .contains("-      address: lambda stock is not called")
            && ran
                .out
                .contains("-      stock: not called, since every call of a service of AWS"),
        "{ran:?}"
    );
}

fn text(line: &Value, field: &str) -> String {
    line[field].as_str().expect(field).to_owned()
}
