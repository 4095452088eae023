//! The broker's program as a child process.

use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The broker as a child process, killed when dropped.
pub struct Process {
    child: Child,
    pub addr: SocketAddr,
    pub started_in: Duration,
}

impl Process {
    pub fn start(program: &Path, listen: SocketAddr, data: Option<&Path>) -> Self {
        let begun = Instant::now();
        let mut command = Command::new(program);
        command
            .arg("--listen")
            .arg(listen.to_string())
            .stdout(Stdio::piped());
        if let Some(data) = data {
            command.arg("--data").arg(data);
        }
        let mut child = command.spawn().expect("the broker's program");
        let mut line = String::new();
        let stdout = child.stdout.take().expect("a pipe");
        BufReader::new(stdout).read_line(&mut line).expect("a line");
        let addr = line.trim().parse().expect("the address as the first line");
        Self {
            child,
            addr,
            started_in: begun.elapsed(),
        }
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Process {
    /// Sends SIGKILL and waits until the process has ended.
    fn drop(&mut self) {
        self.child.kill().expect("a kill");
        self.child.wait().expect("an end");
    }
}

/// A port that is free now. The test starts the broker on it again after each kill.
pub fn free_port() -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    listener.local_addr().expect("an address")
}
