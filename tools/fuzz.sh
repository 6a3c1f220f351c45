#!/usr/bin/env bash
# Run every fuzz target of the repository: the parsers of what comes from outside for the given time each (default
# 30s), all others for a short look at their corpus and its neighbours.
#
#   tools/fuzz.sh [TIME [SHORT]]
#
# Minimising is kept short: by default Go spends up to a minute on making one interesting input smaller.
set -euo pipefail
cd "$(dirname "$0")/.."
long=${1:-30s} short=${2:-3s}
outside='runner/(spec|load/sse|measure|engine/vllm|record|host/sample)/'
n=0
while IFS=: read -r file func; do
  time=$short
  [[ $file =~ $outside ]] && [[ ! $func =~ OneLine|FailureReason ]] && time=$long
  printf '%-28s %s for %s\n' "$func" "$(dirname "$file")" "$time"
  log=$(go test -run '^$' -fuzz "^$func\$" -fuzztime "$time" -fuzzminimizetime 10x "./$(dirname "$file")" 2>&1) || { printf '%s\n' "$log" >&2; exit 1; }
  n=$((n + 1))
done < <(git ls-files -co --exclude-standard '*_test.go' | xargs grep -Ho 'func Fuzz[A-Za-z0-9_]*' | sed 's/func //')
[ "$n" -gt 0 ] || { echo "no fuzz target found" >&2; exit 1; }
echo "$n fuzz targets ran"
