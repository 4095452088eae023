//! Frames: the request header is parsed by hand (it must be readable even if the body is unknown), the body by the
//! generated decoders; responses are prefixed with their length.

use bytes::{Buf, Bytes};
use kafka_protocol::messages::ApiKey;
use kafka_protocol::protocol::{Decodable, Encodable, HeaderVersion};

use super::shape::{self, Api};

/// The header of every request.
#[derive(Debug, Clone)]
pub(crate) struct Header {
    pub(crate) api: &'static Api,
    pub(crate) version: i16,
    pub(crate) correlation: i32,
    pub(crate) client_id: String,
}

/// A frame, classified by its header.
#[derive(Debug)]
pub(crate) enum Request {
    /// An offered API and version, and a body of the right shape.
    Known(Header, Bytes),
    /// `ApiVersions` in a version that is not offered: answered in version 0, with the offered ones.
    UnknownApiVersions(Header),
}

/// Why a connection is closed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Malformed {
    #[error("the request header is cut short")]
    Header,
    #[error("API {key} version {version} is not offered")]
    NotOffered { key: i16, version: i16 },
    #[error("the body is no {key:?} request of version {version}")]
    Body { key: ApiKey, version: i16 },
}

/// Parses a frame (without its length).
pub(crate) fn parse(mut frame: Bytes) -> Result<Request, Malformed> {
    if frame.len() < 8 {
        return Err(Malformed::Header);
    }
    let key = frame.get_i16();
    let version = frame.get_i16();
    let correlation = frame.get_i32();
    let not_offered = Malformed::NotOffered { key, version };
    let Some(api) = shape::api(key) else {
        return Err(not_offered);
    };
    let mut header = Header {
        api,
        version,
        correlation,
        client_id: String::new(),
    };
    if !(api.min..=api.max).contains(&version) {
        return match api.key {
            ApiKey::ApiVersions => Ok(Request::UnknownApiVersions(header)),
            _ => Err(not_offered),
        };
    }
    if frame.len() < 2 {
        return Err(Malformed::Header);
    }
    let length = usize::try_from(frame.get_i16()).unwrap_or(0);
    if frame.len() < length {
        return Err(Malformed::Header);
    }
    header.client_id = String::from_utf8_lossy(&frame.split_to(length)).into_owned();
    if api.is_flexible(version) {
        let tags = shape::skip_tags(&frame).ok_or(Malformed::Header)?;
        frame.advance(tags);
    }
    if !api.fits(version, &frame) {
        return Err(Malformed::Body {
            key: api.key,
            version,
        });
    }
    Ok(Request::Known(header, frame))
}

impl Header {
    /// Decodes the body.
    pub(crate) fn decode<T: Decodable>(&self, body: &mut Bytes) -> Result<T, Malformed> {
        T::decode(body, self.version).map_err(|_| Malformed::Body {
            key: self.api.key,
            version: self.version,
        })
    }

    /// A whole response frame, length included.
    pub(crate) fn encode<T: Encodable + HeaderVersion>(&self, response: &T) -> Vec<u8> {
        self.encode_as(response, self.version)
    }

    /// As [`Header::encode`], in another version.
    pub(crate) fn encode_as<T: Encodable + HeaderVersion>(
        &self,
        response: &T,
        version: i16,
    ) -> Vec<u8> {
        let mut out = Vec::with_capacity(256);
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&self.correlation.to_be_bytes());
        if T::header_version(version) >= 1 {
            out.push(0);
        }
        if let Err(error) = response.encode(&mut out, version) {
            // A programming error: a field was set that this version does not have.
            tracing::error!(api = self.api.key as i16, version, %error, "response cannot be encoded");
            debug_assert!(false, "response cannot be encoded: {error}");
            return Vec::new();
        }
        let length = u32::try_from(out.len() - 4).unwrap_or(u32::MAX);
        out[..4].copy_from_slice(&length.to_be_bytes());
        out
    }
}
