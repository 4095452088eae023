//! The target of a request: its path and its query.

use std::time::Duration;

use http::Uri;
use percent_encoding::percent_decode_str;
use triad_core::{OrderId, Priority};

use crate::problem::Problem;

/// The paths, each with its methods in the form of `Allow`.
pub(crate) const ROUTES: [(&str, &str); 5] = [
    ("/v1/orders", "POST"),
    ("/v1/orders/{id}", "GET, HEAD"),
    ("/v1/openapi.json", "GET, HEAD"),
    ("/healthz", "GET, HEAD"),
    ("/readyz", "GET, HEAD"),
];

/// What a path names; one for each of [`ROUTES`], in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Path<'a> {
    Orders,
    /// One order, as the path spells its id.
    Order(&'a str),
    OpenApi,
    Health,
    Ready,
}

impl<'a> Path<'a> {
    /// Parses a path; `None` if it is unknown.
    pub(crate) fn of(path: &'a str) -> Option<Self> {
        match path {
            "/v1/orders" => Some(Self::Orders),
            "/v1/openapi.json" => Some(Self::OpenApi),
            "/healthz" => Some(Self::Health),
            "/readyz" => Some(Self::Ready),
            _ => {
                let id = path.strip_prefix("/v1/orders/")?;
                (!id.is_empty() && !id.contains('/')).then_some(Self::Order(id))
            }
        }
    }

    /// The target's methods, as the header `Allow` lists them.
    pub(crate) const fn allow(self) -> &'static str {
        let [orders, order, open_api, health, ready] = ROUTES;
        match self {
            Self::Orders => orders.1,
            Self::Order(_) => order.1,
            Self::OpenApi => open_api.1,
            Self::Health => health.1,
            Self::Ready => ready.1,
        }
    }
}

/// The order's id in a path, decoded once. What it decodes to may hold `%` and is not decoded again.
pub(crate) fn order_id(spelt: &str) -> Result<OrderId, Problem> {
    let bad = |why: &'static str| Problem::bad("bad-order-id", why);
    let is_escape = |rest: &str| {
        let two = rest.as_bytes().get(..2);
        two.is_some_and(|two| two.iter().all(u8::is_ascii_hexdigit))
    };
    if !spelt.split('%').skip(1).all(is_escape) {
        return Err(bad("a % in the path has to be followed by two hex digits"));
    }
    let text = percent_decode_str(spelt)
        .decode_utf8()
        .map_err(|_| bad("the path is not UTF-8"))?;
    OrderId::new(text).map_err(|e| Problem::bad("bad-order-id", e.to_string()))
}

/// The parameters of a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Query {
    /// How long to wait for the end.
    pub(crate) wait: Option<Duration>,
    /// The order's lane.
    pub(crate) priority: Option<Priority>,
}

impl Query {
    /// Parses a query; a wait above `longest`, and an unknown or repeated parameter, is an error.
    pub(crate) fn of(uri: &Uri, longest: Duration) -> Result<Self, Problem> {
        let mut query = Self::default();
        let text = uri.query().unwrap_or_default();
        for (name, value) in form_urlencoded::parse(text.as_bytes()) {
            let is_twice = match &*name {
                "wait" => query.wait.replace(wait(&value, longest)?).is_some(),
                "priority" => query.priority.replace(priority(&value)?).is_some(),
                other => {
                    let shown: String = other.chars().take(64).collect();
                    let text = format!("unknown query parameter {shown:?}: wait, priority");
                    return Err(Problem::bad("bad-query", text));
                }
            };
            if is_twice {
                let text = format!("the query parameter {name} is there twice");
                return Err(Problem::bad("bad-query", text));
            }
        }
        Ok(query)
    }

    /// The query of a request without a choice of lane: a problem if it names a priority.
    pub(crate) fn without_priority(self) -> Result<Self, Problem> {
        match self.priority {
            None => Ok(self),
            Some(_) => Err(Problem::bad(
                "bad-query",
                "an order has its priority from its submission; leave priority out",
            )),
        }
    }
}

fn wait(text: &str, longest: Duration) -> Result<Duration, Problem> {
    let bad = |why: String| Problem::bad("bad-wait", why);
    let wait = humantime::parse_duration(text)
        .map_err(|e| bad(format!("wait is no duration such as 30s: {e}")))?;
    if wait > longest {
        let longest = humantime::format_duration(longest);
        return Err(bad(format!("wait is {longest} at most")));
    }
    Ok(wait)
}

fn priority(text: &str) -> Result<Priority, Problem> {
    match text {
        "high" => Ok(Priority::High),
        "normal" => Ok(Priority::Normal),
        _ => Err(Problem::bad("bad-query", "priority is high or normal")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_route_is_known_by_its_path_and_nothing_else_is() {
        let paths = ROUTES.map(|(path, _)| Path::of(path));
        let known = [
            Path::Orders,
            Path::Order("{id}"),
            Path::OpenApi,
            Path::Health,
            Path::Ready,
        ];
        assert_eq!(paths, known.map(Some));
        for ((_, allow), path) in ROUTES.iter().zip(known) {
            assert_eq!(path.allow(), *allow);
        }
        for path in [
            "",
            "/",
            "/v1/orders/",
            "/v1/orders/a/b",
            "/V1/orders",
            "//v1/orders",
            "/v1/orders/a/",
            "/v1/./orders",
        ] {
            assert_eq!(Path::of(path), None, "{path}");
        }
    }

    #[test]
    fn an_id_is_decoded_once() {
        let read = |text: &str| order_id(text).map(String::from).map_err(|p| p.code);
        assert_eq!(read("shop-7:1"), Ok("shop-7:1".into()));
        assert_eq!(read("a%3Ab"), Ok("a:b".into()));
        assert_eq!(read("a%253Ab"), Ok("a%3Ab".into()));
        assert_eq!(read("%C3%A9+"), Ok("é+".into()));
        for wrong in [
            "a%2Fb",
            "%",
            "a%2",
            "a%zz",
            "%+1",
            "%FF",
            "%00",
            "%0A",
            &"x".repeat(129),
        ] {
            assert_eq!(read(wrong), Err("bad-order-id"), "{wrong}");
        }
    }

    #[test]
    fn a_query_is_read_strictly() {
        let longest = Duration::from_secs(60);
        let read = |text: &str| {
            let uri: Uri = format!("/v1/orders?{text}").parse().unwrap();
            Query::of(&uri, longest).map_err(|p| p.code)
        };
        assert_eq!(read(""), Ok(Query::default()));
        let both = read("wait=1m&priority=high").unwrap();
        assert_eq!(both.wait, Some(longest));
        assert_eq!(both.priority, Some(Priority::High));
        assert!(both.without_priority().is_err());
        assert_eq!(read("wait=0s").unwrap().wait, Some(Duration::ZERO));
        for (text, code) in [
            ("wait=61s", "bad-wait"),
            ("wait=30", "bad-wait"),
            ("wait=", "bad-wait"),
            ("wait=-1s", "bad-wait"),
            ("wait=99999999999999999999y", "bad-wait"),
            ("priority=HIGH", "bad-query"),
            ("waits=1s", "bad-query"),
            ("wait=1s&wait=1s", "bad-query"),
            ("%FF=1", "bad-query"),
        ] {
            assert_eq!(read(text), Err(code), "{text}");
        }
    }
}
