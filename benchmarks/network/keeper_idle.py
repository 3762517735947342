"""What a registered provider's keeper asks of its RPC and its machine while it waits for jobs, at blocks of 12 s and
with production's clocks.

rpc_requests_per_day  HTTP requests, counted for `seconds`
rpc_calls_per_day     the same, each call of a batch counted: hosted RPCs bill these
calls_by_method       the same, by method
idle_core             share of a core that its process takes meanwhile
"""

from __future__ import annotations

import dataclasses
import json
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import requests

from benchmarks.network import production_clocks
from keepers.config import OperatorConfig
from keepers.processes.daemon import commands
from keepers.processes.local_network import LocalOperators, OperatorPlan
from zoo_compute.devnet.devnet import Devnet

BLOCK_S = 12
DAY_S = 86_400
SETTLE_S = 30.0  # from the keeper's first look until it does nothing but wait


def measured(folder: Path, seconds: float) -> dict[str, Any]:
    """A registered provider's keeper, as `zoo node start` runs it, on a chain on which nothing happens."""
    with (
        production_clocks.used(),
        Devnet(folder / "chain", block_time=BLOCK_S) as devnet,
        _relay(devnet.url) as (url, asked),
    ):
        operators = _Operators(folder, (), devnet)
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


class _Operators(LocalOperators):
    """Their keepers have production's clocks too."""

    def command_overrides(self, plan: OperatorPlan, config: OperatorConfig) -> dict[str, list[str]]:
        usual = commands(config)["keeper"]
        return {"keeper": [sys.executable, "-m", production_clocks.MODULE, *usual[usual.index("keeper") :]]}


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
