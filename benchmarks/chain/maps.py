"""Gas of a map job on the production preset's contracts, read from receipts on anvil.

Two operators compute a slot each, a third one collects (benchmarks/chain/gas.py has the walk). All transactions of a job count, from the
post to the release of the last lock, whoever sends them; an operator's withdrawal of what it earned does not, as it is one for all jobs.
Claims of twelve rounds are paid by one call, as there. The figures are of a second job: it writes where the first one wrote.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any, ClassVar

from benchmarks.chain.gas import PAID_AT_ONCE, PRICE, ROUNDS, Bench
from zoo_compute.devnet.devnet import Devnet
from zoo_compute.spec.params import POLICY_ROLL_BACK

SLOTS = 2
ITEMS = 1_024  # of a round: 16 batches of 32 in each slot


class MapBench(Bench):
    """As jobs of the section `map` are posted: every slot is needed, and a false claim's round is done again."""

    TERMS: ClassVar[dict[str, Any]] = {**Bench.TERMS, "slots": SLOTS, "quorum": SLOTS, "policy": POLICY_ROLL_BACK}

    def walk(self, rounds: int) -> dict[str, int]:
        """One job. gas_map_job: of all its transactions; gas_map_round: of its rounds, on average."""
        before = self.spent
        *operators, aggregator = self.operators.values()
        job = self.auction(operators, aggregator, rounds=rounds, slots=SLOTS)  # `auction` divides these
        opened = self.spent
        for turn in range(rounds):
            self.commit_all(job)
            if turn and turn % PAID_AT_ONCE == 0:
                self.finalise(job)  # which waits for the window of the newest: what is open is committed before
            self.post_checkpoint(job)
        self.finalise(job)
        closed = self.spent
        self.release(job, *operators, aggregator)
        return {"gas_map_job": self.spent - before, "gas_map_round": (closed - opened) // rounds}


def measure(rounds: int = ROUNDS, items: int = ITEMS) -> dict[str, int]:
    """gas_per_map_item: of a job over all its items, rounded up; items: of a round."""
    with (
        tempfile.TemporaryDirectory(prefix="zoo-maps-") as name,
        Devnet(Path(name) / "chain", preset="production", block_time=1) as devnet,
    ):
        bench = MapBench(devnet, Path(name))
        for party in ("slot-0", "slot-1", "collector"):
            bench.operator(party, PRICE // 2)
        bench.walk(rounds)
        walked = bench.walk(rounds)
        return {"gas_per_map_item": -(-walked["gas_map_job"] // (rounds * items)), **walked}
