"""How long a keeper takes to know which jobs to look at, on a chain with many past ones. The RPC is a process of its own on this machine.

cold_start_s          from the start, with nothing on disk, until it knows which jobs to look at; cold_start_requests: to the RPC
restart_s             the same with what the first start left on disk
events_per_s          events that a keeper reads and keeps when it catches up with jobs that came and went while it was down
events_per_cpu_s      the same a second of the keeper's own processor time
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from web3 import Web3
from web3.middleware import AttributeDictMiddleware

from benchmarks.network import past_chain
from zoo_compute.chain.connection import Chain
from zoo_compute.chain.event_log import use_store
from zoo_compute.chain.provider import FailoverProvider

OPERATOR = 99  # of none of the past jobs


MISSED_JOBS = 20_000


def measured(folder: Path, jobs: int) -> dict[str, Any]:
    """A first start on a chain with so many past jobs, and the next one; and a start after MISSED_JOBS."""
    with _past_chain(jobs) as url:
        cold_s, asked = _start(url, folder / "cold", to_read=0)
        restart_s, _ = _start(url, folder / "cold", to_read=0)
    missed = min(jobs, MISSED_JOBS)
    with _past_chain(0) as url:
        _start(url, folder / "down", to_read=0)
    cpu = time.process_time()
    with _past_chain(missed) as url:
        missed_s, _ = _start(
            url, folder / "down", to_read=missed - 1
        )  # the first was posted in the block that it had read
    cpu_s = time.process_time() - cpu
    events = missed * past_chain.PER_JOB
    return {
        "past_jobs": jobs,
        "cold_start_s": cold_s,
        "cold_start_requests": asked,
        "restart_s": restart_s,
        "missed_events": events,
        "events_per_s": events / missed_s,
        "events_per_cpu_s": events / cpu_s,
    }


@contextmanager
def _past_chain(jobs: int) -> Iterator[str]:
    """The URL of its RPC."""
    command = [sys.executable, "-m", "benchmarks.network.past_chain", "--jobs", str(jobs)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            yield server.stdout.readline().strip()
        finally:
            server.kill()


def _start(url: str, folder: Path, to_read: int) -> tuple[float, int]:
    """Seconds, and requests."""
    provider = _Counting([url], past_chain.CHAIN_ID)
    began = time.monotonic()
    chain = Chain(past_chain.network(url), Web3(provider, middleware=[AttributeDictMiddleware]))
    store = use_store(chain, folder / "events.sqlite3", OPERATOR)
    assert len(store.jobs_to_read(chain.head())) == to_read
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
