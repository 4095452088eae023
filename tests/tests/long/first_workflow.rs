//! docs/FIRST_WORKFLOW.md is followed word for word: what it says to type is typed, and what it shows comes.

use std::path::PathBuf;

use triad_tests::guide::{Followed, follow};

fn page() -> PathBuf {
    PathBuf::from(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../docs/FIRST_WORKFLOW.md"
    ))
}

async fn followed(rewriting: bool) -> Followed {
    let text = std::fs::read_to_string(page()).expect("the page is there");
    let dir = tempfile::tempdir().expect("a directory");
    follow(&text, dir.path(), rewriting).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_follows_the_guide_word_for_word_sees_what_it_shows() {
    let followed = followed(false).await;
    assert!(
        followed.differences.is_empty(),
        "the page shows (-) what did not come (+); if it is to show that, run the ignored test \
         first_workflow::the_guide_is_written_anew\n{}",
        followed.differences.join("\n")
    );
    assert!(
        followed.commands >= 30 && followed.changes >= 8,
        "the page shows next to nothing: {} commands, {} changes",
        followed.commands,
        followed.changes
    );
}

/// Puts what comes in place of what the page shows, where the two differ. Read the difference before it is
/// kept, and put `…` where lines differ from run to run.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "it writes docs/FIRST_WORKFLOW.md"]
async fn the_guide_is_written_anew() {
    let followed = followed(true).await;
    std::fs::write(page(), followed.page).expect("the page can be written");
    println!("{}", followed.differences.join("\n"));
}
