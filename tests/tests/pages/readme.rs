//! Follows the README word for word: runs every command and compares its output.

use std::net::TcpListener;

use triad_tests::guide::follow;

use super::tree::page;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_follows_the_readme_word_for_word_sees_what_it_shows() {
    // The port in the page is replaced, because another process of this machine may use it.
    let free = TcpListener::bind("127.0.0.1:0").and_then(|at| at.local_addr());
    let port = free.expect("there is a free port").port().to_string();
    let text = page("README.md").replace("7070", &port);
    let dir = tempfile::tempdir().expect("a directory");
    let followed = follow(&text, dir.path(), false).await;
    assert!(
        followed.differences.is_empty(),
        "the page shows (-) what did not come (+)\n{}",
        followed.differences.join("\n")
    );
    assert!(followed.commands >= 6, "{} commands", followed.commands);
}
