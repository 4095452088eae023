//! The service of a new project in Rust, whose first compilation takes a minute.

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
    // The lock file selects the workspace's versions of crates, which this machine has already.
    std::fs::copy(root.join("Cargo.lock"), format!("{dir}/Cargo.lock")).expect("a lock file");
    let target = root.join("target/project-in-rust");
    let built = tokio::process::Command::new(env!("CARGO"))
        .args(["build", "--offline", "--quiet"])
        .current_dir(&dir)
        .env("CARGO_TARGET_DIR", &target)
        // Compiled as users do, without this workspace's compiler wrapper.
        .env_remove("RUSTC_WORKSPACE_WRAPPER")
        .output()
        .await
        .expect("cargo runs");
    let said = String::from_utf8_lossy(&built.stderr);
    assert!(built.status.success(), "{said}");
    let binary = target.join("debug/rusty").display().to_string();
    // The program is started without arguments.
    triad_tests::project::honours_the_contract(&binary, "-").await;
}
