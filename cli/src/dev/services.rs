//! The services of a project, as processes: started, started anew, stopped with all that they started.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::json;
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::project::{Project, Service};
use super::say::Say;

/// How long a service that is told to stop may take, before it is killed.
const STOP_WITHIN: Duration = Duration::from_secs(3);
/// Between two looks whether a service listens.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// The wait before a service that has ended by itself is started again; doubled up to the bound.
const FIRST_WAIT: Duration = Duration::from_secs(1);
/// Bound of that wait.
const LONGEST_WAIT: Duration = Duration::from_secs(30);
/// A service that has lived as long has started well: it waits [`FIRST_WAIT`] when it ends.
const LIVED: Duration = Duration::from_secs(10);

/// What is known of a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Starting,
    Listening,
    /// It has ended by itself.
    Ended,
}

struct One {
    restart: Arc<Notify>,
    state: watch::Receiver<State>,
}

/// The running services of a project. Without [`Services::stop`] they are not stopped.
pub struct Services {
    all: BTreeMap<String, One>,
    stop: CancellationToken,
}

/// The ports of a project's services: those that it names, and free ones.
///
/// # Errors
/// If there is no free port.
pub fn ports(project: &Project) -> Result<BTreeMap<String, u16>> {
    let mut taken = Vec::new();
    let mut ports = BTreeMap::new();
    for (name, service) in &project.services {
        let port = match service.port {
            Some(port) => port,
            None => {
                let free = TcpListener::bind(("127.0.0.1", 0)).context("there is no free port")?;
                let port = free.local_addr()?.port();
                // Held until all are known, so that no two services get the same one.
                taken.push(free);
                port
            }
        };
        ports.insert(name.clone(), port);
    }
    Ok(ports)
}

impl Services {
    /// Starts the services of a project, each in a process group of its own. `data` is where each gets
    /// a directory for its data.
    ///
    /// # Errors
    /// If such a directory cannot be made. A service that cannot be started is said, and tried again.
    pub fn start(
        project: &Project,
        ports: &BTreeMap<String, u16>,
        data: &Path,
        say: Say,
    ) -> Result<Self> {
        let stop = CancellationToken::new();
        let mut all = BTreeMap::new();
        for (name, service) in &project.services {
            let data = data.join(name);
            std::fs::create_dir_all(&data)
                .with_context(|| format!("the directory {} cannot be made", data.display()))?;
            // An absolute one: services may change their directory.
            let data = data.canonicalize()?;
            let restart = Arc::new(Notify::new());
            let (tell, state) = watch::channel(State::Starting);
            let runner = Runner {
                name: name.clone(),
                service: service.clone(),
                dir: project.dir.clone(),
                port: ports[name],
                data,
                say,
                restart: restart.clone(),
                tell,
                stop: stop.clone(),
            };
            tokio::spawn(runner.run());
            all.insert(name.clone(), One { restart, state });
        }
        Ok(Self { all, stop })
    }

    /// Starts one service anew.
    pub fn restart(&self, name: &str) {
        if let Some(one) = self.all.get(name) {
            one.restart.notify_one();
        }
    }

    /// Waits until each service listens or has ended by itself; the names of those that have ended.
    pub async fn started(&self) -> Vec<String> {
        let mut ended = Vec::new();
        for (name, one) in &self.all {
            let mut state = one.state.clone();
            let known = state.wait_for(|s| *s != State::Starting).await;
            if known.is_ok_and(|s| *s == State::Ended) {
                ended.push(name.clone());
            }
        }
        ended
    }

    /// Stops them all, with everything that they have started. Takes at most about 3 s.
    pub async fn stop(&self) {
        self.stop.cancel();
        for one in self.all.values() {
            let mut state = one.state.clone();
            // The sender is gone once the process is.
            while state.changed().await.is_ok() {}
        }
    }
}

struct Runner {
    name: String,
    service: Service,
    dir: PathBuf,
    port: u16,
    data: PathBuf,
    say: Say,
    restart: Arc<Notify>,
    tell: watch::Sender<State>,
    stop: CancellationToken,
}

/// Why a service runs no more.
enum End {
    ByItself(ExitStatus),
    Restart,
    Stop,
}

