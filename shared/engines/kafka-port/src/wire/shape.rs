//! The shape of each request on the wire, so that a frame can be checked before it is decoded.
//!
//! The generated decoders allocate by an array's length field before they see the elements, so a few malformed bytes
//! could request more memory than the machine has, and a failed allocation aborts the process. The check walks the
//! frame without allocating: afterwards every length is valid, and the number of elements is bounded.
//!
//! Source of the shapes: Kafka's message schemas, for the versions that the broker offers.

use kafka_protocol::messages::ApiKey;

/// Bound: array elements and tagged fields of one request, over all levels.
const MAX_ITEMS: usize = 100_000;

#[derive(Debug, Clone, Copy)]
enum Kind {
    /// A fixed number of bytes.
    Fixed(usize),
    /// A string, nullable or not.
    Text,
    /// Bytes, nullable or not.
    Blob,
    /// An array of elements that are not structs.
    List(&'static Kind),
    /// An array of structs.
    Structs(&'static [Field]),
}

/// A field and the versions that have it.
#[derive(Debug, Clone, Copy)]
struct Field(i16, i16, Kind);

const LAST: i16 = i16::MAX;
const BYTE: Kind = Kind::Fixed(1);
const SHORT: Kind = Kind::Fixed(2);
const INT: Kind = Kind::Fixed(4);
const LONG: Kind = Kind::Fixed(8);
const UUID: Kind = Kind::Fixed(16);
const INTS: Kind = Kind::List(&INT);
const TEXTS: Kind = Kind::List(&Kind::Text);
const TOPIC_INTS: Kind = Kind::Structs(&[all(Kind::Text), all(INTS)]);

const fn all(kind: Kind) -> Field {
    Field(0, LAST, kind)
}

const fn since(version: i16, kind: Kind) -> Field {
    Field(version, LAST, kind)
}

/// An API that the broker offers: its versions, the first flexible one, and its request's fields.
#[derive(Debug)]
pub(crate) struct Api {
    pub(crate) key: ApiKey,
    pub(crate) min: i16,
    pub(crate) max: i16,
    flexible: i16,
    fields: &'static [Field],
}

macro_rules! api {
    ($key:ident, $min:literal ..= $max:literal, flexible $flexible:expr, [$($field:expr),* $(,)?]) => {
        Api { key: ApiKey::$key, min: $min, max: $max, flexible: $flexible, fields: &[$($field),*] }
    };
}

/// The APIs that each listener offers. Newer versions that only add topic ids or other consumer protocols are left
/// out; clients fall back to older ones.
pub(crate) const APIS: &[Api] = &[
    api!(Produce, 3..=10, flexible 9, [
        all(Kind::Text), all(SHORT), all(INT),
        all(Kind::Structs(&[all(Kind::Text), all(Kind::Structs(&[all(INT), all(Kind::Blob)]))])),
    ]),
    api!(Fetch, 4..=12, flexible 12, [
        all(INT), all(INT), all(INT), all(INT), all(BYTE), since(7, INT), since(7, INT),
        all(Kind::Structs(&[
            all(Kind::Text),
            all(Kind::Structs(&[
                all(INT), since(9, INT), all(LONG), since(12, INT), since(5, LONG), all(INT),
            ])),
        ])),
        since(7, TOPIC_INTS), since(11, Kind::Text),
    ]),
    api!(ListOffsets, 1..=6, flexible 6, [
        all(INT), since(2, BYTE),
        all(Kind::Structs(&[
            all(Kind::Text), all(Kind::Structs(&[all(INT), since(4, INT), all(LONG)])),
        ])),
    ]),
    api!(Metadata, 0..=12, flexible 9, [
        all(Kind::Structs(&[since(10, UUID), all(Kind::Text)])),
        since(4, BYTE), Field(8, 10, BYTE), since(8, BYTE),
    ]),
    api!(OffsetCommit, 2..=8, flexible 8, [
        all(Kind::Text), all(INT), all(Kind::Text), since(7, Kind::Text), Field(2, 4, LONG),
        all(Kind::Structs(&[
            all(Kind::Text),
            all(Kind::Structs(&[all(INT), all(LONG), since(6, INT), all(Kind::Text)])),
        ])),
    ]),
    api!(OffsetFetch, 1..=8, flexible 6, [
        Field(0, 7, Kind::Text), Field(0, 7, TOPIC_INTS),
        since(8, Kind::Structs(&[all(Kind::Text), all(TOPIC_INTS)])), since(7, BYTE),
    ]),
    api!(FindCoordinator, 0..=4, flexible 3, [
        Field(0, 3, Kind::Text), since(1, BYTE), since(4, TEXTS),
    ]),
    api!(JoinGroup, 0..=9, flexible 6, [
        all(Kind::Text), all(INT), since(1, INT), all(Kind::Text), since(5, Kind::Text),
        all(Kind::Text), all(Kind::Structs(&[all(Kind::Text), all(Kind::Blob)])),
        since(8, Kind::Text),
    ]),
    api!(Heartbeat, 0..=4, flexible 4, [
        all(Kind::Text), all(INT), all(Kind::Text), since(3, Kind::Text),
    ]),
    api!(LeaveGroup, 0..=5, flexible 4, [
        all(Kind::Text), Field(0, 2, Kind::Text),
        since(3, Kind::Structs(&[all(Kind::Text), all(Kind::Text), since(5, Kind::Text)])),
    ]),
    api!(SyncGroup, 0..=5, flexible 4, [
        all(Kind::Text), all(INT), all(Kind::Text), since(3, Kind::Text), since(5, Kind::Text),
        since(5, Kind::Text), all(Kind::Structs(&[all(Kind::Text), all(Kind::Blob)])),
    ]),
    api!(DescribeGroups, 0..=5, flexible 5, [all(TEXTS), since(3, BYTE)]),
    api!(ListGroups, 0..=5, flexible 3, [since(4, TEXTS), since(5, TEXTS)]),
    api!(ApiVersions, 0..=4, flexible 3, [since(3, Kind::Text), since(3, Kind::Text)]),
    api!(CreateTopics, 2..=7, flexible 5, [
        all(Kind::Structs(&[
            all(Kind::Text), all(INT), all(SHORT),
            all(Kind::Structs(&[all(INT), all(INTS)])),
            all(Kind::Structs(&[all(Kind::Text), all(Kind::Text)])),
        ])),
        all(INT), all(BYTE),
    ]),
    api!(DeleteTopics, 1..=6, flexible 4, [
        Field(0, 5, TEXTS), since(6, Kind::Structs(&[all(Kind::Text), all(UUID)])), all(INT),
    ]),
    api!(InitProducerId, 0..=4, flexible 2, [
        all(Kind::Text), all(INT), since(3, LONG), since(3, SHORT),
    ]),
    api!(OffsetForLeaderEpoch, 2..=4, flexible 4, [
        since(3, INT),
        all(Kind::Structs(&[all(Kind::Text), all(Kind::Structs(&[all(INT), all(INT), all(INT)]))])),
    ]),
    api!(DescribeConfigs, 1..=4, flexible 4, [
        all(Kind::Structs(&[all(BYTE), all(Kind::Text), all(TEXTS)])), all(BYTE), since(3, BYTE),
    ]),
    api!(CreatePartitions, 0..=3, flexible 2, [
        all(Kind::Structs(&[all(Kind::Text), all(INT), all(Kind::Structs(&[all(INTS)]))])),
        all(INT), all(BYTE),
    ]),
    api!(DeleteGroups, 0..=2, flexible 2, [all(TEXTS)]),
    api!(OffsetDelete, 0..=0, flexible LAST, [
        all(Kind::Text), all(Kind::Structs(&[all(Kind::Text), all(Kind::Structs(&[all(INT)]))])),
    ]),
    api!(DescribeCluster, 0..=1, flexible 0, [all(BYTE), since(1, BYTE)]),
];

/// Additional APIs of listeners with login. Version 0 of the handshake is left out: its login messages have no Kafka
/// frames.
pub(crate) const LOGIN_APIS: &[Api] = &[
    api!(SaslHandshake, 1..=1, flexible LAST, [all(Kind::Text)]),
    api!(SaslAuthenticate, 0..=2, flexible 2, [all(Kind::Blob)]),
];

/// The API of that number, if any listener offers it.
pub(crate) fn api(key: i16) -> Option<&'static Api> {
    let mut apis = APIS.iter().chain(LOGIN_APIS);
    apis.find(|api| api.key as i16 == key)
}

impl Api {
    /// Whether requests of this version carry tagged fields.
    pub(crate) fn is_flexible(&self, version: i16) -> bool {
        version >= self.flexible
    }

