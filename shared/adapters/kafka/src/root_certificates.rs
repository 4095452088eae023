//! Path of the system's root certificates, for librdkafka.

use std::path::Path;

/// Directories in which OpenSSL finds a certificate by its subject's hash.
const HASHED: [&str; 2] = [
    "/etc/pki/ca-trust/extracted/pem/directory-hash",
    "/etc/ssl/certs",
];
/// Bound: entries that are checked in one directory.
const MAX_LOOKS: usize = 1_000;

/// The value of `ssl.ca.location`.
///
/// From a hashed directory OpenSSL reads only the certificate that issued a broker's chain. A bundle of about 150
/// certificates it parses completely for each client, which takes longer than the rest of a function's cold start.
/// Without a hashed directory librdkafka looks for a bundle itself, because a statically linked OpenSSL has no system
/// paths.
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
