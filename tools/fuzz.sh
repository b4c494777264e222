#!/usr/bin/env bash
# Builds the fuzz targets with clang and runs each for SECONDS (default 10) from its corpus in fuzz/corpus/.
# Inputs that libFuzzer finds go to build/fuzz/corpus; a crash is kept there and fails the run.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-10}
tools/setup.sh fuzz
cmake --preset asan >/dev/null
cmake --build --preset asan --target fuzzers
status=0
for target in build/asan/bin/*_fuzz; do
  name=$(basename "$target")
  found=build/fuzz/corpus/$name
  mkdir -p "$found"
  seeds=fuzz/corpus/${name%_fuzz}
  [ -d "$seeds" ] || seeds=fuzz/corpus/$name
  dirs=("$found")
  [ -d "$seeds" ] && dirs+=("$seeds")
  log=build/fuzz/$name.log
  if "$target" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -artifact_prefix="build/fuzz/$name-" "${dirs[@]}" >"$log" 2>&1; then
    echo "fuzz: $name ok, $(grep -o 'Done [0-9]* runs' "$log" | tail -1)"
  else
    echo "fuzz: $name FAILED, see $log" >&2
    tail -n 40 "$log" >&2
    status=1
  fi
done
exit $status
