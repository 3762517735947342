"""The run: real keepers, honest jobs beside each other, hostile parties, for `minutes`, until every job that was posted is settled.

soak_minutes, soak_jobs   how long jobs were posted, and how many honest ones were settled
hostile                   what hostile parties did: demands, asks, posts, cancellations, wrong blocks served
reactions under load are in `soak_reactions`; memory and disk: benchmarks/soak/resources.py; what was missed: benchmarks/soak/outcome.py
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.network.hostile_asker import HostileAsker
from benchmarks.network.keeper_reactions import Reactions, summary
from benchmarks.soak import outcome, resources
from benchmarks.soak.hostile import HostileSubmitter, WrongBytesPeer
from benchmarks.soak.outcome import Outcome
from benchmarks.soak.traffic import Traffic
from keepers.processes.local_network import LocalNetwork, OperatorPlan
from zoo_compute.chain.events import scan
from zoo_compute.chain.snapshot import forget_job, read_job, read_operator
from zoo_compute.spec.params import ZEN

COLLATERAL = 20_000 * ZEN  # for so many jobs beside each other
# What lasts for days and takes megabytes in production is over in the warm-up, as all else is quicker on a devnet.
SHORT = {"keep_days": 60 / 86_400, "log_max_mb": 0.03, "log_files": 1}
PLANS = (
    OperatorPlan("alpha", price="0.80", capacity=2, collateral=COLLATERAL, settings=SHORT),
    OperatorPlan(
        "beta",
        roles=("provider", "aggregator"),
        price="0.80",
        aggregator_price="0.50",
        collateral=COLLATERAL,
        settings=SHORT,
    ),
    OperatorPlan("epsilon", roles=("verifier",), sample_rate=0.25, ask_zen=100 * ZEN, settings=SHORT),
)
SAMPLE_S = 10.0
HOSTILE_EVERY = 4  # honest jobs
PESTERED_EVERY = 3  # jobs: their disputes last a minute, which all would wait for
SETTLE_S = 600.0  # for the last jobs, after the last one was posted
LOOK_S = 0.2


@dataclass
class Soak:
    """A run under way."""

    network: LocalNetwork
    traffic: Traffic
    submitter: HostileSubmitter
    asker: HostileAsker
    outcome: Outcome
    samples: list[resources.Sample] = field(default_factory=list)
    seen: int = 0  # the newest block whose events were recorded
    rng: random.Random = field(default_factory=lambda: random.Random(7))

    @property
    def under_way(self) -> list[int]:
        return [job for job in self.traffic.posted if job not in self.outcome.closed]

    def step(self, *, is_posting: bool) -> None:
        """One look: new events; a job where one is missing; now and then a hostile one; questions about one of the honest ones."""
        self.network.poll()
        self.record()
        self.submitter.cancel()
        if is_posting and self.traffic.post(len(self.under_way)) and len(self.traffic.posted) % HOSTILE_EVERY == 0:
            self.submitter.post()
        pestered = [job for job in self.under_way if job % PESTERED_EVERY == 0]
        if pestered:
            job = self.rng.choice(pestered)
            self.asker.pester(read_job(self.network.devnet.chain, job))
        if not self.samples or time.monotonic() - self.samples[-1].at > SAMPLE_S:
            self.samples.append(resources.sample(self.network, time.monotonic()))

    def record(self) -> None:
        """The events of new blocks."""
        chain = self.network.devnet.chain
        head = chain.head().number
        for event in scan(chain, self.seen + 1, head) if head > self.seen else ():
            self.outcome.record(event, chain.zen.address)
            if event.name == "JobClosed":
                forget_job(chain, event.args["job"])
        self.seen = max(self.seen, head)


def measured(folder: Path, minutes: float, beside: int, say: Callable[[str], None] = lambda _: None) -> dict[str, Any]:
    """The report of a run."""
    with LocalNetwork(folder, PLANS) as network:
        chain, honest = network.devnet.chain, dict(network.operators)
        owners = {number: read_operator(chain, number).owner for number in honest}
        money = {account: chain.zen.balanceOf(account) for account in owners.values()}
        began_at = chain.head().number
        peer = WrongBytesPeer(network, "mallory")
        traffic = Traffic(network, beside)
        submitter = HostileSubmitter(network, "trudy", traffic.prepared())
        soak = Soak(network, traffic, submitter, HostileAsker(network, "eve"), Outcome(set(honest)), seen=began_at)
        reactions = Reactions(network)
        with peer.serving():
            reactions.start()
            took_s = _run(soak, minutes, say)
            reactions.stopped.set()
            reactions.join()
        wrong = soak.outcome.wrong_payments(chain, owners, money, soak.seen)
        hostile = soak.asker.done + submitter.done + Counter({f"wrong {k}": n for k, n in peer.served.items()})
        return {
            "soak_minutes": round(took_s / 60, 1),
            "soak_jobs": len([job for job in traffic.posted if job in soak.outcome.closed]),
            **resources.report(soak.samples),
            **outcome.report(soak.outcome, wrong),
            "hostile": dict(sorted(hostile.items())),
            "soak_reactions": summary(reactions.seconds) | {"missed": reactions.missed(time.monotonic())},
        }


def _run(soak: Soak, minutes: float, say: Callable[[str], None]) -> float:
    """For how long jobs were posted, in seconds."""
    began = time.monotonic()
    ends, said = began + 60 * minutes, began
    while time.monotonic() < ends:
        soak.step(is_posting=True)
        if time.monotonic() - said > 60:
            said = time.monotonic()
            say(f"{(said - began) / 60:.0f} min: {len(soak.traffic.posted)} jobs, {len(soak.under_way)} under way")
        time.sleep(LOOK_S)
    took_s = time.monotonic() - began
    last = time.monotonic() + SETTLE_S
    while (is_open := bool(soak.under_way or _bound(soak.network))) and time.monotonic() < last:
        soak.network.poll()
        soak.record()
        time.sleep(1)
    soak.record()
    if is_open:
        raise SystemExit(
            f"jobs {soak.under_way}, locks and payments are not settled after {SETTLE_S:.0f} s; see {soak.network.folder}/*/logs"
        )
    return took_s


def _bound(network: LocalNetwork) -> bool:
    """Whether an operator has a lock, or is owed something that its keeper has not withdrawn."""
    chain = network.devnet.chain
    operators = [read_operator(chain, number) for number in network.operators]
    return any(each.locks or any(each.owed.values()) for each in operators)
