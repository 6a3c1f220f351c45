"""One load against the calibration stub with aiohttp: the counterpart of `benchctl calibrate-client`.

Every stream is read as most Python load generators do: chunks as they come, cut at blank lines, each event decoded as
JSON. The time is taken when a chunk arrives, before anything is decoded, which is the best this client can do. Prints
the same JSON fields as calibrate-client: the stamp's error against the time of sending in each token, and CPU time.
"""

import argparse
import asyncio
import json
import resource
import time

import aiohttp


async def stream(session, url, body, errors):
    """Send one request and append (arrival - sending) in ns for each of its tokens. Returns the number of chunks read."""
    reads = 0
    rest = b""
    async with session.post(url, data=body, headers={"Content-Type": "application/json"}) as answer:
        answer.raise_for_status()
        async for chunk in answer.content.iter_any():
            now = time.time_ns()
            tokens = 0
            *events, rest = (rest + chunk).split(b"\n\n")
            for event in events:
                data = event.removeprefix(b"data: ")
                if data == b"[DONE]":
                    continue
                choices = json.loads(data)["choices"]
                content = choices[0]["delta"].get("content") if choices else None
                if content:
                    errors.append(now - int(content.rpartition("@")[2]))
                    tokens += 1
            reads += tokens > 0
    return reads


async def measure(args):
    body = json.dumps(
        {
            "model": "stub",
            "stream": True,
            "messages": [{"role": "user", "content": "go"}],
            "max_tokens": args.tokens,
            "stub": {"mode": args.mode, "first_ns": 50_000_000, "interval_ns": round(args.interval_ms * 1e6)},
        }
    ).encode()
    url = args.url + "/v1/chat/completions"
    errors = []
    # No limit on connections: a limit would be a queue.
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), timeout=aiohttp.ClientTimeout(total=600)) as session:
        before, cpu = time.monotonic(), cpu_seconds()
        reads = sum(await asyncio.gather(*(stream(session, url, body, errors) for _ in range(args.streams))))
        wall, cpu = time.monotonic() - before, cpu_seconds() - cpu
    if len(errors) != args.streams * args.tokens:
        raise SystemExit(f"{len(errors)} tokens came, not {args.streams * args.tokens}")
    errors.sort()
    return {
        "mode": args.mode,
        "streams": args.streams,
        "events": len(errors),
        "error_p50_seconds": errors[round(0.50 * (len(errors) - 1))] / 1e9,
        "error_p99_seconds": errors[round(0.99 * (len(errors) - 1))] / 1e9,
        "cpu_seconds_per_event": cpu / len(errors),
        "events_per_read": len(errors) / reads,
        "cores": cpu / wall,
    }


def cpu_seconds():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--url", required=True)
    p.add_argument("--mode", choices=["spread", "step"], default="spread")
    p.add_argument("--streams", type=int, default=256)
    p.add_argument("--tokens", type=int, default=500)
    p.add_argument("--interval-ms", type=float, default=10)
    print(json.dumps(asyncio.run(measure(p.parse_args()))))


if __name__ == "__main__":
    main()
