#!/usr/bin/env bash
# Regenerate everything that is generated and fail when that changed a file. The tests compare each generated file with
# its generator too; this catches a file that no test covers.
set -euo pipefail
cd "$(dirname "$0")/.."
before=$(git status --porcelain; git diff | sha256sum)
BENCH_UPDATE=1 go test -count=1 -run 'Golden|Schema|Reference|Bad' ./runner/... >/dev/null
after=$(git status --porcelain; git diff | sha256sum)
[ "$before" = "$after" ] || { echo "generated files are stale; run 'make golden' and commit:" >&2; git status --short >&2; exit 1; }
echo "generated files are fresh"
