#!/usr/bin/env bash
# Runs openai_client.mjs against a server of its own. Usage: openai_client_test.sh CAIRN_PROGRAM
# Exit 77 (skipped) when the client library is not there: see tools/fetch_clients.sh.
set -euo pipefail

program=$1
here=$(cd "$(dirname "$0")" && pwd)
if [[ ! -d "${CAIRN_CLIENTS:-}/node_modules/openai" ]] || ! command -v node > /dev/null; then
  echo "skipped: openai_client wants node, and CAIRN_CLIENTS naming a folder that tools/fetch_clients.sh filled"
  exit 77
fi

work=$(mktemp -d)
server=
finish() {
  if [[ -n "$server" ]]; then
    kill "$server" 2> /dev/null || true
    wait "$server" 2> /dev/null || true
  fi
  rm -rf "$work"
}
trap finish EXIT

(umask 077 && echo "test-key" > "$work/keys")
"$program" serve --model demo --port 0 --store "$work/store" --api-key-file "$work/keys" \
  2> "$work/log" &
server=$!
port=
for _ in $(seq 600); do
  port=$(sed -n 's/.*listening on http:\/\/127\.0\.0\.1:\([0-9]*\).*/\1/p' "$work/log")
  [[ -n "$port" ]] && break
  if ! kill -0 "$server" 2> /dev/null; then break; fi
  sleep 0.1
done
if [[ -z "$port" ]]; then
  echo "the server did not start:" >&2
  cat "$work/log" >&2
  exit 1
fi

if ! node "$here/openai_client.mjs" "$CAIRN_CLIENTS" "http://127.0.0.1:$port/v1" test-key; then
  echo "the server's log:" >&2
  cat "$work/log" >&2
  exit 1
fi
kill -TERM "$server"
status=0
wait "$server" || status=$?
server=
if [[ $status -ne 0 ]]; then
  echo "the server ended with status $status" >&2
  exit 1
fi
