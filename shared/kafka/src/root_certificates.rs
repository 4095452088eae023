//! Where the system keeps the root certificates, for librdkafka.

use std::path::Path;

/// Directories in which OpenSSL finds a certificate by its subject's hash.
const HASHED: [&str; 2] = [
    "/etc/pki/ca-trust/extracted/pem/directory-hash",
    "/etc/ssl/certs",
];
/// Bound: entries that are looked at in one directory.
const MAX_LOOKS: usize = 1_000;

/// What `ssl.ca.location` is set to.
///
/// From a hashed directory OpenSSL reads the one certificate that a broker's chain ends in. A
/// bundle it parses as a whole whenever a client is made, about 150 certificates: more time than
/// all the rest of a function's cold start. Without such a directory librdkafka looks for a bundle
/// itself, because an OpenSSL that is linked in knows no system's places.
pub(crate) fn location() -> &'static str {
    let hashed = HASHED.into_iter().find(|d| is_hashed(Path::new(d)));
    hashed.unwrap_or("probe")
}

fn is_hashed(directory: &Path) -> bool {
    let Ok(entries) = std::fs::read_dir(directory) else {
        return false;
    };
    entries
        .take(MAX_LOOKS)
        .flatten()
        .any(|entry| entry.file_name().to_str().is_some_and(is_hash))
}

/// `<8 hexadecimal digits>.<number>`: the names that `openssl rehash` gives.
fn is_hash(name: &str) -> bool {
    name.split_once('.').is_some_and(|(hash, number)| {
        hash.len() == 8
            && hash.bytes().all(|b| b.is_ascii_hexdigit())
            && number.parse::<u8>().is_ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_of_a_hashed_directory() {
        for name in ["002c0b4f.0", "ffdd40f9.12"] {
            assert!(is_hash(name), "{name}");
        }
        for name in [
            "ca-certificates.crt",
            "002c0b4f",
            "2c0b4f.0",
            "002c0b4g.0",
            "002c0b4f.r0",
        ] {
            assert!(!is_hash(name), "{name}");
        }
        assert!(!is_hashed(Path::new("/nowhere")));
    }
}
