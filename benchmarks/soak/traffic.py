"""Honest jobs: small, each another one, so many beside each other."""

from __future__ import annotations

import time
from contextlib import suppress
from itertools import count
from typing import Any

from keepers.processes.local_network import LocalNetwork
from tests.support.local_jobs import TINY, text
from zoo_compute.client.client import Client
from zoo_compute.errors import Refusal
from zoo_compute.jobs.loading import plan_job
from zoo_compute.jobs.submission import PreparedJob
from zoo_compute.spec.params import ZEN

BUDGET = 200  # ZEN a job
LIMITS = {"slot_s": 60, "aggregate_s": 60, "reexecute_s": 5}


def job(seed: int, limits: dict[str, int] = LIMITS) -> dict[str, Any]:
    """Two rounds of two slots: each operator's claims, a checkpoint, the next turn, the end."""
    training = {"rounds": 2, "slots": 2, "quorum": 1, "inner_steps": 4, "seed": seed}
    return TINY | {
        "training": TINY["training"] | training,
        "limits": limits,
    }


class Traffic:
    """Keeps `beside` jobs under way. posted: their numbers."""

    def __init__(self, network: LocalNetwork, beside: int, limits: dict[str, int] = LIMITS) -> None:
        account = network.devnet.account("submitter", coin=1_000 * 10**18, zen=100_000 * ZEN)
        self._client = Client(network=network.network_path, account=account, store=str(network.submitter_store))
        self._text, self._beside, self._seeds, self._limits = text(network.folder), beside, count(1), limits
        self.posted: list[int] = []
        self._posted_at: dict[int, float] = {}

    def prepared(self) -> PreparedJob:
        """A job's files and terms, which nobody posted yet."""
        return self._client.prepare(plan_job(job(next(self._seeds), self._limits), BUDGET, self._text).job)

    def post(self, under_way: int) -> bool:
        """Post one where fewer than `beside` are under way. Whether it did."""
        if under_way >= self._beside:
            return False
        posted = self._client.train(
            job(next(self._seeds), self._limits), data=self._text, max_budget=BUDGET, anyway=True
        )
        self.posted.append(posted.id)
        self._posted_at[posted.id] = time.monotonic()
        return True

    def give_up(self, after_s: float) -> None:
        """Cancel what nobody serves so long after it was posted: three workers died of it, and that operator leaves it alone."""
        for job, at in list(self._posted_at.items()):
            if time.monotonic() - at > after_s:
                with suppress(Refusal):  # it is served, or over
                    self._client.job(job).cancel()
                del self._posted_at[job]
