//! Child processes whose output is read line by line. They are killed by their id, at the latest when the test ends.

use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio::process::{Child, Command};
use tokio::task::JoinHandle;

use crate::poll::{PATIENCE, until};

/// Path of a binary of the workspace: in the build directory of the running test, or in the directory
/// `TRIAD_TEST_BINARIES`, which may be of another profile.
///
/// # Panics
/// If the binary has not been built; the message has the command that builds it.
pub fn binary(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("a test knows its own file");
    let beside = test
        .ancestors()
        .nth(2)
        .expect("tests are in the profile's directory deps");
    let named = std::env::var_os("TRIAD_TEST_BINARIES").map(PathBuf::from);
    let binary = named.as_deref().unwrap_or(beside).join(name);
    assert!(
        binary.exists(),
        "{} is missing: run `cargo build --workspace --lib --bins` first",
        binary.display()
    );
    binary
}

/// A command that runs a binary of the workspace, without the environment variables of the test.
pub fn command(name: &str) -> Command {
    let mut command = Command::new(binary(name));
    command.env_clear().stdin(Stdio::null());
    command
}

type Lines = Arc<Mutex<Vec<String>>>;

/// A running process and its output. The process is killed when this is dropped.
pub struct Process {
    child: Child,
    out: Lines,
    err: Lines,
    readers: Vec<JoinHandle<()>>,
}

impl Process {
    /// Starts a command.
    ///
    /// # Panics
    /// If it cannot be started.
    pub fn start(mut command: Command) -> Self {
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("the process starts");
        let (out, err) = (Lines::default(), Lines::default());
        let readers = vec![
            collect(child.stdout.take(), out.clone()),
            collect(child.stderr.take(), err.clone()),
        ];
        Self {
            child,
            out,
            err,
            readers,
        }
    }

    /// The lines of standard output so far.
    pub fn out(&self) -> Vec<String> {
        snapshot(&self.out)
    }

    /// The lines of standard error so far.
    pub fn err(&self) -> Vec<String> {
        snapshot(&self.err)
    }

    /// Waits for the first line of standard output.
    ///
    /// # Panics
    /// If the process ends without one; the message has its output.
    pub async fn first_line(&mut self) -> String {
        loop {
            if let Some(line) = self.out().into_iter().next() {
                return line;
            }
            let read = until("the process says something or ends", async || {
                (!self.out().is_empty() || self.readers[0].is_finished()).then_some(())
            });
            read.await;
            assert!(
                !self.out().is_empty(),
                "the process ended without a line: {:?}",
                self.err()
            );
        }
    }

    /// Waits for a line of standard error that contains `part`.
    ///
    /// # Panics
    /// If there is none in time.
    pub async fn err_line(&self, part: &str) -> String {
        until(&format!("standard error holds {part:?}"), async || {
            self.err().into_iter().find(|line| line.contains(part))
        })
        .await
    }

    /// The id of the process.
    ///
    /// # Panics
    /// If it has ended.
    pub fn id(&self) -> u32 {
        self.child.id().expect("it runs")
    }

    /// Closes the standard input, if it is a pipe.
    pub fn end_input(&mut self) {
        self.child.stdin = None;
    }

    /// Interrupts the process as Ctrl-C does.
    ///
    /// # Panics
    /// If it had ended before.
    pub fn interrupt(&self) {
        let id =
            rustix::process::Pid::from_raw(self.id().cast_signed()).expect("a process has an id");
        rustix::process::kill_process(id, rustix::process::Signal::INT).expect("it runs");
    }

    /// Kills the process (SIGKILL), and waits until it has ended.
    ///
    /// # Panics
    /// If it had ended before.
    pub async fn kill(&mut self) {
        assert!(
            self.child.id().is_some(),
            "the process had ended: {:?}",
            self.err()
        );
        self.child.kill().await.expect("a child can be killed");
    }

    /// Waits until the process has ended and its output is read.
    ///
    /// # Panics
    /// If it does not end in time; the message has its output.
    pub async fn ended(&mut self) -> ExitStatus {
        let Ok(status) = tokio::time::timeout(PATIENCE, self.child.wait()).await else {
            panic!(
                "the process does not end: {:?} {:?}",
                self.out(),
                self.err()
            );
        };
        for reader in self.readers.drain(..) {
            reader.await.expect("reading lines does not panic");
        }
        status.expect("a child can be waited for")
    }
}

fn snapshot(lines: &Lines) -> Vec<String> {
    lines.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

fn collect(from: Option<impl AsyncRead + Unpin + Send + 'static>, to: Lines) -> JoinHandle<()> {
    tokio::spawn(async move {
        let Some(from) = from else { return };
        let mut lines = BufReader::new(from).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            to.lock().unwrap_or_else(PoisonError::into_inner).push(line);
        }
    })
}
