"""Fills an index through the function that reads the chain's events, serves it, and measures every page and answer over HTTP.

Disputes are copies of one that was played against the contract: a lie about one part of a dot's element, followed to its conviction.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import requests
from eth_utils.crypto import keccak

from benchmarks.network.played_dispute import Played, played_dispute
from tests.support import chain_events as made
from tests.support.browser import Watched, browsing, chromium_path, served
from zoo_compute.chain.events import Event
from zoo_compute.dashboard.index import Block, Index
from zoo_compute.dashboard.reading import Network, Reader
from zoo_compute.spec.frames import claim_hash
from zoo_compute.spec.state import Claim

RUNNING = 20  # one job in so many is not over
DISPUTED = 20  # in one job of so many, the first result is disputed
SEED = 7
PATHS = {
    "network": "/", "jobs": "/jobs", "jobs running": "/jobs?state=running", "job": "/jobs/{job}", "operators": "/operators",
    "operator": "/operators/{operator}", "disputes": "/disputes", "dispute": "/disputes/{dispute}", "api network": "/api/network", "api jobs": "/api/jobs?before={job}",
    "api job": "/api/jobs/{job}", "api operators": "/api/operators?after={operator}", "api operator": "/api/operators/{operator}",
    "api disputes": "/api/disputes", "api dispute": "/api/disputes/{dispute}", "api schema": "/api/schema.json",
}  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--operators", type=int, default=1_000)
    parser.add_argument("--requests", type=int, default=100, help="of each page, each about another job and operator")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        index = Index(Path(folder) / "index.sqlite", "benchmark")
        events, seconds = fill(index, args.jobs, args.operators)
        reader = Reader(index, Network("benchmark", 1, "devnet"))
        with served(reader) as address:
            times = {name: _measure(address, path, args) for name, path in PATHS.items()}
            paint = _first_paint(address) if chromium_path() else None
        size = sum(each.stat().st_size for each in Path(folder).iterdir())
    result = {
        "jobs": args.jobs, "operators": args.operators, "events": events, "fill_s": round(seconds, 1), "events_per_s": round(events / seconds),
        "index_mb": round(size / 1e6, 1), "requests_each": args.requests, "load_average": round(os.getloadavg()[0], 1),
        "ms": times, "first_paint_ms": paint,
    }  # fmt: skip
    print(json.dumps(result, indent=1) if args.json else _table(result))
    return 0


def fill(index: Index, jobs: int, operators: int) -> tuple[int, float]:
    """The events of so many, and the seconds that it took to apply them."""
    chain, rng, count, spent = made.Chain(), random.Random(SEED), 0, 0.0
    index.keep("INSERT INTO tokens VALUES (?,?,?)", (made.TOKEN, "ZEN", 18))

    def append(events: Iterator[Event]) -> None:
        nonlocal count, spent
        taken = list(events)
        began = time.perf_counter()
        index.append(taken, chain.times, Block(chain.block, made.hash_of(chain.block), chain.at), may_be_undone=False)
        spent += time.perf_counter() - began
        count += len(taken)
        chain.times.clear()
        chain.mine()

    dispute = played_dispute()
    append(event for number in range(1, operators + 1) for event in made.registered(chain, number))
    for first in range(1, jobs + 1, 50):
        append(
            event
            for job in range(first, min(first + 50, jobs + 1))
            for event in _job(chain, rng, job, operators, dispute if job % DISPUTED == 1 else ())
        )
    return count, spent


def _job(chain: made.Chain, rng: random.Random, job: int, operators: int, dispute: Sequence[Played]) -> Iterator[Event]:
    """Most are over, with 2 to 6 slots and 2 to 4 rounds; four have 64 slots and 40 rounds, as large as a page draws."""
    slots, rounds = (64, 40) if job % 2_500 == 0 else (rng.randint(2, 6), rng.randint(2, 4))
    chosen = rng.sample(range(1, operators + 1), min(slots, operators - 1))
    until = rounds - 1 if job % RUNNING == 0 else None
    yield from made.whole_job(chain, job, chosen, rng.randint(1, operators), rounds=rounds, until=until)
    if dispute:
        yield chain.emit("DisputeOpened", job=job, turn=0, seat=0)
        yield from _copied(chain, job, made.claim(chosen[0], 0, 0, 0), dispute)


def _copied(chain: made.Chain, job: int, claim: dict[str, Any], dispute: Sequence[Played]) -> Iterator[Event]:
    """The dispute's events about this claim of this job, with identifiers of its own. Its clocks are in them, so each keeps its time."""
    key = dispute[0].args["claim"]
    known = {played.args["id"] for played in dispute if "id" in played.args} | {key}
    fresh = {each: keccak(each + job.to_bytes(8, "big")) for each in known}
    own = {"job": job, "claim_hash": claim_hash(Claim(*claim.values()))}
    now = chain.at
    for played in dispute:
        chain.mine()
        chain.at = played.at
        args = {
            name: fresh.get(value, value) if isinstance(value, bytes) else value for name, value in played.args.items()
        }
        yield chain.emit(played.name, "referee", **args | {name: own[name] for name in own.keys() & args.keys()})
    chain.mine()
    chain.at = now


