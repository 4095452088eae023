//! The services of a project as processes: start, restart, and stop with all their descendants.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
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

use super::output::Say;
use super::project::{Project, ProjectService};
use crate::output::Usage;
use crate::user_files::plain;

/// Longest wait for a service to stop on SIGTERM; then it is killed.
const STOP_WITHIN: Duration = Duration::from_secs(3);
/// Interval between two checks whether a service listens.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Delay after which a service that does not listen is reported, once for each start: it may still be compiling, or
/// it may listen elsewhere.
const LISTENS_WITHIN: Duration = Duration::from_secs(4);
/// Wait before a service that has ended is restarted; doubled up to the bound.
const FIRST_WAIT: Duration = Duration::from_secs(1);
/// Bound of that wait.
const LONGEST_WAIT: Duration = Duration::from_secs(30);
/// Run time after which a start counts as successful: the next wait is [`FIRST_WAIT`].
const LIVED: Duration = Duration::from_secs(10);

/// Shell script that starts a service; its first argument is the service's own command.
///
/// Services must not outlive this process, and a kill leaves no time to stop them. Therefore a watchdog process in
/// the service's process group reads a pipe whose other end this process holds and never writes to. When this process
/// ends in any way, the pipe closes, and the watchdog ends the group: with SIGTERM, and three seconds later with
/// SIGKILL. The watchdog is reparented, so the service has no unexpected child. Linux's parent-death signal would not
/// do: it reaches only the service and not its children, and it is sent when the thread that started the service
/// ends.
const KEPT: &str = r#"exec 3<&0 </dev/null
( trap '' HUP INT TERM
  exec >/dev/null 2>&1
  { read -r _ <&3; kill -TERM 0; sleep 3; kill -KILL 0; } & )
exec 3<&- sh -c "$1""#;

/// State of a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ServiceState {
    Starting,
    Listening,
    /// The service has ended.
    Ended,
}

struct RunningService {
    service: ProjectService,
    port: u16,
    restart: Arc<Notify>,
    state: watch::Receiver<ServiceState>,
    stop: CancellationToken,
}

impl RunningService {
    /// Stops the service with its whole process group.
    async fn stop(mut self) {
        self.stop.cancel();
        // The sender is dropped when the process has ended.
        while self.state.changed().await.is_ok() {}
    }
}

/// The running services of a project. Without [`Services::stop`] they end when this process does.
pub struct Services {
    all: Mutex<BTreeMap<String, RunningService>>,
    data: PathBuf,
    say: Say,
}

/// The ports of a project's services: the configured ones, those already in use by the services, and free ones for
/// the rest.
///
/// # Errors
/// [`Usage`] naming the port that another program has, or if there is no free one.
pub fn ports(
    project: &Project,
    known: &BTreeMap<String, u16>,
) -> Result<BTreeMap<String, u16>, Usage> {
    let mut taken = Vec::new();
    let mut ports = BTreeMap::new();
    for (name, service) in &project.services {
        let port = match (service.port, known.get(name)) {
            (None, Some(port)) => *port,
            (Some(port), _) if known.values().any(|known| *known == port) => port,
            (wanted, _) => {
                let place = ("127.0.0.1", wanted.unwrap_or(0));
                let free = TcpListener::bind(place).and_then(|free| Ok((free.local_addr()?, free)));
                let (address, free) = free.map_err(|e| {
                    let file = project.file.display();
                    Usage(match wanted {
                        Some(port) => format!(
                            "{file}: services.{name}.port: 127.0.0.1:{port} cannot be had: {}; end the program that has it, or name another port",
                            plain(&e)
                        ),
                        None => format!("{file}: services.{name}: there is no free port for it: {}", plain(&e)),
                    })
                })?;
                // Kept open until all ports are chosen, so that no two services get the same one.
                taken.push(free);
                address.port()
            }
        };
        ports.insert(name.clone(), port);
    }
    Ok(ports)
}

