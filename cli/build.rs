//! Which commit the program is built from, for `triad --version`.

use std::process::Command;

/// What git answers; `None` where it is missing, or has no answer.
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
    // A copy of the source without its git may lie in the repository of something else.
    let is_ours = git(&["ls-files", "--error-unmatch", "build.rs"]).is_some();
    let commit = is_ours.then(|| git(&["rev-parse", "--short=10", "HEAD"]));
    let version = match commit.flatten() {
        Some(commit) => format!("{version} ({commit})"),
        None => version.to_owned(),
    };
    println!("cargo:rustc-env=TRIAD_VERSION={version}");
    // A debug build names the commit at which this was run first: to compile the program anew after each commit
    // would cost those who change it a minute each time.
    if is_ours && !is_debug() {
        let moves = git(&["rev-parse", "--git-path", "logs/HEAD"]).unwrap_or_default();
        println!("cargo:rerun-if-changed={moves}");
    }
}
