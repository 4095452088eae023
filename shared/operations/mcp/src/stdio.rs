//! The protocol over standard input and output, one message a line.

use std::sync::Arc;

use rmcp::ServiceExt;
use rmcp::service::ServerInitializeError;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinError;
use triad_operator::operations::{Caller, Operations};
use triad_runtime::{Clock, Entropy};

use crate::parse_errors::Answering;
use crate::request_context::Mcp;

/// Why [`serve`] ended before its input did.
#[derive(Debug, thiserror::Error)]
pub enum StdioError {
    /// The peer's first message does not begin the protocol, or no answer can be sent to it.
    #[error("the conversation has not begun: {0}")]
    Beginning(Box<ServerInitializeError>),
    /// The task that serves the peer has panicked, which is a bug.
    #[error("the conversation was broken off: {0}")]
    Broken(#[from] JoinError),
}

/// Serves the Model Context Protocol to the peer at `input` and `output`, one message a line, until `input` ends. The
/// tools ask `operations`, as `caller`. A line that is not JSON is answered with the error -32700. It is no error if
/// `input` ends at any time.
///
/// # Errors
/// [`StdioError::Beginning`] if the first message does not begin the protocol or cannot be answered,
/// [`StdioError::Broken`] if the task that serves the peer has panicked.
pub async fn serve<C: Clock, E: Entropy>(
    mcp: Arc<Mcp<C, E>>,
    operations: Arc<dyn Operations>,
    caller: Caller,
    input: impl AsyncRead + Send + Unpin + 'static,
    output: impl AsyncWrite + Send + Unpin + 'static,
) -> Result<(), StdioError> {
    let visit = mcp.visit(operations, caller);
    let talking = match visit.serve(Answering::new(input, output)).await {
        Ok(talking) => talking,
        Err(ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
        Err(e) => return Err(StdioError::Beginning(Box::new(e))),
    };
    talking.waiting().await?;
    Ok(())
}