impl Services {
    /// Starts the services of a project, each in its own process group. `data` is the parent of their data
    /// directories.
    ///
    /// # Errors
    /// If such a directory cannot be created. A service that cannot be started is reported, and started again later.
    pub fn start(
        project: &Project,
        ports: &BTreeMap<String, u16>,
        data: &Path,
        say: Say,
    ) -> Result<Self> {
        let services = Self {
            all: Mutex::default(),
            data: data.to_path_buf(),
            say,
        };
        services.begin(project, ports)?;
        Ok(services)
    }

    /// Applies a changed project: stops removed and changed services, then starts those that do not run. Takes at
    /// most about 3 s.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub async fn change(&self, project: &Project, ports: &BTreeMap<String, u16>) -> Result<()> {
        let stays = |name: &String, one: &RunningService| {
            project.services.get(name) == Some(&one.service) && ports.get(name) == Some(&one.port)
        };
        let gone: Vec<RunningService> = self
            .all()
            .extract_if(.., |name, one| !stays(name, one))
            .map(|(_, one)| one)
            .collect();
        for one in gone {
            one.stop().await;
        }
        self.begin(project, ports)
    }

    /// Starts the services of a project that do not run.
    fn begin(&self, project: &Project, ports: &BTreeMap<String, u16>) -> Result<()> {
        let mut all = self.all();
        for (name, service) in &project.services {
            if all.contains_key(name) {
                continue;
            }
            let data = self.data.join(name);
            let named = || format!("the directory {} cannot be made", data.display());
            std::fs::create_dir_all(&data).with_context(named)?;
            // Absolute, because services may change their directory.
            let data = data.canonicalize().with_context(named)?;
            let (restart, stop) = (Arc::new(Notify::new()), CancellationToken::new());
            let (tell, state) = watch::channel(ServiceState::Starting);
            let runner = Runner {
                name: name.clone(),
                service: service.clone(),
                dir: project.dir.clone(),
                port: ports[name],
                data,
                say: self.say,
                restart: restart.clone(),
                tell,
                stop: stop.clone(),
            };
            tokio::spawn(runner.run());
            let one = RunningService {
                service: service.clone(),
                port: ports[name],
                restart,
                state,
                stop,
            };
            all.insert(name.clone(), one);
        }
        Ok(())
    }

    fn all(&self) -> MutexGuard<'_, BTreeMap<String, RunningService>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Restarts one service.
    pub fn restart(&self, name: &str) {
        if let Some(one) = self.all().get(name) {
            one.restart.notify_one();
        }
    }

    /// Waits until each service listens or has ended; returns the names of those that have ended.
    pub async fn started(&self) -> Vec<String> {
        let states: Vec<_> = {
            let all = self.all();
            let state = |(name, one): (&String, &RunningService)| (name.clone(), one.state.clone());
            all.iter().map(state).collect()
        };
        let mut ended = Vec::new();
        for (name, mut state) in states {
            let known = state.wait_for(|s| *s != ServiceState::Starting).await;
            if known.is_ok_and(|s| *s == ServiceState::Ended) {
                ended.push(name);
            }
        }
        ended
    }

    /// Stops all services with their process groups. Takes at most about 3 s.
    pub async fn stop(&self) {
        let all = std::mem::take(&mut *self.all());
        for one in all.values() {
            one.stop.cancel();
        }
        for one in all.into_values() {
            one.stop().await;
        }
    }
}

struct Runner {
    name: String,
    service: ProjectService,
    dir: PathBuf,
    port: u16,
    data: PathBuf,
    say: Say,
    restart: Arc<Notify>,
    tell: watch::Sender<ServiceState>,
    stop: CancellationToken,
}

/// Why a service ended.
enum ServiceExit {
    ByItself(ExitStatus),
    Restart,
    Stop,
}

