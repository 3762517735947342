"""Measures a keeper. Run by `python benchmarks/keepers.py`.

events_per_s          events of past jobs that a new keeper reads and keeps, with the RPC in a process of its own on this machine
events_per_cpu_s      the same a second of the keeper's own processor time
cold_start_s          from the start, with nothing on disk, until it knows which jobs to look at, of `--jobs` past ones
restart_s             the same with what the first start left on disk
cold_start_requests   to the RPC
rpc_requests_per_day  HTTP requests of a registered provider's keeper that waits for jobs, at blocks of 12 s: counted for `--idle-s`
rpc_calls_per_day     the same, each call of a batch counted: hosted RPCs bill these
idle_core             share of a core that its process takes meanwhile
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import requests
from web3 import Web3
from web3.middleware import AttributeDictMiddleware

from benchmarks.network import past_chain
from keepers.processes.local_network import LocalOperators, OperatorPlan
from zoo_compute.chain.connection import Chain
from zoo_compute.chain.event_log import use_store
from zoo_compute.chain.provider import FailoverProvider
from zoo_compute.devnet.devnet import Devnet

BLOCK_S = 12
DAY_S = 86_400
SETTLE_S = 30.0  # from the keeper's first look until it does nothing but wait
OPERATOR = 99  # of none of the past jobs


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=100_000, help="past jobs on the chain (%(default)s)")
    parser.add_argument(
        "--idle-s", type=float, default=240.0, help="seconds for which requests are counted (%(default)s)"
    )
    parser.add_argument("--only", choices=("start", "idle"), help="one part")
    parser.add_argument("--json", action="store_true", help="one JSON object")
    arguments = parser.parse_args(argv)
    report: dict[str, Any] = {"cores": os.cpu_count(), "load": os.getloadavg()[0]}
    with tempfile.TemporaryDirectory(prefix="zoo-keepers-") as folder:
        if arguments.only != "idle":
            report |= starts(Path(folder), arguments.jobs)
        if arguments.only != "start":
            report |= idle(Path(folder), arguments.idle_s)
    if arguments.json:
        print(json.dumps(report))
    else:
        for name, value in report.items():
            print(f"{name:22} {value:,.4g}" if isinstance(value, float) else f"{name:22} {value:,}")
    return 0


# -- starting


def starts(folder: Path, jobs: int) -> dict[str, Any]:
    """A first start on a chain with so many past jobs, and the next one."""
    command = [sys.executable, "-m", "benchmarks.network.past_chain", "--jobs", str(jobs)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            url = server.stdout.readline().strip()
            cpu = time.process_time()
            cold_s, asked = _start(url, folder)
            cpu_s = time.process_time() - cpu
            restart_s, _ = _start(url, folder)
        finally:
            server.kill()
    events = jobs * past_chain.PER_JOB
    return {
        "past_jobs": jobs,
        "events": events,
        "events_per_s": events / cold_s,
        "events_per_cpu_s": events / cpu_s,
        "cold_start_s": cold_s,
        "cold_start_requests": asked,
        "restart_s": restart_s,
    }


def _start(url: str, folder: Path) -> tuple[float, int]:
    """Seconds, and requests."""
    provider = _Counting([url], past_chain.CHAIN_ID)
    began = time.monotonic()
    chain = Chain(past_chain.network(url), Web3(provider, middleware=[AttributeDictMiddleware]))
    store = use_store(chain, folder / "events.sqlite3", OPERATOR)
    assert store.jobs_to_read(chain.head()) == [], "all of them are over"
    took_s = time.monotonic() - began
    store.close()
    return took_s, provider.asked


class _Counting(FailoverProvider):
    asked = 0

    def make_request(self, method: Any, params: Any) -> Any:
        self.asked += 1
        return super().make_request(method, params)


# -- waiting


def idle(folder: Path, seconds: float) -> dict[str, Any]:
    """A registered provider's keeper, as `zoo node start` runs it, on a chain on which nothing happens."""
    with Devnet(folder / "chain", block_time=BLOCK_S) as devnet, _relay(devnet.url) as (url, asked):
        operators = LocalOperators(folder, (), devnet)
        dataclasses.replace(devnet.network, rpcs=(url,)).save(devnet.network_file)
        try:
            operators.enlist(OperatorPlan("alpha"))
            operators.wait_ready()
            keeper = operators.daemons["alpha"].children["keeper"].process
            assert keeper is not None
            time.sleep(SETTLE_S)
            asked.clear()
            cpu_s, began = _cpu_s(keeper.pid), time.monotonic()
            time.sleep(seconds)
            took_s = time.monotonic() - began
            counted, cpu_s = Counter(asked), _cpu_s(keeper.pid) - cpu_s
        finally:
            operators.stop()
    per_day = DAY_S / took_s
    return {
        "idle_s": took_s,
        "rpc_requests_per_day": round(counted.pop("requests") * per_day),
        "rpc_calls_per_day": round(sum(counted.values()) * per_day),
        "calls_by_method": {method: round(count * per_day) for method, count in counted.most_common()},
        "idle_core": cpu_s / took_s,
    }


def _cpu_s(pid: int) -> float:
    """Of a process with all its threads; Linux."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def _relay(target: str) -> Iterator[tuple[str, Counter[str]]]:
    """An RPC in front of another, which counts requests, and calls by method."""
    asked: Counter[str] = Counter()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            questions = json.loads(body)
            asked["requests"] += 1
            for question in questions if isinstance(questions, list) else [questions]:
                asked[question["method"]] += 1
            answer = requests.post(target, data=body, headers={"Content-Type": "application/json"}, timeout=60)
            self.send_response(answer.status_code)
            self.send_header("Content-Length", str(len(answer.content)))
            self.end_headers()
            self.wfile.write(answer.content)

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        server.server_close()
