#!/usr/bin/env bash
# Time stamps and CPU of benchctl's client beside an aiohttp client, on the same server and the same load, in turn.
#   tools/compare/run.sh [ROUNDS] [STREAMS] [INTERVAL_MS] [SECONDS]
# aiohttp is installed into AIOHTTP_VENV (default: .cache/aiohttp, which git ignores).
set -euo pipefail
cd "$(dirname "$0")/../.."
rounds=${1:-3} streams=${2:-256} interval=${3:-10} seconds=${4:-5}
tokens=$((seconds * 1000 / interval))
bench=${BENCHCTL:-bin/benchctl}
venv=${AIOHTTP_VENV:-.cache/aiohttp}

[ -x "$bench" ] || { echo "$bench is missing: make build" >&2; exit 1; }
if ! "$venv/bin/python" -c 'import aiohttp' 2>/dev/null; then
  command -v python3 >/dev/null || { echo "python3 is missing: the aiohttp client needs it" >&2; exit 1; }
  echo "installing aiohttp into $venv" >&2
  python3 -m venv "$venv"
  "$venv/bin/pip" install --quiet "aiohttp==3.14.5"
fi

# The server ends with its standard input, so that nothing is left when this script ends in any way.
coproc STUB { exec "$bench" calibrate-stub; }
read -r url <&"${STUB[0]}"

row() { # client, JSON on standard input
  "$venv/bin/python" -c '
import json, sys
m = json.load(sys.stdin)
print("%-10s %-7s %9.3f %9.3f %9.1f %12.2f" % (sys.argv[1], m["mode"], m["error_p50_seconds"] * 1e3, m["error_p99_seconds"] * 1e3, m["cpu_seconds_per_event"] * 1e6, m["events_per_read"]))' "$1"
}

echo "$streams streams × $interval ms, $seconds s a run; load average before: $(cut -d' ' -f1-3 /proc/loadavg 2>/dev/null || echo unknown)"
printf '%-10s %-7s %9s %9s %9s %12s\n' client mode "p50 ms" "p99 ms" "µs/event" "events/read"
for mode in spread step; do
  for _ in $(seq "$rounds"); do
    "$bench" calibrate-client -url "$url" -mode "$mode" -streams "$streams" -tokens "$tokens" -interval "${interval}ms" | row benchctl
    "$venv/bin/python" tools/compare/aiohttp_client.py --url "$url" --mode "$mode" --streams "$streams" --tokens "$tokens" --interval-ms "$interval" | row aiohttp
  done
done
echo "load average after: $(cut -d' ' -f1-3 /proc/loadavg 2>/dev/null || echo unknown)"
