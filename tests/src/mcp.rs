//! A client of `triad mcp` that sends and reads single lines.

use std::process::{ExitStatus, Stdio};

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout};

use crate::dev::Dev;
use crate::poll::PATIENCE;
use crate::process::command;

/// A running `triad mcp`. It is killed when this is dropped.
pub struct Mcp {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    asked: u64,
    /// Number of tool calls so far.
    pub calls: usize,
}

/// The exit status and remaining output of `triad mcp` after its end.
#[derive(Debug)]
pub struct Ended {
    /// The process's exit status.
    pub status: ExitStatus,
    /// Output that the test has not read.
    pub out: String,
    /// Output on standard error.
    pub err: String,
}

impl Mcp {
    /// Starts `triad mcp` for a running system, without a handshake.
    ///
    /// # Panics
    /// If it cannot be started.
    pub fn open(dev: &Dev, args: &[&str]) -> Self {
        let mut command = command("triad");
        command
            .arg("mcp")
            .args(args)
            .envs(dev.variables())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        let mut child = command.spawn().expect("triad starts");
        Self {
            input: child.stdin.take().expect("standard input is a pipe"),
            output: BufReader::new(child.stdout.take().expect("standard output is a pipe")),
            child,
            asked: 0,
            calls: 0,
        }
    }

    /// Starts `triad mcp`, and does the handshake as a client of the revision of June 2025.
    ///
    /// # Panics
    /// If the answer is invalid.
    pub async fn start(dev: &Dev, args: &[&str]) -> Self {
        let mut talk = Self::open(dev, args);
        let hello = json!({"protocolVersion": "2025-06-18", "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"}});
        let said = talk.ask("initialize", hello).await;
        assert_eq!(said["result"]["serverInfo"]["name"], "triad", "{said}");
        let begun = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        talk.say(begun.to_string().as_bytes()).await;
        talk
    }

    /// Sends a line with any content.
    ///
    /// # Panics
    /// If the process has closed its input.
    pub async fn say(&mut self, line: &[u8]) {
        let line = [line, b"\n"].concat();
        self.input.write_all(&line).await.expect("it reads");
    }

    /// Reads the next line of output.
    ///
    /// # Panics
    /// If none comes in time, or if it is not JSON.
    pub async fn hear(&mut self) -> Value {
        let mut line = String::new();
        let read = tokio::time::timeout(PATIENCE, self.output.read_line(&mut line)).await;
        let read = read
            .expect("it says something in time")
            .expect("it is text");
        assert!(read > 0, "it has ended");
        serde_json::from_str(&line).expect("a line of JSON and nothing else")
    }

    /// Sends a request, and returns the answer.
    ///
    /// # Panics
    /// As [`hear`](Self::hear), and if the answer belongs to another request.
    pub async fn ask(&mut self, method: &str, params: Value) -> Value {
        self.asked += 1;
        let id = self.asked;
        let message = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        self.say(message.to_string().as_bytes()).await;
        let said = self.hear().await;
        assert_eq!(said["id"], id, "{said}");
        said
    }

    /// Calls a tool; returns its answer.
    ///
    /// # Errors
    /// The error that the tool reports.
    ///
    /// # Panics
    /// As [`ask`](Self::ask), and if there is no such tool.
    pub async fn call(&mut self, tool: &str, arguments: Value) -> Result<Value, Value> {
        self.calls += 1;
        let params = json!({"name": tool, "arguments": arguments});
        let said = self.ask("tools/call", params).await;
        let result = &said["result"];
        let shown = &result["structuredContent"];
        assert!(shown.is_object(), "{said}");
        match result["isError"] == true {
            true => Err(shown.clone()),
            false => Ok(shown.clone()),
        }
    }

    /// Closes the input and waits until the process has ended.
    ///
    /// # Panics
    /// If it does not end in time.
    pub async fn end(self) -> Ended {
        let Self {
            mut child,
            input,
            mut output,
            ..
        } = self;
        drop(input);
        let mut err = child.stderr.take().expect("standard error is a pipe");
        let ended = async {
            let (mut said, mut logged) = (String::new(), String::new());
            let read = output.read_to_string(&mut said);
            let (read, also) = tokio::join!(read, err.read_to_string(&mut logged));
            read.and(also).expect("what it says is text");
            let status = child.wait().await.expect("a child can be waited for");
            Ended {
                status,
                out: said,
                err: logged,
            }
        };
        let ended = tokio::time::timeout(PATIENCE, ended).await;
        ended.expect("it ends in time")
    }
}
