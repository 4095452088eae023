//! The protocol beside the console of a store in this process: over HTTP, over a pipe.

#[path = "../../../console/tests/console/common/mod.rs"]
#[expect(dead_code, reason = "the console's own tests use more of it")]
mod console;
mod over_http;
mod over_pipes;
mod secrets;
