"""How long a new keeper takes to know which jobs to look at, on a chain with many past ones.

events_per_s          events of past jobs that a new keeper reads and keeps, with the RPC in a process of its own on this machine
events_per_cpu_s      the same a second of the keeper's own processor time
cold_start_s          from the start, with nothing on disk, until it knows which jobs to look at
restart_s             the same with what the first start left on disk
cold_start_requests   to the RPC
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from web3 import Web3
from web3.middleware import AttributeDictMiddleware

from benchmarks.network import past_chain
from zoo_compute.chain.connection import Chain
from zoo_compute.chain.event_log import use_store
from zoo_compute.chain.provider import FailoverProvider

OPERATOR = 99  # of none of the past jobs


def measured(folder: Path, jobs: int) -> dict[str, Any]:
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

    def make_batch_request(self, requests: Any) -> Any:
        self.asked += 1
        return super().make_batch_request(requests)
