#!/usr/bin/env bash
# Installs the Debian packages that building and testing need. Skips what is there; names what failed.
# Needs root or sudo only when something is missing.
set -euo pipefail

packages=(
  g++ cmake ninja-build pkg-config
  libhwy-dev liburing-dev libxxhash-dev libssl-dev
  nlohmann-json3-dev libboost1.81-dev libpcre2-dev libutf8proc-dev
  libspdlog-dev libfmt-dev libcli11-dev prometheus-cpp-dev libcurl4-openssl-dev ca-certificates
  libgtest-dev libgmock-dev libbenchmark-dev
)
# `tools/setup.sh lint fuzz` adds what those need.
for extra in "$@"; do
  case "$extra" in
    format) packages+=(clang-format-16) ;;
    lint) packages+=(clang-format-16 clang-tidy-16 clang-16) ;;
    fuzz) packages+=(clang-16 libclang-rt-16-dev) ;;
    client) packages+=(nodejs npm) ;;
    *) echo "setup: unknown extra '$extra' (known: format lint fuzz client)" >&2; exit 2 ;;
  esac
done

is_installed() {
  [ "$(dpkg-query -W -f='${db:Status-Abbrev}' "$1" 2>/dev/null | cut -c1-2)" = "ii" ]
}

missing=()
for package in "${packages[@]}"; do
  # A Node.js that came another way (nodesource, nvm) serves as well as Debian's.
  if { [ "$package" = nodejs ] || [ "$package" = npm ]; } && command -v node npm >/dev/null 2>&1; then continue; fi
  is_installed "$package" || missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0

echo "setup: installing ${missing[*]}"
run=()
if [ "$(id -u)" -ne 0 ]; then
  if ! command -v sudo >/dev/null; then
    echo "setup: these packages are missing and need root to install: ${missing[*]}" >&2
    echo "setup: run as root: apt-get install ${missing[*]}" >&2
    exit 1
  fi
  run=(sudo)
fi
export DEBIAN_FRONTEND=noninteractive
"${run[@]}" apt-get update -qq || echo "setup: apt-get update failed; trying with the lists at hand" >&2
if ! "${run[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null; then
  failed=()
  for package in "${missing[@]}"; do is_installed "$package" || failed+=("$package"); done
  echo "setup: could not install: ${failed[*]}" >&2
  exit 1
fi
