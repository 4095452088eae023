//! A client that speaks to the service as an agent does.

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::BodyExt;
use hyper_util::client::legacy::Client as HyperClient;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::{Value, json};
use triad_reference_service::{Config, Handle, ReferenceService};

#[derive(Clone)]
pub struct Client {
    base: String,
    http: HyperClient<HttpConnector, Body>,
}

pub struct Answered {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Answered {
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    pub fn code(&self) -> (u16, String) {
        let code = self.json()["error"]["code"].as_str().unwrap().to_owned();
        (self.status.as_u16(), code)
    }
}

impl Client {
    pub fn of(service: &Handle) -> Self {
        Self::at(format!("http://{}", service.addr()))
    }

    pub fn at(base: String) -> Self {
        Self {
            base,
            http: HyperClient::builder(TokioExecutor::new()).build_http(),
        }
    }

    pub async fn send(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Body>,
    ) -> Answered {
        let mut request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.base));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(body.into()).unwrap();
        self.try_send(request).await.unwrap()
    }

    /// `None` if the connection fails.
    async fn try_send(&self, request: Request<Body>) -> Option<Answered> {
        let (parts, body) = self.http.request(request).await.ok()?.into_parts();
        // Of a body that breaks off nothing is kept.
        let body = body.collect().await.map(|body| body.to_bytes());
        Some(Answered {
            status: parts.status,
            headers: parts.headers,
            body: body.unwrap_or_default(),
        })
    }

    pub async fn forward(&self, key: &str, input: Value) -> Answered {
        self.try_forward(key, input).await.unwrap()
    }

    /// `None` if the connection fails.
    pub async fn try_forward(&self, key: &str, input: Value) -> Option<Answered> {
        let request = Request::post(format!("{}/payment/charge", self.base))
            .header("idempotency-key", key)
            .header("triad-order", "o-1")
            .header("triad-step", key)
            .header("triad-direction", "forward")
            .header("triad-attempt", "1");
        let request = request.body(Body::from(input.to_string())).unwrap();
        self.try_send(request).await
    }

    pub async fn compensation(&self, key: &str, forward: &str) -> Answered {
        let headers = [
            ("idempotency-key", key),
            ("triad-order", "o-1"),
            ("triad-step", forward),
            ("triad-direction", "compensate"),
            ("triad-compensates", forward),
        ];
        let body = json!({"amount": 5}).to_string();
        self.send(Method::POST, "/payment/refund", &headers, body)
            .await
    }
}

pub async fn start(config: Config) -> (Handle, Client) {
    let service = ReferenceService::start(config).await.unwrap();
    let client = Client::of(&service);
    (service, client)
}
