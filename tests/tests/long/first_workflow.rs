//! Follows the tutorials word for word, one after the other in the same two terminals: runs every command and
//! compares its output.

use std::path::PathBuf;

use triad_tests::guide::{Followed, follow};

/// The tutorials, in reading order.
const PAGES: [&str; 4] = ["first-workflow", "own-service", "mistakes", "in-node"];
/// Separates the pages, which are followed as one page.
const NEXT: &str = "<!-- the next page -->\n";

fn file(page: &str) -> PathBuf {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/tutorial");
    PathBuf::from(folder).join(format!("{page}.md"))
}

async fn followed(rewriting: bool) -> Followed {
    let text = |page| std::fs::read_to_string(file(page)).expect("the page is there");
    let text = PAGES.map(text).join(NEXT);
    let dir = tempfile::tempdir().expect("a directory");
    follow(&text, dir.path(), rewriting).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_follows_the_tutorials_word_for_word_sees_what_they_show() {
    let followed = followed(false).await;
    assert!(
        followed.differences.is_empty(),
        "the page shows (-) what did not come (+); if it is to show that, run the ignored test \
         first_workflow::the_tutorials_are_written_anew\n{}",
        followed.differences.join("\n")
    );
    assert!(
        followed.commands >= 30 && followed.changes >= 8,
        "the pages show next to nothing: {} commands, {} changes",
        followed.commands,
        followed.changes
    );
}

/// Rewrites the output in the pages wherever it differs. Check the diff before a commit, and replace lines that vary
/// between runs by `…`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "it writes docs/tutorial"]
async fn the_tutorials_are_written_anew() {
    let followed = followed(true).await;
    for (page, text) in PAGES.iter().zip(followed.page.split(NEXT)) {
        std::fs::write(file(page), text).expect("the page can be written");
    }
    println!("{}", followed.differences.join("\n"));
}
