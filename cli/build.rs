//! Which commit the program is built from, for `triad --version`.

use std::process::Command;

/// What git answers; `None` where it is missing, or has no answer.
fn git(arguments: &[&str]) -> Option<String> {
    let said = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(said.stdout).ok()?;
    said.status.success().then(|| text.trim().to_owned())
}

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let version = env!("CARGO_PKG_VERSION");
    // A copy of the source without its git may lie in the repository of something else.
    let is_ours = git(&["ls-files", "--error-unmatch", "build.rs"]).is_some();
    let commit = is_ours
        .then(|| git(&["rev-parse", "--short=10", "HEAD"]))
        .flatten();
    if let Some(moves) = git(&["rev-parse", "--git-path", "logs/HEAD"]).filter(|_| is_ours) {
        println!("cargo:rerun-if-changed={moves}");
    }
    let version = match commit {
        Some(commit) => format!("{version} ({commit})"),
        None => version.to_owned(),
    };
    println!("cargo:rustc-env=TRIAD_VERSION={version}");
}
