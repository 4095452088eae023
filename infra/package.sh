#!/usr/bin/env bash
# Builds the functions' zips for Lambda (provided.al2023): target/packages/<architecture>/<function>.zip,
# each with one binary named bootstrap. Then `infra/measure.sh` prints their size, cold start and
# memory.
#
#   infra/package.sh                 arm64 and x86_64
#   infra/package.sh x86_64          one of them, as does TRIAD_ARCHITECTURES=x86_64
#   TRIAD_TRACES=1 infra/package.sh  functions that can send the spans of traces (docs/reference/traces.md)
#
# Needs cargo, rustup (for the target arm64), python3 with venv, make and perl; PyPI and crates.io
# for the first run. cargo-lambda and zig, the C compiler and linker for the old glibc of Lambda, come
# into .venv-package. TRIAD_PACKAGES=DIR puts the zips elsewhere.
set -euo pipefail
cd -P "$(dirname "$0")"
cd ..

functions=(submission scheduler agent supervisor alerts setup console)
packages="${TRIAD_PACKAGES:-target/packages}"
read -ra architectures <<< "${*:-${TRIAD_ARCHITECTURES:-arm64 x86_64}}"

fail() { echo "package: $*" >&2; exit 2; }
for tool in cargo make perl python3; do
  command -v "$tool" >/dev/null || fail "$tool is missing; install it first"
done

stamp="$(cat infra/package-requirements.txt)"
if [ "$(cat .venv-package/stamp 2>/dev/null || true)" != "$stamp" ]; then
  rm -rf .venv-package
  python3 -m venv .venv-package
  .venv-package/bin/python -m pip install --quiet --disable-pip-version-check -r infra/package-requirements.txt
  printf '%s\n' "$stamp" > .venv-package/stamp
fi
export PATH="$PWD/.venv-package/bin:$PATH"
# The compiler itself, not its Python wrapper, which takes longer to start than most files to compile.
CARGO_ZIGBUILD_ZIG_PATH="$(.venv-package/bin/python -c 'import os, ziglang; print(os.path.join(os.path.dirname(ziglang.__file__), "zig"))')"
export CARGO_ZIGBUILD_ZIG_PATH

for architecture in "${architectures[@]}"; do
  case "$architecture" in
    arm64) target=aarch64-unknown-linux-gnu zig=aarch64-linux-gnu.2.34 platform=linux-aarch64 ;;
    x86_64) target=x86_64-unknown-linux-gnu zig=x86_64-linux-gnu.2.34 platform=linux-x86_64 ;;
    *) fail "$architecture: use arm64 or x86_64" ;;
  esac
  if command -v rustup >/dev/null; then rustup target add "$target" >/dev/null 2>&1 || fail "rustup cannot add the target $target"; fi

  # librdkafka's own configure reads CC, AR and RANLIB and knows nothing of the target; the crate
  # cc, which all other C is built with, takes what cargo-lambda sets for the target, and HOST_CC.
  tools="$PWD/target/lambda-tools/$target"
  mkdir -p "$tools"
  # Asked for its version alone, zig does not know a target with a version of glibc; then configure
  # would go on with this machine's compiler.
  for language in cc c++; do
    printf '#!/bin/sh\ncase "$*" in --version) exec "%s" %s --version ;; esac\nexec "%s" %s -target %s -fno-sanitize=undefined "$@"\n' \
      "$CARGO_ZIGBUILD_ZIG_PATH" "$language" "$CARGO_ZIGBUILD_ZIG_PATH" "$language" "$zig" > "$tools/$language"
  done
  printf '#!/bin/sh\nexec "%s" ar "$@"\n' "$CARGO_ZIGBUILD_ZIG_PATH" > "$tools/ar"
  printf '#!/bin/sh\nexec "%s" ranlib "$@"\n' "$CARGO_ZIGBUILD_ZIG_PATH" > "$tools/ranlib"
  chmod +x "$tools"/*

  # Small rather than fast, and no tables for unwinding in C: no panic passes through it.
  export CC="$tools/cc" CXX="$tools/c++" AR="$tools/ar" RANLIB="$tools/ranlib"
  small="-Oz -ffunction-sections -fdata-sections -fno-asynchronous-unwind-tables -fno-unwind-tables"
  CFLAGS="$small" infra/package-openssl.sh "$platform" "$tools/openssl"
  # Cargo does not see what C is compiled with.
  stamp="$small $(cat "$tools/cc")"
  if [ "$(cat "$tools/stamp" 2>/dev/null || true)" != "$stamp" ]; then
    cargo clean --quiet --profile lambda --target "$target" -p rdkafka-sys -p libz-sys -p ring
    printf '%s\n' "$stamp" > "$tools/stamp"
  fi

  # (librdkafka's makefile links a shared library as well, with a list of symbols of which lld misses
  # some.)
  selection=()
  for function in "${functions[@]}"; do
    # The console's library has the name that its package would have.
    case "$function" in console) selection+=(-p triad-console-function) ;; *) selection+=(-p "triad-$function") ;; esac
  done
  CFLAGS="$small -I$tools/openssl/include" LDFLAGS="-L$tools/openssl/lib -Wl,--undefined-version" \
    HOST_CC=cc HOST_CXX=c++ HOST_AR=ar HOST_CFLAGS="" LIBZ_SYS_STATIC=1 \
    OPENSSL_NO_VENDOR=1 OPENSSL_STATIC=1 OPENSSL_DIR="$tools/openssl" \
    cargo lambda build --locked --profile lambda --target "$target.2.34" --features "kafka-auth${TRIAD_TRACES:+,traces}" \
    --output-format binary --lambda-dir "target/lambda-programs/$architecture" "${selection[@]}"

  mkdir -p "$packages/$architecture"
  printf '%s\n' "${functions[@]}" | xargs -P "$(nproc)" -I{} .venv-package/bin/python infra/zip_function.py \
    "target/lambda-programs/$architecture/triad-{}/bootstrap" "$packages/$architecture/{}.zip"
  echo "package: $packages/$architecture: ${functions[*]}"
done
