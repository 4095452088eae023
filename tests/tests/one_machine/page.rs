//! Follows the page about one machine word for word: runs every command and compares its output.

use std::net::TcpListener;

use triad_tests::guide::follow;
use triad_tests::skipped::skipped;

/// Ends the example's service, which the page starts in the background, also if the page was not followed to its end.
struct Service(tempfile::TempDir);

impl Drop for Service {
    fn drop(&mut self) {
        let id = std::fs::read_to_string(self.0.path().join("work/service.pid"));
        let id = id.ok().and_then(|id| id.trim().parse().ok());
        if let Some(id) = id.and_then(rustix::process::Pid::from_raw) {
            // It has ended if the page was followed to its end.
            let _ = rustix::process::kill_process(id, rustix::process::Signal::TERM);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_follows_the_page_word_for_word_sees_what_it_shows() {
    let sqlite = std::process::Command::new("sqlite3")
        .arg("--version")
        .output();
    if sqlite.is_err() {
        skipped("one-machine-page", "no sqlite3; apt-get install sqlite3");
        return;
    }
    let mut page = include_str!("../../../docs/one-machine.md").to_owned();
    // The ports in the page are replaced, because other processes of this machine may use them.
    let ports = ["7070", "9464", "8081"].map(|port| {
        let free = TcpListener::bind("127.0.0.1:0").expect("there is a free port");
        (port, free)
    });
    for (port, free) in &ports {
        let free = free.local_addr().expect("an address").port();
        page = page.replace(port, &free.to_string());
    }
    let [http, ..] = &ports;
    let http = http.1.local_addr().expect("an address");
    drop(ports);
    let from = "data: state ";
    assert!(
        page.contains(from),
        "the place of the settings that only this test has"
    );
    page = page.replace(
        "+data: state ",
        &format!("+kafka: 127.0.0.1:0\n+http: {http}\n+data: state "),
    );
    let dir = Service(tempfile::tempdir().expect("a directory"));
    let followed = follow(&page, dir.0.path(), false).await;
    assert!(
        followed.differences.is_empty(),
        "the page shows (-) what did not come (+)\n{}",
        followed.differences.join("\n")
    );
    assert!(followed.commands >= 24, "{} commands", followed.commands);
}
