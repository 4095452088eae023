//! A page that stays open while the server restarts.

use std::net::TcpListener;

use serde_json::Value;
use triad_tests::browser::Browser;
use triad_tests::dev::Dev;
use triad_tests::orders::Files;
use triad_tests::poll::until;
use triad_tests::process::{Process, command};

/// Starts a console on the given port.
async fn console(dev: &Dev, port: u16, further: &[&str]) -> (Process, String) {
    let mut beside = command("triad");
    let listen = format!("127.0.0.1:{port}");
    beside.args([
        "console", "--json", "--data", &dev.data, "--listen", &listen,
    ]);
    beside.args(further);
    let mut beside = Process::start(beside);
    let line: Value = serde_json::from_str(&beside.first_line().await).expect("JSON");
    let address = line["console"].as_str().expect("an address").to_owned();
    (beside, address)
}

async fn ended(console: &mut Process) {
    console.interrupt();
    console.ended().await;
}

async fn says(browser: &mut Browser, part: &str) {
    until(&format!("the page says {part}"), async || {
        let said = browser.text("#live-said").await;
        said.contains(part).then_some(())
    })
    .await;
}

#[tokio::test]
async fn an_open_page_says_that_its_session_has_ended_and_goes_on_where_it_has_none() {
    let Some(mut browser) = Browser::start().await else {
        return;
    };
    let dev = Dev::start(&[]).await;
    let files = Files::new();
    let free = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = free.local_addr().expect("its address").port();
    drop(free);

    let (mut first, address) = console(&dev, port, &[]).await;
    browser.go(&address).await;
    ended(&mut first).await;
    says(&mut browser, "No live updates for now").await;
    let (mut open, _) = console(&dev, port, &[]).await;
    until("the page is told of changes again", async || {
        let said = browser.text("#live-said").await;
        (!said.contains("No live updates")).then_some(())
    })
    .await;
    ended(&mut open).await;

    let made = dev
        .triad(&["token", "ann", "--role", "operate"])
        .await
        .good();
    let tokens = files.write("tokens", &made.out);
    let with_tokens = ["--tokens", tokens.as_str()];
    let (mut second, _) = console(&dev, port, &with_tokens).await;
    browser.go(&address).await;
    browser.write("input[name=token]", made.err.trim()).await;
    browser.click("button.do", true).await;
    ended(&mut second).await;
    let (_third, _) = console(&dev, port, &with_tokens).await;
    says(&mut browser, "your session has ended, log in again").await;
    browser.click("#live-said a", true).await;
    assert_eq!(browser.text("h1").await, "Log in");
}
