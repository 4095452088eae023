#!/usr/bin/env bash
# Builds the OpenSSL that librdkafka has in the functions: what a Kafka client needs of it, as two
# static libraries. Called by infra/package.sh with CC, AR, RANLIB and CFLAGS of the target.
#
#   infra/package-openssl.sh linux-x86_64|linux-aarch64 DIR
#
# The sources are those of the crate openssl-src at the version in Cargo.lock. Left out is what no
# Kafka client uses: other protocols (DTLS, QUIC, TLS before 1.2, SRP, PSK), formats (CMS, CMP, TS,
# OCSP), ciphers and hashes without a TLS suite, engines and modules. It is half of the library.
set -euo pipefail
cd -P "$(dirname "$0")/.."
platform="${1:?package-openssl.sh PLATFORM DIR}"
out="${2:?package-openssl.sh PLATFORM DIR}"

without=(
  shared module legacy dso engine async tests apps docs comp zlib ui-console
  ssl3 tls1 tls1_1 dtls quic srp srtp sctp psk nextprotoneg weak-ssl-ciphers ssl-trace multiblock
  ct cms cmp ts ocsp http rfc3779 gost
  aria bf blake2 camellia cast idea md4 mdc2 rc2 rc4 rmd160 scrypt seed siphash siv sm2 sm3 sm4 whirlpool
  dsa ml-dsa slh-dsa lms argon2 ec2m
)

crate="$(cargo metadata --locked --all-features --format-version 1 | python3 -c '
import json, os, sys
found = [p for p in json.load(sys.stdin)["packages"] if p["name"] == "openssl-src"]
print(found[0]["version"], os.path.dirname(found[0]["manifest_path"]))
')"
version="${crate%% *}" source="${crate#* }/openssl"

stamp="$version $platform $CC $CFLAGS ${without[*]}"
if [ "$(cat "$out/stamp" 2>/dev/null || true)" = "$stamp" ]; then exit 0; fi
echo "package: OpenSSL $version for $platform, a minute or two"
rm -rf "$out"
mkdir -p "$out/build"
(
  cd "$out/build"
  perl "$source/Configure" "$platform" --prefix="$out" --libdir=lib --openssldir=/etc/pki/tls "${without[@]/#/no-}" \
    > build.log 2>&1 && make -j"$(nproc)" build_libs >> build.log 2>&1 && make install_dev >> build.log 2>&1
) || { tail -20 "$out/build/build.log" >&2; exit 1; }
rm -rf "$out/build"
printf '%s\n' "$stamp" > "$out/stamp"
