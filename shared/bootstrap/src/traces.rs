//! Configuration of traces, by OpenTelemetry's own variables.

use std::fmt;
use std::time::Duration;

use percent_encoding::percent_decode_str;
use triad_runtime::traces::Sampling;

use crate::reader::{ConfigError, Reader};

/// Default share of traced orders: one in a hundred.
const DEFAULT_SHARE: f64 = 0.01;

/// Where and how the spans of traces are sent. The variable that each setting is read from is in brackets.
/// `Debug` shows neither the endpoint nor the value of a header.
#[derive(Clone)]
pub struct TraceConfig {
    /// The `http` or `https` URL to which spans are posted (`OTEL_EXPORTER_OTLP_TRACES_ENDPOINT`, or else
    /// `OTEL_EXPORTER_OTLP_ENDPOINT` with `/v1/traces` behind it). It may hold a secret.
    pub endpoint: String,
    /// Headers of every post, as names and values (`OTEL_EXPORTER_OTLP_TRACES_HEADERS`, or else
    /// `OTEL_EXPORTER_OTLP_HEADERS`: `name=value`, separated by commas; absent: none). The values are
    /// secrets.
    pub headers: Vec<(String, String)>,
    /// The name of the service in the spans (`OTEL_SERVICE_NAME`; absent: `triad`).
    pub service: String,
    /// Share of traced orders among those whose submitters have not decided about tracing (`OTEL_TRACES_SAMPLER_ARG`,
    /// from 0 to 1; absent: 0.01).
    pub sampling: Sampling,
    /// Longest single post (`OTEL_EXPORTER_OTLP_TIMEOUT`, in milliseconds from 1 to 60,000; absent: 10,000).
    pub timeout: Duration,
}

impl fmt::Debug for TraceConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.headers.iter().map(|(name, _)| &**name).collect();
        f.debug_struct("TraceConfig")
            .field("headers", &names)
            .field("service", &self.service)
            .field("sampling", &self.sampling)
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}

impl TraceConfig {
    /// Reads only these settings, for programs that need nothing else of the configuration. `lookup` returns the
    /// value of the variable with this name; `None` if it is not set. Returns `None` if no endpoint is named, or
    /// `OTEL_SDK_DISABLED` is `true`, in upper or lower case.
    ///
    /// # Errors
    /// [`ConfigError`] with every variable that cannot be used, such as an `OTEL_EXPORTER_OTLP_PROTOCOL` other than
    /// `http/protobuf`. If no valid endpoint is named, or `OTEL_SDK_DISABLED` is `true`, the other variables are
    /// ignored.
    pub fn read(lookup: &dyn Fn(&str) -> Option<String>) -> Result<Option<Self>, ConfigError> {
        let mut r = Reader::new(lookup);
        let read = Self::of(&mut r);
        r.end(read)
    }

    /// Reads the configuration; `None` if no endpoint is named, or `OTEL_SDK_DISABLED` is `true`, in upper or lower
    /// case.
    pub(crate) fn of(r: &mut Reader<'_>) -> Option<Self> {
        let endpoint = endpoint(r)?;
        let is_disabled = r.text("OTEL_SDK_DISABLED");
        if is_disabled.is_some_and(|said| said.eq_ignore_ascii_case("true")) {
            return None;
        }
        protocol(r);
        let share = |t: &str| {
            let share = t.parse().ok().and_then(Sampling::of_share);
            share.ok_or_else(|| format!("{t:?} is not a share from 0 to 1"))
        };
        let default = Sampling::of_share(DEFAULT_SHARE)?;
        let sampling = r.parsed("OTEL_TRACES_SAMPLER_ARG", default, share);
        let timeout = |t: &str| {
            let millis = t.parse().ok().filter(|ms| (1..=60_000).contains(ms));
            millis.ok_or_else(|| format!("{t:?} is not a number of milliseconds from 1 to 60000"))
        };
        let timeout = r.parsed("OTEL_EXPORTER_OTLP_TIMEOUT", 10_000_u64, timeout);
        let own = "OTEL_EXPORTER_OTLP_TRACES_HEADERS";
        let named = match r.text(own) {
            Some(_) => own,
            None => "OTEL_EXPORTER_OTLP_HEADERS",
        };
        Some(Self {
            endpoint,
            headers: r.parsed(named, Vec::new(), headers),
            service: r
                .text("OTEL_SERVICE_NAME")
                .unwrap_or_else(|| "triad".to_owned()),
            sampling,
            timeout: Duration::from_millis(timeout),
        })
    }
}

