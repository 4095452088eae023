//! The MCP server over HTTP and over pipes, with a console and a store in this process.

#[path = "../../../console/tests/console/common/mod.rs"]
#[expect(dead_code, reason = "the console's own tests use more of it")]
mod console;
mod over_http;
mod over_pipes;
mod secrets;
