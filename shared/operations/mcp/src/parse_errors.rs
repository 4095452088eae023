//! Answers to lines that are not JSON. The library passes over them without a word; JSON-RPC 2.0, section 5.1, has the
//! error -32700 for them, which the peer also gets over HTTP.

use std::io;

use futures::future::BoxFuture;
use rmcp::RoleServer;
use rmcp::model::ErrorData;
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use rmcp::transport::async_rw::AsyncRwTransport;
use serde::de::IgnoredAny;
use tokio::io::{
    AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader, DuplexStream,
    duplex,
};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use triad_workflow::numbers;

/// Longest line that is read, in bytes: 1 MiB. A longer line is skipped, and answered with an error.
pub const MAX_LINE_BYTES: usize = 1024 * 1024;
/// Bytes of checked lines that wait for the library.
const CHECKED_BYTES: usize = 64 * 1024;
/// What some programs write before a text in UTF-8. It is no part of a line.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// A transport over lines that answers a line that is not JSON, and gives all others to the library.
pub(crate) struct Answering<W: AsyncWrite> {
    inner: AsyncRwTransport<RoleServer, DuplexStream, W>,
    /// What is wrong with lines that are not answered yet.
    wrong: mpsc::Receiver<String>,
    /// The answer that is being written. It is kept, because the library may drop a call of `receive` at any time.
    answer: Option<BoxFuture<'static, io::Result<()>>>,
    checking: JoinHandle<io::Result<()>>,
}

impl<W: AsyncWrite + Send + Unpin + 'static> Answering<W> {
    pub(crate) fn new(input: impl AsyncRead + Send + Unpin + 'static, output: W) -> Self {
        let (checked, lines) = duplex(CHECKED_BYTES);
        let (told, wrong) = mpsc::channel(1);
        let inner = AsyncRwTransport::new_server(lines, output);
        Self {
            inner: inner.with_max_line_length(MAX_LINE_BYTES + 1),
            wrong,
            answer: None,
            checking: tokio::spawn(check(BufReader::new(input), checked, told)),
        }
    }
}

impl<W: AsyncWrite> Drop for Answering<W> {
    fn drop(&mut self) {
        self.checking.abort();
    }
}

impl<W: AsyncWrite + Send + Unpin + 'static> Transport<RoleServer> for Answering<W> {
    type Error = io::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        self.inner.send(message)
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        loop {
            if let Some(answer) = &mut self.answer {
                let written = answer.await;
                self.answer = None;
                written.ok()?;
            }
            tokio::select! {
                // First, so that the last line is answered before the end.
                biased;
                Some(why) = self.wrong.recv() => {
                    let error = TxJsonRpcMessage::<RoleServer>::error(ErrorData::parse_error(why, None), None);
                    self.answer = Some(Box::pin(self.inner.send(error)));
                }
                message = self.inner.receive() => return message,
            }
        }
    }

    async fn close(&mut self) -> io::Result<()> {
        self.inner.close().await
    }
}

/// Copies the lines that are JSON, and blank ones, until the input ends; tells what is wrong with every other line. At
/// most one waits to be answered: a peer that reads no answers is not read either.
async fn check(
    mut input: BufReader<impl AsyncRead + Unpin>,
    mut checked: DuplexStream,
    wrong: mpsc::Sender<String>,
) -> io::Result<()> {
    let mut line = Vec::new();
    loop {
        line.clear();
        match (&mut input)
            .take(MAX_LINE_BYTES as u64 + 1)
            .read_until(b'\n', &mut line)
            .await?
        {
            0 => return Ok(()),
            _ if line.len() > MAX_LINE_BYTES && !line.ends_with(b"\n") => {
                skip_line(&mut input).await?;
                let why = format!("the line is longer than {MAX_LINE_BYTES} bytes");
                let _ = wrong.send(why).await;
            }
            _ => match unreadable(&line) {
                None => checked.write_all(&line).await?,
                Some(why) => {
                    let _ = wrong.send(why).await;
                }
            },
        }
    }
}

/// Why a line cannot be read; `None` if it can, or is blank.
fn unreadable(line: &[u8]) -> Option<String> {
    let text = line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(line);
    match text.trim_ascii() {
        [] => None,
        text => not_json(text).map(|why| format!("the line {why}")),
    }
}

/// Why a message is not JSON whose numbers can all be kept; `None` if it is.
pub(crate) fn not_json(message: &[u8]) -> Option<String> {
    if let Err(e) = serde_json::from_slice::<IgnoredAny>(message) {
        return Some(format!("is not JSON: {e}"));
    }
    let place = std::str::from_utf8(message)
        .ok()
        .and_then(numbers::altered)?;
    Some(format!(
        "has a number that would be rounded, at {place}: send it as a text"
    ))
}

/// Reads the rest of a line, and drops it.
async fn skip_line(input: &mut BufReader<impl AsyncRead + Unpin>) -> io::Result<()> {
    loop {
        let held = input.fill_buf().await?;
        let end = held.iter().position(|byte| *byte == b'\n');
        let (read, is_last) = match end {
            Some(at) => (at + 1, true),
            None => (held.len(), held.is_empty()),
        };
        input.consume(read);
        if is_last {
            return Ok(());
        }
    }
}