/// The URL of the posts. It is not quoted in errors, because it may have a secret.
fn endpoint(r: &mut Reader<'_>) -> Option<String> {
    let url = |t: &str| match t.starts_with("http://") || t.starts_with("https://") {
        true => Ok(Some(t.to_owned())),
        false => Err("is not an http or https URL".to_owned()),
    };
    let own = r.parsed("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", None, url);
    let of_all = r.parsed("OTEL_EXPORTER_OTLP_ENDPOINT", None, url);
    own.or_else(|| of_all.map(|base| format!("{}/v1/traces", base.trim_end_matches('/'))))
}

/// Refuses protocols other than HTTP with protobuf.
fn protocol(r: &mut Reader<'_>) {
    let spoken = |t: &str| match t {
        "http/protobuf" => Ok(()),
        other => Err(format!("{other:?} is not spoken here; http/protobuf is")),
    };
    r.parsed("OTEL_EXPORTER_OTLP_PROTOCOL", (), spoken);
}

/// Headers as `name=value`, comma-separated, values percent-encoded if needed. Errors do not quote them: they may be
/// secrets.
fn headers(text: &str) -> Result<Vec<(String, String)>, String> {
    let parts = text
        .split(',')
        .map(str::trim)
        .filter(|part| !part.is_empty());
    let header = |part: &str| {
        let (name, value) = part.split_once('=')?;
        let value = percent_decode_str(value.trim()).decode_utf8().ok()?;
        Some((name.trim().to_owned(), value.into_owned()))
    };
    let read: Option<Vec<_>> = parts.map(header).collect();
    read.ok_or_else(|| "is not of the form name=value,name=value".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(said: &[(&str, &str)]) -> Result<Option<TraceConfig>, String> {
        let lookup = |name: &str| {
            let found = said.iter().find(|(of, _)| *of == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        TraceConfig::read(&lookup).map_err(|e| e.to_string())
    }

    #[test]
    fn without_an_endpoint_nothing_is_traced() {
        let share = ("OTEL_TRACES_SAMPLER_ARG", "1");
        assert!(read(&[share]).expect("it is sound").is_none());
        let on = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4318/");
        let off = ("OTEL_SDK_DISABLED", "true");
        assert!(read(&[on, off]).expect("it is sound").is_none());
        let config = read(&[on, share]).expect("it is sound").expect("it is on");
        assert_eq!(config.endpoint, "http://c:4318/v1/traces");
        assert_eq!(Some(config.sampling), Sampling::of_share(1.0));
        let own = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "https://t/x");
        let config = read(&[on, own]).expect("it is sound").expect("it is on");
        assert_eq!(config.endpoint, "https://t/x");
        assert_eq!(Some(config.sampling), Sampling::of_share(0.01));
    }

    #[test]
    fn headers_are_read_and_not_shown() {
        let said = [
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://u:hidden@c"),
            (
                "OTEL_EXPORTER_OTLP_HEADERS",
                "x-key=hidden%2C, x-tenant = shop",
            ),
        ];
        let config = read(&said).expect("it is sound").expect("it is on");
        let header = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(
            config.headers,
            [header("x-key", "hidden,"), header("x-tenant", "shop")]
        );
        assert!(!format!("{config:?}").contains("hidden"));
        let wrong = [said[0], ("OTEL_EXPORTER_OTLP_HEADERS", "hidden")];
        let error = read(&wrong).expect_err("it has no name");
        assert!(!error.contains("hidden"), "{error}");
    }

    #[test]
    fn every_wrong_setting_is_named() {
        let on = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c");
        for (name, value) in [
            ("OTEL_TRACES_SAMPLER_ARG", "2"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "0"),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
            ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "c:4317"),
        ] {
            let error = read(&[on, (name, value)]).expect_err("it is wrong");
            assert!(error.contains(name), "{error}");
        }
    }
}
