//! One process of the installation, which can be started, killed, frozen, and restarted with the same command.

use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::time::{Instant, timeout, timeout_at};

/// Longest wait until a process reports that it has started. It may have to read a log first.
pub const START: Duration = Duration::from_secs(120);
/// Longest time from SIGTERM to the end of a process.
pub const END: Duration = Duration::from_secs(60);
/// Wait before the next attempt, if a process ends while it starts.
const AGAIN: Duration = Duration::from_millis(200);

/// A command that can be run again.
#[derive(Debug, Clone)]
pub struct Recipe {
    /// Name of the process and of its log.
    pub name: String,
    /// Path of the program.
    pub program: PathBuf,
    /// The program's other version, if there is one: each restart switches between the two.
    pub other: Option<PathBuf>,
    /// The arguments.
    pub args: Vec<String>,
    /// All environment variables.
    pub variables: Vec<(String, String)>,
    /// Whether the process prints a first line to standard output when it has started.
    pub announces: bool,
}

/// A process of the installation. It is killed by its id when this value is dropped.
#[derive(Debug)]
pub struct ChildProcess {
    recipe: Recipe,
    log: PathBuf,
    child: Child,
}

impl ChildProcess {
    /// Starts the process. If it reports its start, waits for that.
    ///
    /// # Errors
    /// If it does not start.
    pub async fn start(recipe: Recipe, logs: &Path) -> Result<Self> {
        let log = logs.join(format!("{}.log", recipe.name));
        let child = launch(&recipe, &log).await?;
        Ok(Self { recipe, log, child })
    }

    /// Name of the process.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.recipe.name
    }

    /// Whether the process has ended without being stopped.
    #[must_use]
    pub fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// Kills the process (SIGKILL), and waits for its end.
    ///
    /// # Errors
    /// If it had ended before: an unexpected end is a finding.
    pub async fn kill(&mut self) -> Result<()> {
        if self.has_ended() {
            bail!(
                "{} had ended by itself: see {}",
                self.name(),
                self.log.display()
            );
        }
        self.child.kill().await.context("it cannot be killed")
    }

    /// Stops the process (SIGTERM), and waits for its end.
    ///
    /// # Errors
    /// If it had ended before, or has not ended within [`END`].
    pub async fn terminate(&mut self) -> Result<()> {
        self.signal(Signal::TERM)?;
        let ended = timeout(END, self.child.wait()).await;
        ended
            .with_context(|| format!("{} does not end: {}", self.name(), self.log.display()))??;
        Ok(())
    }

    /// Ends the process in any state, and waits for its end.
    pub async fn end(&mut self) {
        // The only possible error is that it has already ended.
        let _ = self.child.kill().await;
    }

    /// Starts the process again.
    ///
    /// # Errors
    /// If it does not start.
    pub async fn restart(&mut self) -> Result<()> {
        if let Some(other) = &mut self.recipe.other {
            std::mem::swap(other, &mut self.recipe.program);
        }
        self.child = launch(&self.recipe, &self.log).await?;
        Ok(())
    }

    /// Stops its threads (SIGSTOP).
    ///
    /// # Errors
    /// If the process is gone.
    pub fn freeze(&self) -> Result<()> {
        self.signal(Signal::STOP)
    }

    /// Resumes its threads (SIGCONT).
    ///
    /// # Errors
    /// If the process is gone.
    pub fn thaw(&self) -> Result<()> {
        self.signal(Signal::CONT)
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        let id = self.child.id().and_then(|id| i32::try_from(id).ok());
        let pid = id.and_then(Pid::from_raw);
        let pid = pid.with_context(|| format!("{} is gone", self.name()))?;
        kill_process(pid, signal).with_context(|| format!("a signal to {}", self.name()))
    }
}

/// Starts a process, and repeats that if it ends while it starts: its port may not be free yet.
async fn launch(recipe: &Recipe, log: &Path) -> Result<Child> {
    let until = Instant::now() + START;
    loop {
        let mut child = spawn(recipe, log)?;
        if !recipe.announces {
            return Ok(child);
        }
        let out = child.stdout.take().context("standard output is a pipe")?;
        let mut line = String::new();
        let read = timeout_at(until, BufReader::new(out).read_line(&mut line)).await;
        if matches!(read, Ok(Ok(n)) if n > 0) {
            return Ok(child);
        }
        // The process is not ready in time or has ended; the next attempt needs its port and its files.
        let _ = child.kill().await;
        if Instant::now() + AGAIN >= until {
            bail!("{} does not start: see {}", recipe.name, log.display());
        }
        let _ = timeout(AGAIN, std::future::pending::<()>()).await;
    }
}

fn spawn(recipe: &Recipe, log: &Path) -> Result<Child> {
    let open =
        || -> std::io::Result<File> { OpenOptions::new().create(true).append(true).open(log) };
    let errors = open().with_context(|| format!("{} cannot be written", log.display()))?;
    let out = if recipe.announces {
        Stdio::piped()
    } else {
        Stdio::from(errors.try_clone()?)
    };
    Command::new(&recipe.program)
        .args(&recipe.args)
        .env_clear()
        .envs(recipe.variables.iter().map(|(n, v)| (n, v)))
        .stdin(Stdio::null())
        .stdout(out)
        .stderr(errors)
        .kill_on_drop(true)
        .spawn()
        .with_context(|| format!("{} cannot be started", recipe.program.display()))
}
