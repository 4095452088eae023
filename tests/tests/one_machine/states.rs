//! Clear states of `triad serve`: a full disk, a directory that is gone, and what it tells the service manager.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use triad_tests::http::client;
use triad_tests::ledger::Ledger;
use triad_tests::orders::order;
use triad_tests::poll::until;
use triad_tests::process::{Process, command};

use super::serve::{Place, Serve};

/// Status and body of `/readyz`.
async fn ready(serve: &Serve) -> Option<(u16, String)> {
    let answer = client().get(serve.url("/readyz")).send().await.ok()?;
    Some((answer.status().as_u16(), answer.text().await.ok()?))
}

/// Limits the size of files that a process may write, in bytes, as a full disk does.
fn limit(serve: &Serve, bytes: &str) {
    let pid = serve.process.id().to_string();
    let limited = Command::new("prlimit")
        .args(["--pid", &pid, &format!("--fsize={bytes}:unlimited")])
        .status();
    assert!(limited.expect("prlimit runs").success());
}

/// Submits orders, one after the other, until `stop`; returns the ids of those that were accepted.
async fn submit_until(url: String, name: &'static str, stop: Arc<AtomicBool>) -> Vec<String> {
    let mut accepted = Vec::new();
    for n in 0.. {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let id = format!("{name}-{n}");
        let request = client()
            .post(&url)
            .header("content-type", "application/json")
            .body(order(&id, n).to_string())
            .send();
        match request.await {
            Ok(answer) if answer.status().as_u16() == 201 || answer.status().as_u16() == 202 => {
                accepted.push(id);
            }
            _ => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
    accepted
}

#[tokio::test]
async fn a_full_disk_is_said_and_every_accepted_order_ends_by_itself_once_there_is_room() {
    let place = Place::new().await;
    place.configure(&json!({"metrics": "127.0.0.1:0"}));
    let serve = place.serve().await;
    let metrics = serve.process.err_line("\"metrics\"").await;
    let metrics: Value = serde_json::from_str(&metrics).expect("the log is JSON");
    let metrics = metrics["fields"]["address"].as_str().expect("an address");
    let stop = Arc::new(AtomicBool::new(false));
    let load = ["a", "b", "c"]
        .map(|name| tokio::spawn(submit_until(serve.url("/v1/orders"), name, stop.clone())));
    let _ = serve.finished("a-3").await;
    assert_eq!(ready(&serve).await.map(|(status, _)| status), Some(200));
    limit(&serve, "65536");
    let text = until("it says that nothing can be stored", async || {
        let (status, text) = ready(&serve).await?;
        (status == 503).then_some(text)
    })
    .await;
    assert!(
        text.contains("cannot be written") && text.contains("limit of file sizes"),
        "{text}"
    );
    until("failed writes are counted", async || {
        let text = client().get(format!("http://{metrics}/metrics")).send();
        let text = text.await.ok()?.text().await.ok()?;
        let of_it = text
            .lines()
            .find_map(|line| line.strip_prefix("triad_write_groups_failed_total "))?;
        (of_it.parse::<f64>().expect("a number") > 0.0).then_some(())
    })
    .await;
    limit(&serve, "unlimited");
    until("it is ready again", async || {
        (ready(&serve).await?.0 == 200).then_some(())
    })
    .await;
    assert_eq!(serve.submit(&order("after", 1)).await.0, 201);
    stop.store(true, Ordering::Relaxed);
    let mut accepted = vec!["after".to_owned()];
    for load in load {
        accepted.extend(load.await.expect("it ends"));
    }
    assert!(accepted.len() > 10, "{accepted:?}");
    for id in &accepted {
        assert_eq!(serve.finished(id).await["state"], "Processed", "{id}");
    }
    Ledger::read(&place.service).await.assert_nothing_twice();
    serve.stop().await;
}

/// Exit code 2 would keep the service manager from starting it again.
#[tokio::test]
async fn a_start_on_a_full_disk_ends_with_a_code_that_has_it_started_again() {
    let place = Place::new().await;
    let mut limited = tokio::process::Command::new("sh");
    limited.args(["-c", "trap '' XFSZ; ulimit -f 0; exec \"$0\" \"$@\""]);
    limited.arg(triad_tests::process::binary("triad"));
    limited.args(["serve", "--config", &place.files.arg("triad.yaml")]);
    let ended = limited.output().await.expect("a shell");
    let said = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(1), "{said}");
    assert!(said.contains("make room"), "{said}");
    let serve = place.serve().await;
    assert_eq!(serve.submit(&order("room", 1)).await.0, 201);
    serve.stop().await;
}

#[tokio::test]
async fn a_file_that_may_only_be_read_is_said_at_the_start_and_stays_as_it_was() {
    let place = Place::new().await;
    let serve = place.serve().await;
    assert_eq!(serve.submit(&order("before", 1)).await.0, 201);
    serve.stop().await;
    let file = std::path::Path::new(&place.data()).join("triad.sqlite");
    let mode = |mode| std::fs::set_permissions(&file, PermissionsExt::from_mode(mode));
    let before = std::fs::read(&file).expect("it is there");
    mode(0o400).expect("it is ours");
    // The superuser may write all files, unless without this capability.
    let mut unprivileged = match rustix::process::geteuid().is_root() {
        true => {
            let mut setpriv = tokio::process::Command::new("setpriv");
            setpriv.args(["--bounding-set=-dac_override", "--inh-caps=-dac_override"]);
            setpriv.arg(triad_tests::process::binary("triad"));
            setpriv
        }
        false => tokio::process::Command::new(triad_tests::process::binary("triad")),
    };
    unprivileged.args(["serve", "--config", &place.files.arg("triad.yaml")]);
    let ended = unprivileged.output().await.expect("it runs");
    let said = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(1), "{said}");
    let last = said.lines().last().unwrap_or_default();
    assert!(
        last.contains("triad.sqlite") && last.contains("let this user read and write it"),
        "{last}"
    );
    assert!(before == std::fs::read(&file).expect("it is there"));
    mode(0o600).expect("it is ours");
    let serve = place.serve().await;
    assert_eq!(serve.finished("before").await["state"], "Processed");
    serve.stop().await;
}

