#!/usr/bin/env bash
# Fetches the public client libraries that the system tests run, unmodified, against `cairn serve`.
#
#   tools/fetch_clients.sh FOLDER      then run the tests with CAIRN_CLIENTS=FOLDER
#
# Fetched for tests, never committed or shipped. A package that is already in FOLDER is not fetched
# again.
set -euo pipefail

if [[ $# -ne 1 ]]; then
  echo "usage: $0 FOLDER" >&2
  exit 2
fi
if ! command -v npm > /dev/null; then
  echo "$0: npm is not installed (Debian package npm); the clients come from its registry" >&2
  exit 1
fi

version=5.23.2
folder=$1
if grep -qs "\"version\": \"$version\"" "$folder/node_modules/openai/package.json"; then
  exit 0
fi

mkdir -p "$folder"
# A package.json of its own keeps npm from walking up and installing beside another project.
if [[ ! -f "$folder/package.json" ]]; then
  echo '{"private": true}' > "$folder/package.json"
fi
if ! npm install --prefix "$folder" --ignore-scripts --no-save --no-package-lock --no-audit \
    --no-fund "openai@$version"; then
  echo "$0: npm could not fetch openai@$version" >&2
  exit 1
fi
