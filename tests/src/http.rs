//! HTTP calls of the tests.

/// An HTTP client without time limits.
///
/// # Panics
/// If it cannot be created.
#[must_use]
pub fn client() -> reqwest::Client {
    triad_http::client_builder()
        .build()
        .expect("a client without settings can be made")
}
