//! Sets the commit that the program is built from, for `triad --version`.

use std::process::Command;

/// Output of a git command; `None` if git is missing or the command fails.
fn git(arguments: &[&str]) -> Option<String> {
    let said = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(said.stdout).ok()?;
    said.status.success().then(|| text.trim().to_owned())
}

#[expect(
    clippy::disallowed_methods,
    reason = "a build script is configured by its environment alone"
)]
fn is_debug() -> bool {
    std::env::var("PROFILE").is_ok_and(|profile| profile == "debug")
}

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let version = env!("CARGO_PKG_VERSION");
    // A copy of the source without its git directory may lie in another repository.
    let is_ours = git(&["ls-files", "--error-unmatch", "build.rs"]).is_some();
    let commit = is_ours.then(|| git(&["rev-parse", "--short=10", "HEAD"]));
    let version = match commit.flatten() {
        Some(commit) => format!("{version} ({commit})"),
        None => version.to_owned(),
    };
    println!("cargo:rustc-env=TRIAD_VERSION={version}");
    // A debug build keeps the commit of its first build: recompiling after each commit would cost developers a
    // minute.
    if is_ours && !is_debug() {
        let moves = git(&["rev-parse", "--git-path", "logs/HEAD"]).unwrap_or_default();
        println!("cargo:rerun-if-changed={moves}");
    }
}
