//! An HTTP client that sends exact bytes and checks every answer against the OpenAPI document.

use std::net::SocketAddr;

use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;

use super::{WITHIN, document};

#[derive(Debug, Clone)]
pub struct Said {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Said {
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        let found = headers.find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or(Value::Null)
    }

    /// The code of a problem document; empty for other answers.
    pub fn code(&self) -> String {
        let code = self.json()["code"].as_str().map(str::to_owned);
        code.unwrap_or_default()
    }

    pub fn lines(&self) -> Vec<Value> {
        let text = std::str::from_utf8(&self.body).unwrap();
        text.lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    /// Status and problem code, to be compared together.
    pub fn is(&self) -> (u16, String) {
        (self.status, self.code())
    }
}

#[derive(Debug, Clone)]
pub struct Client {
    pub address: SocketAddr,
}

impl Client {
    pub fn to(address: SocketAddr) -> Self {
        Self { address }
    }

    pub async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.unwrap()
    }

    pub async fn post(&self, path: &str, order: &Value) -> Said {
        let json = [("content-type", "application/json")];
        self.send("POST", path, &json, order.to_string().as_bytes())
            .await
    }

    pub async fn post_bytes(&self, body: &[u8]) -> Said {
        let json = [("content-type", "application/json")];
        self.send("POST", "/v1/orders", &json, body).await
    }

    pub async fn batch(&self, path: &str, lines: &str) -> Said {
        let media = [("content-type", "application/x-ndjson")];
        self.send("POST", path, &media, lines.as_bytes()).await
    }

    pub async fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Said {
        let stream = self.connect().await;
        self.send_on(stream, method, path, headers, body).await
    }

    /// Sends one request on its own connection; returns the answer.
    pub async fn send_on<T: AsyncRead + AsyncWrite + Unpin>(
        &self,
        mut stream: T,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Said {
        let mut request = format!("{method} {path} HTTP/1.1\r\nconnection: close\r\n");
        if !headers.iter().any(|(name, _)| *name == "host") {
            request += &format!("host: {}\r\n", self.address);
        }
        if method == "POST" {
            request += &format!("content-length: {}\r\n", body.len());
        }
        for (name, value) in headers {
            request += &format!("{name}: {value}\r\n");
        }
        let mut request = (request + "\r\n").into_bytes();
        request.extend_from_slice(body);
        // Not an error: a server that refuses a body may close the connection before the client has sent all of it.
        let _ = stream.write_all(&request).await;
        let said = read(&mut stream).await.expect("an answer");
        // The console is described by its own OpenAPI document.
        if !["/v1/operate/", "/console/"]
            .iter()
            .any(|of| path.starts_with(of))
        {
            document::check(method, path, &said);
        }
        said
    }
}

/// Sends bytes unchanged; returns the answer, or `None` if the connection is closed without one.
pub async fn raw(address: SocketAddr, request: &[u8]) -> Option<Said> {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let _ = stream.write_all(request).await;
    read(&mut stream).await
}

/// Reads until the server closes the connection; returns the answer, or `None` if there is none.
pub async fn read<T: AsyncRead + Unpin>(stream: &mut T) -> Option<Said> {
    let mut bytes = Vec::new();
    // The end may come without TLS's close notification, or as a reset after the answer.
    let read = tokio::time::timeout(WITHIN, stream.read_to_end(&mut bytes)).await;
    let _ = read.expect("the connection ends");
    parse(&bytes)
}

pub fn parse(bytes: &[u8]) -> Option<Said> {
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n")?;
    let head = std::str::from_utf8(&bytes[..end]).unwrap();
    let mut lines = head.split("\r\n");
    let status = lines.next()?.split(' ').nth(1)?.parse().ok()?;
    let headers = lines.filter_map(|line| line.split_once(": "));
    let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned()));
    Some(Said {
        status,
        headers: headers.collect(),
        body: bytes[end + 4..].to_vec(),
    })
}
