//! ApiVersions: the APIs that the broker offers.

use kafka_protocol::error::ResponseError;
use kafka_protocol::messages::ApiVersionsResponse;
use kafka_protocol::messages::api_versions_response::ApiVersion;

use super::Reply;
use crate::wire::frame::Header;
use crate::wire::shape::{APIS, Api, LOGIN_APIS};

fn response<'a>(offered: impl Iterator<Item = &'a Api>) -> ApiVersionsResponse {
    let offered = offered.map(|api| {
        ApiVersion::default()
            .with_api_key(api.key as i16)
            .with_min_version(api.min)
            .with_max_version(api.max)
    });
    ApiVersionsResponse::default().with_api_keys(offered.collect())
}

pub(crate) fn versions(header: &Header) -> Reply {
    Reply::Ready(header.encode(&response(APIS.iter())))
}

/// The APIs of a listener that requires a login.
pub(crate) fn versions_with_login(header: &Header) -> Vec<u8> {
    header.encode(&response(APIS.iter().chain(LOGIN_APIS)))
}

/// The protocol's rule (KIP-511): ApiVersions in a version that is not offered is answered in version 0 with an error
/// and the list, so that the client can repeat the request.
pub(crate) fn unsupported(header: &Header, login: bool) -> Reply {
    let login = if login { LOGIN_APIS } else { &[] };
    let response = response(APIS.iter().chain(login));
    let response = response.with_error_code(ResponseError::UnsupportedVersion.code());
    Reply::Ready(header.encode_as(&response, 0))
}
