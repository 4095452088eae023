//! The protocol over pipes, as over standard input and output: one message a line.

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::io::{
    AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, DuplexStream, ReadHalf, WriteHalf,
    duplex, split,
};
use tokio::task::JoinHandle;
use triad_console::{Caller, Role};
use triad_mcp::{MAX_LINE_BYTES, Mcp, NoPages, Settings, StdioError, serve};
use triad_runtime::system::{SystemClock, SystemEntropy};

use crate::console::{WITHIN, World};

/// Capacity of each pipe, in bytes.
const HELD: usize = 64 * 1024;

/// A conversation after its handshake.
struct Talk {
    talking: JoinHandle<Result<(), StdioError>>,
    input: WriteHalf<DuplexStream>,
    output: BufReader<ReadHalf<DuplexStream>>,
    asked: u64,
}

impl Talk {
    /// Opens the pipes for a read-only caller, and sends nothing.
    fn open(world: &World) -> Self {
        let settings = Settings { acts: false };
        let mcp = Mcp::new(SystemClock, SystemEntropy, settings, NoPages);
        let api = Arc::clone(&world.client.answers);
        let caller = Caller {
            name: Some("ann".to_owned()),
            role: Role::Operate,
        };
        let (here, there) = duplex(HELD);
        let (heard, told) = split(there);
        let (output, input) = split(here);
        Self {
            talking: tokio::spawn(serve(
                mcp,
                Arc::clone(api.operations()),
                caller,
                heard,
                told,
            )),
            input,
            output: BufReader::new(output),
            asked: 0,
        }
    }

    /// Opens the pipes and does the handshake as a client of the revision of June 2025.
    async fn begin(world: &World) -> Self {
        let mut talk = Self::open(world);
        let hello = json!({"protocolVersion": "2025-06-18", "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"}});
        let said = talk.ask("initialize", hello).await;
        assert_eq!(said["result"]["serverInfo"]["name"], "triad", "{said}");
        let begun = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        talk.say(begun.to_string().as_bytes()).await;
        talk
    }

    async fn say(&mut self, line: &[u8]) {
        let line = [line, b"\n"].concat();
        self.input.write_all(&line).await.unwrap();
    }

    /// The next line of the server.
    async fn said(&mut self) -> Value {
        let mut line = String::new();
        let read = tokio::time::timeout(WITHIN, self.output.read_line(&mut line)).await;
        read.expect("it answers in time").unwrap();
        serde_json::from_str(&line).expect("a line of JSON and nothing else")
    }

    async fn ask(&mut self, method: &str, params: Value) -> Value {
        self.asked += 1;
        let id = self.asked;
        let message = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        self.say(message.to_string().as_bytes()).await;
        let said = self.said().await;
        assert_eq!(said["id"], id, "{said}");
        said
    }

    /// Calls a tool; returns its answer, or the error.
    async fn call(&mut self, tool: &str, arguments: Value) -> Result<Value, Value> {
        let params = json!({"name": tool, "arguments": arguments});
        let said = self.ask("tools/call", params).await;
        let result = &said["result"];
        match result["isError"] == true {
            true => Err(result["structuredContent"]["code"].clone()),
            false => Ok(result["structuredContent"].clone()),
        }
    }

    /// Closes the input: the server ends without an error and without further output.
    async fn end(mut self) {
        self.input.shutdown().await.unwrap();
        let mut left = String::new();
        let ended = async {
            self.output.read_to_string(&mut left).await.unwrap();
            self.talking.await.unwrap().unwrap();
        };
        tokio::time::timeout(WITHIN, ended)
            .await
            .expect("it ends in time");
        assert_eq!(left, "");
    }
}

#[tokio::test]
async fn rubbish_ends_nothing_and_is_answered() {
    let world = World::start().await;
    let mut talk = Talk::begin(&world).await;
    let deep = "[".repeat(100_000);
    // The server skips all of a line that exceeds the limit.
    let long = vec![b' '; 2 * MAX_LINE_BYTES];
    for rubbish in [
        &b"{"[..],
        b"\xff\xfe\x00",
        b"plain words",
        b"[1, 2",
        deep.as_bytes(),
        &long,
    ] {
        talk.say(b"").await;
        talk.say(b" \r").await;
        talk.say(rubbish).await;
        let said = talk.said().await;
        assert_eq!(said["error"]["code"], -32700, "{said}");
        assert_eq!(said.get("id").unwrap_or(&Value::Null), &Value::Null);
    }
    talk.say(b"{}").await;
    let said = talk.said().await;
    assert_eq!(said["error"]["code"], -32600, "JSON and no message: {said}");
    // The longest line that is read.
    let ping = json!({"jsonrpc": "2.0", "id": "p", "method": "ping"}).to_string();
    let padded = format!("{ping}{}", " ".repeat(MAX_LINE_BYTES - ping.len()));
    talk.say(padded.as_bytes()).await;
    assert_eq!(talk.said().await["id"], "p");
    let unknown = talk.ask("orders/destroy", json!({})).await;
    assert_eq!(unknown["error"]["code"], -32601, "{unknown}");
    let unknown = talk.ask("tools/call", json!({"name": "destroy"})).await;
    assert_eq!(unknown["error"]["code"], -32602, "{unknown}");
    let wrong = talk.call("get_order", json!({"order": 7})).await;
    assert_eq!(wrong, Err("bad-arguments".into()));
    let none = talk.call("get_order", json!({"id": "none"})).await;
    assert_eq!(none, Err("no-such-order".into()));
    assert!(talk.call("get_overview", json!({})).await.is_ok());
    talk.end().await;
}

#[tokio::test]
async fn the_last_line_is_answered_before_the_end() {
    let world = World::start().await;
    let mut talk = Talk::begin(&world).await;
    talk.say(b"{").await;
    talk.say(b"}").await;
    talk.input.shutdown().await.unwrap();
    for _ in 0..2 {
        assert_eq!(talk.said().await["error"]["code"], -32700);
    }
    talk.end().await;
}

#[tokio::test]
async fn it_ends_with_its_input_also_where_nothing_was_said() {
    let world = World::start().await;
    Talk::open(&world).end().await;
}

#[tokio::test]
async fn a_client_of_the_present_revision_needs_no_handshake() {
    let world = World::start().await;
    let mut talk = Talk::open(&world);
    let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {}});
    let found = talk.ask("server/discover", json!({"_meta": meta})).await;
    let versions = found["result"]["supportedVersions"].as_array();
    assert!(
        versions.is_some_and(|v| v.contains(&json!("2026-07-28"))),
        "{found}"
    );
    let params = json!({"name": "get_overview", "arguments": {}, "_meta": meta});
    let said = talk.ask("tools/call", params).await;
    assert_eq!(
        said["result"]["structuredContent"]["kind"], "overview",
        "{said}"
    );
    talk.end().await;
}
