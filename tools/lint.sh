#!/usr/bin/env bash
# Format and tidy checks, as errors. `tools/lint.sh format` checks the format only (fast).
set -euo pipefail
cd "$(dirname "$0")/.."
tools/setup.sh "${1:-lint}"
mapfile -t files < <(git ls-files '*.h' '*.cc')
clang-format-16 --dry-run --Werror "${files[@]}"
[ "${1:-}" = format ] && exit 0
[ -f build/clang/build.ninja ] || cmake --preset clang >/dev/null
mapfile -t sources < <(git ls-files 'src/*.cc')
printf '%s\n' "${sources[@]}" | xargs -P "$(nproc)" -n 4 clang-tidy-16 -p build/clang --quiet
