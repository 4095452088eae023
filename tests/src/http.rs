//! HTTP calls of the tests.

/// A client without time limits.
///
/// # Panics
/// If none can be made.
#[must_use]
pub fn client() -> reqwest::Client {
    triad_http::client_builder()
        .build()
        .expect("a client without settings can be made")
}