#[tokio::test]
async fn a_directory_that_is_deleted_ends_the_process_which_accepts_nothing_more() {
    let place = Place::new().await;
    let mut serve = place.serve().await;
    assert_eq!(serve.submit(&order("before", 1)).await.0, 201);
    std::fs::remove_dir_all(place.data()).expect("it can be deleted");
    let sent = client()
        .post(serve.url("/v1/orders"))
        .header("content-type", "application/json")
        .body(order("lost", 2).to_string());
    if let Ok(answer) = sent.send().await {
        let status = answer.status().as_u16();
        assert!(status >= 500, "{status}: {:?}", answer.text().await);
    }
    if let Some((status, text)) = ready(&serve).await {
        assert!(status == 503, "{status}: {text}");
    }
    let status = serve.process.ended().await;
    let said = serve.process.err();
    assert_eq!(status.code(), Some(1), "{said:?}");
    let last = said.last().expect("a line");
    assert!(last.contains("was removed or replaced"), "{last}");
}

/// The words of the unit's command, with the paths of this test.
fn command_of_unit(place: &Place) -> Vec<String> {
    let unit = include_str!("../../../examples/systemd/triad.service");
    let start = unit
        .lines()
        .find_map(|line| line.strip_prefix("ExecStart="));
    let start = start.expect("a command").split(' ');
    let start = start.map(|word| match word {
        "/etc/triad/triad.yaml" => place.files.arg("triad.yaml"),
        "/var/lib/triad" => place.data(),
        word => word.to_owned(),
    });
    start.collect()
}

#[tokio::test]
async fn the_unit_of_systemd_is_told_when_orders_are_taken_that_all_is_well_and_when_it_stops() {
    let unit = include_str!("../../../examples/systemd/triad.service");
    for setting in [
        "Type=notify",
        "WatchdogSec=60",
        "RestartPreventExitStatus=2",
    ] {
        assert!(unit.lines().any(|line| line == setting), "{setting}");
    }
    let place = Place::new().await;
    let socket = place.files.path("notify");
    let manager = UnixDatagram::bind(&socket).expect("a socket");
    manager.set_nonblocking(true).expect("a setting");
    let words = command_of_unit(&place);
    assert_eq!(words[0], "/usr/local/bin/triad");
    let mut serve = command("triad");
    serve.args(&words[1..]);
    serve
        .env("NOTIFY_SOCKET", &socket)
        .env("WATCHDOG_USEC", "400000");
    let mut serve = Process::start(serve);
    let told = async || {
        let mut text = [0; 512];
        until("the service manager is told", async || {
            let length = manager.recv(&mut text).ok()?;
            Some(String::from_utf8_lossy(&text[..length]).trim().to_owned())
        })
        .await
    };
    assert_eq!(told().await, "READY=1");
    let line = serve.err_line("\"serving\"").await;
    let line: Value = serde_json::from_str(&line).expect("the log is JSON");
    let http = line["fields"]["http"].as_str().expect("an address");
    let answer = client().get(format!("http://{http}/readyz")).send().await;
    assert_eq!(answer.expect("it answers").status(), 200);
    for _ in 0..3 {
        assert_eq!(told().await, "WATCHDOG=1");
    }
    serve.interrupt();
    let mut last = told().await;
    while last == "WATCHDOG=1" {
        last = told().await;
    }
    assert_eq!(last, "STOPPING=1");
    assert_eq!(serve.ended().await.code(), Some(0));
}