impl Runner {
    async fn run(self) {
        let mut wait = FIRST_WAIT;
        loop {
            let began = Instant::now();
            self.tell.send_replace(ServiceState::Starting);
            let end = match self.spawn() {
                Ok(child) => self.watch(child).await,
                Err(e) => {
                    self.tell.send_replace(ServiceState::Ended);
                    self.print_event(&format!("cannot be started: {e}"));
                    if !self.pause(&mut wait, false).await {
                        return;
                    }
                    continue;
                }
            };
            match end {
                ServiceExit::Stop => return,
                ServiceExit::Restart => {
                    wait = FIRST_WAIT;
                    self.print_event("a file of it has changed: it is restarted");
                }
                ServiceExit::ByItself(status) => {
                    self.tell.send_replace(ServiceState::Ended);
                    let lived = began.elapsed() > LIVED;
                    if lived {
                        wait = FIRST_WAIT;
                    }
                    // Without a change of its files the service would most likely end again.
                    let for_a_change = !lived && !self.service.watch.is_empty();
                    let when = match for_a_change {
                        false => format!("it is started again in {} s", wait.as_secs()),
                        true => "it is started again when a file of it changes".to_owned(),
                    };
                    self.print_event(&format!("has exited ({status}); {when}"));
                    if !self.pause(&mut wait, for_a_change).await {
                        return;
                    }
                }
            }
        }
    }

    fn print_event(&self, what: &str) {
        let text = format!("service {}: {what}", self.name);
        let json = json!({"event": "service", "service": self.name, "what": what});
        self.say.event(&text, &json);
    }

    /// Waits before the next start, for some time or only for a change of its files. False if the service is to stop.
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
            .args(["-c", KEPT, "sh", &self.service.command])
            .env("PORT", self.port.to_string())
            .env("DATA_DIR", &self.data)
            // Unbuffered, so that output appears when it is printed.
            .env("PYTHONUNBUFFERED", "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
    }

    /// Waits for the end of one process, and stops its whole group.
    async fn watch(&self, mut child: Child) -> ServiceExit {
        // Waiting for a child closes its standard input, which would end the group.
        let _held = child.stdin.take();
        let readers = [
            self.pass_on(child.stdout.take()),
            self.pass_on(child.stderr.take()),
        ];
        let group = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        let end = tokio::select! {
            status = child.wait() => match status {
                Ok(status) => ServiceExit::ByItself(status),
                Err(_) => ServiceExit::Restart,
            },
            () = self.restart.notified() => ServiceExit::Restart,
            () = self.stop.cancelled() => ServiceExit::Stop,
            // Never completes: once the service listens, there is nothing left to check.
            never = self.until_it_listens() => match never {},
        };
        if let Some(group) = group {
            if !matches!(end, ServiceExit::ByItself(_)) {
                signal(group, Signal::TERM);
                let _ = tokio::time::timeout(STOP_WITHIN, child.wait()).await;
            }
            // Child processes of the service may still run.
            signal(group, Signal::KILL);
        }
        for reader in readers {
            // The pipe closes with the last process of the group.
            let _ = tokio::time::timeout(STOP_WITHIN, reader).await;
        }
        // The port may stay open for a moment, and must not be taken for the next process's port.
        let _ = tokio::time::timeout(STOP_WITHIN, self.until_nobody_listens()).await;
        end
    }

    async fn until_nobody_listens(&self) {
        while TcpStream::connect(("127.0.0.1", self.port)).await.is_ok() {
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    async fn until_it_listens(&self) -> std::convert::Infallible {
        let began = Instant::now();
        let mut is_said = false;
        while TcpStream::connect(("127.0.0.1", self.port)).await.is_err() {
            if !is_said && began.elapsed() >= LISTENS_WITHIN {
                is_said = true;
                self.print_event(&self.silence());
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
        self.tell.send_replace(ServiceState::Listening);
        self.print_event("listens");
        std::future::pending().await
    }

    fn silence(&self) -> String {
        let (name, port, within) = (&self.name, self.port, LISTENS_WITHIN.as_secs());
        let otherwise = match self.service.port {
            None => "write the port that it has into the project's file",
            Some(_) => "correct the port in the project's file",
        };
        format!(
            "nothing listens on 127.0.0.1:{port} {within} s after its start. Have it listen on the port that the \
             environment variable PORT names, which is {port}, or {otherwise}: services.{name}.port. While it is \
             being built, nothing is wrong"
        )
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

/// Sends a signal to a process group, which may be empty already.
fn signal(group: Pid, signal: Signal) {
    let _ = kill_process_group(group, signal);
}
