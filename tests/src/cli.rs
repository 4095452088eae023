//! Runs the program `triad` until it ends.

use std::process::Stdio;

use serde_json::Value;
use tokio::io::AsyncWriteExt;

use crate::poll::PATIENCE;
use crate::process::command;

/// Exit code and output of a command that has ended.
#[derive(Debug, Clone)]
pub struct Ran {
    /// Exit code.
    pub code: i32,
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
}

impl Ran {
    /// The lines of standard output as JSON, without the last one, which is the summary.
    ///
    /// # Panics
    /// If a line is not JSON, or if a line before the last is a summary.
    pub fn json_lines(&self) -> Vec<Value> {
        let mut lines = self.all_json_lines();
        if lines.last().is_some_and(|last| last["kind"] == "summary") {
            lines.pop();
        }
        let early = lines.iter().find(|line| line["kind"] == "summary");
        assert!(early.is_none(), "{early:?} is not the last line");
        lines
    }

    /// The summary: the last line of standard output, as JSON.
    ///
    /// # Panics
    /// If the last line is not a summary.
    pub fn summary(&self) -> Value {
        let last = self.all_json_lines().pop().expect("a last line");
        assert_eq!(last["kind"], "summary", "{last}");
        last
    }

    fn all_json_lines(&self) -> Vec<Value> {
        let line = |line| serde_json::from_str(line).expect("a line of JSON");
        self.out.lines().map(line).collect()
    }

    /// Checks that the exit code is 0.
    ///
    /// # Panics
    /// If it is another.
    #[must_use]
    pub fn good(self) -> Self {
        self.ended(0)
    }

    /// Checks the exit code.
    ///
    /// # Panics
    /// If it is another.
    #[must_use]
    pub fn ended(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{self:?}");
        self
    }
}

/// Runs `triad` with these arguments, environment variables and standard input.
///
/// # Panics
/// If it does not end in time.
pub async fn triad(args: &[&str], variables: &[(&str, &str)], input: &[u8]) -> Ran {
    let mut command = command("triad");
    command
        .args(args)
        .envs(variables.iter().copied())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    let mut child = command.spawn().expect("triad starts");
    let mut stdin = child.stdin.take().expect("standard input is a pipe");
    let input = input.to_vec();
    tokio::spawn(async move {
        // Fails if the command ends without reading its input, which is allowed.
        let _ = stdin.write_all(&input).await;
    });
    let ended = tokio::time::timeout(PATIENCE, child.wait_with_output()).await;
    let ended = ended
        .unwrap_or_else(|_| panic!("triad {args:?} does not end"))
        .expect("a child can be waited for");
    Ran {
        code: ended.status.code().unwrap_or(-1),
        out: String::from_utf8_lossy(&ended.stdout).into_owned(),
        err: String::from_utf8_lossy(&ended.stderr).into_owned(),
    }
}
