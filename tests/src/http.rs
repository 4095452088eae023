//! HTTP clients and servers of the tests.

use std::net::SocketAddr;

use axum::Router;

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

/// Serves routes on a free port of 127.0.0.1 until the test's runtime ends. Returns the address.
///
/// # Panics
/// If there is no free port.
pub async fn serve(routes: Router) -> SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await;
    let listener = listener.expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    tokio::spawn(async move { axum::serve(listener, routes).await });
    address
}