    /// Whether `body` has this API's shape.
    pub(crate) fn fits(&self, version: i16, body: &[u8]) -> bool {
        let mut walk = Walk {
            rest: body,
            version,
            flexible: self.is_flexible(version),
            items: MAX_ITEMS,
        };
        walk.fields(self.fields).is_some()
    }
}

struct Walk<'a> {
    rest: &'a [u8],
    version: i16,
    flexible: bool,
    items: usize,
}

impl Walk<'_> {
    fn fields(&mut self, fields: &[Field]) -> Option<()> {
        for Field(from, to, kind) in fields {
            if (*from..=*to).contains(&self.version) {
                self.kind(kind)?;
            }
        }
        if self.flexible { self.tags() } else { Some(()) }
    }

    fn kind(&mut self, kind: &Kind) -> Option<()> {
        match kind {
            Kind::Fixed(bytes) => self.skip(*bytes),
            Kind::Text => {
                let length = if self.flexible {
                    self.compact()?
                } else {
                    self.short()?
                };
                self.skip(length)
            }
            Kind::Blob => {
                let length = self.long_length()?;
                self.skip(length)
            }
            Kind::List(element) => {
                for _ in 0..self.count()? {
                    self.kind(element)?;
                }
                Some(())
            }
            Kind::Structs(fields) => {
                for _ in 0..self.count()? {
                    self.fields(fields)?;
                }
                Some(())
            }
        }
    }

    /// Null counts as empty everywhere: the decoder decides whether it is allowed.
    fn long_length(&mut self) -> Option<usize> {
        if self.flexible {
            return self.compact();
        }
        let (bytes, rest) = self.rest.split_first_chunk::<4>()?;
        self.rest = rest;
        match i32::from_be_bytes(*bytes) {
            -1 => Some(0),
            n => usize::try_from(n).ok(),
        }
    }

    fn count(&mut self) -> Option<usize> {
        let count = self.long_length()?;
        self.items = self.items.checked_sub(count)?;
        // Each element is at least one byte.
        (count <= self.rest.len()).then_some(count)
    }

    fn short(&mut self) -> Option<usize> {
        let (bytes, rest) = self.rest.split_first_chunk::<2>()?;
        self.rest = rest;
        match i16::from_be_bytes(*bytes) {
            -1 => Some(0),
            n => usize::try_from(n).ok(),
        }
    }

    fn compact(&mut self) -> Option<usize> {
        Some(self.varint()?.saturating_sub(1))
    }

    fn varint(&mut self) -> Option<usize> {
        let mut value = 0_u64;
        for shift in [0, 7, 14, 21, 28] {
            let (&byte, rest) = self.rest.split_first()?;
            self.rest = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return u32::try_from(value).ok()?.try_into().ok();
            }
        }
        None
    }

    fn tags(&mut self) -> Option<()> {
        let count = self.varint()?;
        self.items = self.items.checked_sub(count)?;
        for _ in 0..count {
            self.varint()?;
            let size = self.varint()?;
            self.skip(size)?;
        }
        Some(())
    }

    fn skip(&mut self, bytes: usize) -> Option<()> {
        self.rest = self.rest.split_at_checked(bytes)?.1;
        Some(())
    }
}

/// Skips the tagged fields of a flexible request header.
pub(crate) fn skip_tags(bytes: &[u8]) -> Option<usize> {
    let mut walk = Walk {
        rest: bytes,
        version: 0,
        flexible: true,
        items: 64,
    };
    walk.tags()?;
    Some(bytes.len() - walk.rest.len())
}