def _measure(address: str, path: str, args: argparse.Namespace) -> dict[str, float]:
    """Milliseconds of requests one after the other, each for another job and operator, the largest jobs among them.

    cpu_p95: of processor time, the client's included, which says more than the clock on a machine that does other things too.
    """
    rng, times, cpu = random.Random(SEED), [], []
    with requests.Session() as session:
        for number in range(args.requests + 1):
            job = args.jobs if number % 10 == 0 else rng.randint(1, args.jobs)
            disputed = job - (job - 1) % DISPUTED
            url = address + path.format(job=job, operator=rng.randint(1, args.operators), dispute=f"{disputed}:0:0")
            began, used = time.perf_counter(), time.process_time()
            session.get(url, timeout=60).raise_for_status()
            times.append(1000 * (time.perf_counter() - began))
            cpu.append(1000 * (time.process_time() - used))
    ordered, at = sorted(times[1:]), int(0.95 * args.requests)  # the first loads templates
    return {
        "p50": round(median(ordered), 1),
        "p95": round(ordered[at], 1),
        "most": round(ordered[-1], 1),
        "cpu_p95": round(sorted(cpu[1:])[at], 1),
    }


def _first_paint(address: str) -> dict[str, float]:
    """First contentful paint of the network's page and of the largest job's, the median of five new browser contexts."""
    script = "new Promise(r => new PerformanceObserver(l => r(l.getEntriesByName('first-contentful-paint')[0].startTime)).observe({type: 'paint', buffered: true}))"
    newest = requests.get(f"{address}/api/jobs?limit=1", timeout=60).json()["jobs"][0]["job"]
    dispute = requests.get(f"{address}/api/disputes", timeout=60).json()["disputes"][0]["name"]
    medians: dict[str, float] = {}
    with browsing() as browser:
        pages = {
            "network": "/",
            "job": f"/jobs/{newest}",
            "operator": "/operators/1",
            "dispute": f"/disputes/{dispute}",
        }
        for name, path in pages.items():
            times = []
            for _ in range(5):
                watched = Watched(browser, address)
                times.append(watched.open(path).evaluate(script))
                watched.page.context.close()
            medians[name] = round(median(times))
    return medians


def _table(result: dict[str, Any]) -> str:
    lines = [
        f"{result['jobs']} jobs, {result['operators']} operators, {result['events']} events ({result['events_per_s']}/s)"
    ]
    lines += [f"{'':16}      p50      p95     most  cpu p95, ms"] + [f"{name:16} {each['p50']:>8} {each['p95']:>8} {each['most']:>8} {each['cpu_p95']:>8}" for name, each in result["ms"].items()]  # fmt: skip
    return "\n".join([*lines, f"first paint, ms: {result['first_paint_ms']}"])
