#!/usr/bin/env bash
# Run every fuzz target of the repository for the given time each.
set -euo pipefail
cd "$(dirname "$0")/.."
time=${1:-30s}
n=0
while IFS=: read -r file func; do
  echo "fuzz $func in $(dirname "$file") for $time"
  go test -run '^$' -fuzz "^$func\$" -fuzztime "$time" "./$(dirname "$file")"
  n=$((n + 1))
done < <(git ls-files -co --exclude-standard '*_test.go' | xargs grep -Ho 'func Fuzz[A-Za-z0-9_]*' | sed 's/func //')
[ "$n" -gt 0 ] || { echo "no fuzz target found" >&2; exit 1; }
echo "$n fuzz targets ran"