impl Runner {
    async fn run(self) {
        let mut wait = FIRST_WAIT;
        loop {
            let began = Instant::now();
            self.tell.send_replace(State::Starting);
            let end = match self.spawn() {
                Ok(child) => self.watch(child).await,
                Err(e) => {
                    self.tell.send_replace(State::Ended);
                    self.say(&format!("cannot be started: {e}"));
                    if !self.pause(&mut wait, false).await {
                        return;
                    }
                    continue;
                }
            };
            match end {
                End::Stop => return,
                End::Restart => {
                    wait = FIRST_WAIT;
                    self.say("a file of it has changed: it is started anew");
                }
                End::ByItself(status) => {
                    self.tell.send_replace(State::Ended);
                    let lived = began.elapsed() > LIVED;
                    if lived {
                        wait = FIRST_WAIT;
                    }
                    // Started again as it is, it would most likely end again.
                    let for_a_change = !lived && !self.service.watch.is_empty();
                    let when = match for_a_change {
                        false => format!("it is started again in {} s", wait.as_secs()),
                        true => "it is started again when a file of it changes".to_owned(),
                    };
                    self.say(&format!("has ended by itself ({status}); {when}"));
                    if !self.pause(&mut wait, for_a_change).await {
                        return;
                    }
                }
            }
        }
    }

    fn say(&self, what: &str) {
        let text = format!("service {}: {what}", self.name);
        let json = json!({"event": "service", "service": self.name, "what": what});
        self.say.event(&text, &json);
    }

    /// Waits before the next start, for some time or for a change of its files alone. False if it is to
    /// stop.
    async fn pause(&self, wait: &mut Duration, for_a_change: bool) -> bool {
        let pause = *wait;
        *wait = (pause * 2).min(LONGEST_WAIT);
        let over = async {
            match for_a_change {
                false => tokio::time::sleep(pause).await,
                true => std::future::pending().await,
            }
        };
        tokio::select! {
            () = over => true,
            () = self.restart.notified() => true,
            () = self.stop.cancelled() => false,
        }
    }

    fn spawn(&self) -> std::io::Result<Child> {
        let mut command = Command::new("sh");
        if !self.dir.as_os_str().is_empty() {
            command.current_dir(&self.dir);
        }
        command
            .args(["-c", &self.service.command])
            .env("PORT", self.port.to_string())
            .env("DATA_DIR", &self.data)
            // What it prints is to be seen when it is printed.
            .env("PYTHONUNBUFFERED", "1")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
    }

    /// Follows one process to its end, and stops all of its group.
    async fn watch(&self, mut child: Child) -> End {
        let readers = [
            self.pass_on(child.stdout.take()),
            self.pass_on(child.stderr.take()),
        ];
        let group = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        let end = tokio::select! {
            status = child.wait() => match status {
                Ok(status) => End::ByItself(status),
                Err(_) => End::Restart,
            },
            () = self.restart.notified() => End::Restart,
            () = self.stop.cancelled() => End::Stop,
            // It never completes: once the service listens there is nothing more to look for.
            never = self.until_it_listens() => match never {},
        };
        if let Some(group) = group {
            if !matches!(end, End::ByItself(_)) {
                signal(group, Signal::TERM);
                let _ = tokio::time::timeout(STOP_WITHIN, child.wait()).await;
            }
            // What it has started may live on without it.
            signal(group, Signal::KILL);
        }
        for reader in readers {
            // The pipe closes with the last process of the group.
            let _ = tokio::time::timeout(STOP_WITHIN, reader).await;
        }
        end
    }

    async fn until_it_listens(&self) -> std::convert::Infallible {
        while TcpStream::connect(("127.0.0.1", self.port)).await.is_err() {
            tokio::time::sleep(LOOK_EVERY).await;
        }
        self.tell.send_replace(State::Listening);
        self.say("listens");
        std::future::pending().await
    }

    fn pass_on(&self, from: Option<impl AsyncRead + Unpin + Send + 'static>) -> JoinHandle<()> {
        let (name, say) = (self.name.clone(), self.say);
        tokio::spawn(async move {
            let Some(from) = from else { return };
            let mut lines = BufReader::new(from).split(b'\n');
            while let Ok(Some(line)) = lines.next_segment().await {
                say.of_service(&name, String::from_utf8_lossy(&line).trim_end());
            }
        })
    }
}

/// Sends a signal to a process group; nobody may be in it any more.
fn signal(group: Pid, signal: Signal) {
    let _ = kill_process_group(group, signal);
}
