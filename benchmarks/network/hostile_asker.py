"""An account without a case that demands data of true claims, and asks about them, wherever the contracts take it."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

from keepers.processes.local_network import LocalOperators
from tests.support.stranger_asks import Stranger
from zoo_compute.chain.network import load as load_network
from zoo_compute.chain.sender import Sender
from zoo_compute.chain.views import AGGREGATOR_SEAT, Checkpoint, Commit, JobView
from zoo_compute.errors import Refusal, ZooError
from zoo_compute.spec.availability import least_deposit
from zoo_compute.spec.params import LANE_DEMANDS, STRANGERS_LANE, ZEN
from zoo_compute.store import BlockStore
from zoo_compute.subprocesses import LOOPBACK

COIN = 1_000 * 10**18  # wei: deposits and what asks prepay
DEPOSIT = 2 * least_deposit(10**9)
TENSORS, GROUPS = 8, 4  # places that demands are about: some are there, others are not
KEPT_JOBS = 4  # newest jobs whose files are kept for asks

Place = tuple[int, int, int]  # job, turn, seat


class HostileAsker:
    """Its account and store. done: how many demands and asks the contracts took, and how many they refused."""

    def __init__(self, network: LocalOperators, name: str, seed: int = 0) -> None:
        self.chain = network.devnet.chain
        account = network.devnet.account(name, coin=COIN, zen=10_000 * ZEN)
        self.address = account.address
        self.sender = Sender(self.chain, account, folder=network.devnet.folder)
        gateways = [f"http://{LOOPBACK}:{daemon.config.gateway_port}" for daemon in network.daemons.values()]
        peers = [*gateways, *load_network(network.devnet.network_file).storage]
        self.store = BlockStore(Path(network.folder) / name / "store", peers)
        self.done: Counter[str] = Counter()
        self._rng = random.Random(seed)
        self._strangers: dict[Place, Stranger] = {}

    def demand(self, view: JobView, claim: Commit | Checkpoint) -> bool:
        """Demand a chunk of a claim's data, unless one is open or all are spent. Whether the contract took it."""
        asked = [d for d in view.demands if d.lane == STRANGERS_LANE and d.claim.fields == claim.fields]
        if len(asked) >= LANE_DEMANDS or any(d.is_open for d in asked):
            return False
        slot = 0 if claim.seat == AGGREGATOR_SEAT else claim.scope >> 16
        place = self._rng.randrange(TENSORS), self._rng.randrange(GROUPS)
        call = self.chain.availability.demand(view.job, claim.fields, STRANGERS_LANE, slot, *place)  # type: ignore[arg-type]
        try:
            self.sender.send(call, value=DEPOSIT)
        except Refusal:
            self.done["refused"] += 1
            return False
        self.done["demands"] += 1
        return True

    def ask(self, view: JobView, commit: Commit) -> bool:
        """Ask about a claim, or go on where an answer leads. Whether the contract took it.

        Raises the store's errors where its files are not served yet.
        """
        stranger = self.prepare(view, commit)
        picture = stranger.picture
        if picture.end is not None or picture.open_asks:
            return False
        try:
            answered = [node for node in picture.nodes.values() if node.is_answered]
            if answered:
                stranger.ask_anything(self._rng.choice(answered), self._rng)
            else:
                stranger.begin()
        except (Refusal, IndexError, KeyError):  # the contract takes no such ask, or nothing is below
            self.done["refused"] += 1
            return False
        self.done["asks"] += 1
        return True

    def prepare(self, view: JobView, commit: Commit) -> Stranger:
        """Whoever asks about a claim, with its files. Raises the store's errors."""
        place = (view.job, commit.turn, commit.seat)
        stranger = self._strangers.get(place)
        if stranger is None:
            stranger = Stranger(self.chain, self.sender, self.store, view, commit, commit.first)
            known = self._strangers | {place: stranger}
            jobs = sorted({job for job, *_ in known})[-KEPT_JOBS:]
            self._strangers = {at: each for at, each in known.items() if at[0] in jobs}
        return stranger

    def pester(self, view: JobView) -> None:
        """A demand of each pending claim, and an ask about the first of the newest results whose files are served."""
        for claim in view.pending:
            self.demand(view, claim)
        for claim in view.pending:
            if isinstance(claim, Commit):
                try:
                    self.ask(view, claim)
                except Refusal:
                    self.done["refused"] += 1
                except ZooError:
                    self.done["unserved"] += 1
                return
