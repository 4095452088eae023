//! The service of a new project in Rust: it is compiled, which takes a minute at first.

use std::path::Path;

use triad_tests::cli::triad;
use triad_tests::orders::Files;

#[tokio::test]
async fn a_project_in_rust_builds_and_honours_the_contract() {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    let files = Files::new();
    let dir = files.arg("rusty");
    let _ = triad(&["new", &dir, "--language", "rust"], &[], b"")
        .await
        .good();
    // The versions of the workspace: they are on this machine.
    std::fs::copy(root.join("Cargo.lock"), format!("{dir}/Cargo.lock")).expect("a lock file");
    let target = root.join("target/project-in-rust");
    let built = tokio::process::Command::new(env!("CARGO"))
        .args(["build", "--offline", "--quiet"])
        .current_dir(&dir)
        .env("CARGO_TARGET_DIR", &target)
        // As users build it, whatever compiler this workspace is built with.
        .env_remove("RUSTC_WORKSPACE_WRAPPER")
        .output()
        .await
        .expect("cargo runs");
    let said = String::from_utf8_lossy(&built.stderr);
    assert!(built.status.success(), "{said}");
    let binary = target.join("debug/rusty").display().to_string();
    // The program needs no argument, and takes none.
    triad_tests::project::honours_the_contract(&binary, "-").await;
}
