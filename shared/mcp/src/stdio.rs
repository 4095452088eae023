//! The protocol over standard input and output: a message a line.

use std::sync::Arc;

use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderValue};
use rmcp::ServiceExt;
use rmcp::service::ServerInitializeError;
use rmcp::transport::async_rw::AsyncRwTransport;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinError;
use triad_console::{Answers, Caller, Digest, Keys};
use triad_runtime::{Clock, Entropy};

use crate::visit::Mcp;

/// Longest line that is read, in bytes; a longer one is passed over.
pub const MAX_LINE_BYTES: usize = 1024 * 1024;

/// Why a conversation ended otherwise than by its end.
#[derive(Debug, thiserror::Error)]
pub enum StdioError {
    /// What the other side said first is no beginning of the protocol, or nothing can be said to it.
    #[error("the conversation has not begun: {0}")]
    Beginning(Box<ServerInitializeError>),
    /// A bug.
    #[error("the conversation was broken off: {0}")]
    Broken(#[from] JoinError),
}

/// Whoever started the process, and nobody else: nobody else reaches its input.
struct Owner(Caller);

impl Keys for Owner {
    fn is_open(&self) -> bool {
        false
    }

    fn of(&self, _digest: &Digest) -> Option<Caller> {
        Some(self.0.clone())
    }
}

/// Talks until the input ends, which is no error at any time. The tools ask `api`, as `caller`.
///
/// # Errors
/// [`StdioError`].
pub async fn talk<C: Clock, E: Entropy>(
    mcp: Arc<Mcp<C, E>>,
    api: Arc<dyn Answers>,
    caller: Caller,
    input: impl AsyncRead + Send + Unpin + 'static,
    output: impl AsyncWrite + Send + Unpin + 'static,
) -> Result<(), StdioError> {
    // The API asks for a token; any is the owner's.
    let own = HeaderValue::from_static("Bearer owner");
    let headers = HeaderMap::from_iter([(AUTHORIZATION, own)]);
    let keys = Arc::new(Owner(caller.clone()));
    let visit = mcp.visit(api, keys, caller, &headers);
    let transport =
        AsyncRwTransport::new_server(input, output).with_max_line_length(MAX_LINE_BYTES);
    let talking = match visit.serve(transport).await {
        Ok(talking) => talking,
        Err(ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
        Err(e) => return Err(StdioError::Beginning(Box::new(e))),
    };
    talking.waiting().await?;
    Ok(())
}
