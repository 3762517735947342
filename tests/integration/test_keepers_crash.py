"""Both sides' keepers and workers end before, in the middle of and after everything that they do in a dispute: it goes on as without that."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest
from eth_account.signers.local import LocalAccount

from keepers.decisions.requests import train_request, verify_request
from keepers.queue.work_queue import WorkStatus
from keepers.services.disputing import FOLDER, Disputing
from node.disputes import player
from node.disputes.computation import SlotRound
from node.inputs import bundles
from node.tasks import run_shard, run_verification
from tests.support.devnet_driver import DevnetDriver
from tests.support.job_driver import Offer
from tests.support.liars.faults import Lie
from tests.support.local_jobs import TINY, text
from zoo_compute import Client
from zoo_compute.chain.call import Call
from zoo_compute.chain.connection import Chain, connect
from zoo_compute.chain.explorations import DisputeView, read_disputes
from zoo_compute.chain.sender import Receipt, Sender
from zoo_compute.chain.snapshot import read_job
from zoo_compute.chain.views import JobView
from zoo_compute.devnet.devnet import Devnet
from zoo_compute.errors import Refusal
from zoo_compute.spec.clocks import End
from zoo_compute.spec.exploration import Tree
from zoo_compute.spec.params import ZEN
from zoo_compute.store import BlockStore
from zoo_compute.store.cid import digest_of

pytestmark = pytest.mark.integration

LIE = Lie(round=0, slot=0, step=5)
CONFIG = TINY | {
    "training": TINY["training"] | {"rounds": 1, "slots": 1, "quorum": 1},
    "limits": {"slot_s": 600, "aggregate_s": 600, "reexecute_s": 1_000},  # nobody runs out of time here
}
BEFORE = ("asked", "computed", "disk lost", "sending")  # nothing is sent
AFTER = (
    "sent",
    "waiting",
    "twice",
    "by half",
)  # it is, and nobody is told; by half: after the worker was out of memory


class Death(BaseException):
    """The process ends here."""


class DyingSender(Sender):
    """death: at which point it ends; none where it lives."""

    death = ""

    def send(self, call: Call, *, value: int = 0) -> Receipt:
        if call.contract != "Referee":  # an approval, which is made again where it is missing
            return super().send(call, value=value)
        if self.death == "sending":
            raise Death
        receipt = super().send(call, value=value)
        if self.death == "twice":
            with pytest.raises(Refusal):
                super().send(call, value=value)
        if self.death in AFTER:
            raise Death
        return receipt

    def _watch(self, entry: Any, *how_long: float) -> Any:
        if self.death == "waiting" and entry.operation.startswith("Referee"):
            raise Death
        return super()._watch(entry, *how_long)


@dataclass
class Side:
    """One side's keeper and worker, which are built anew for every look at the chain."""

    connect: Callable[[], Chain]
    store: BlockStore
    account: LocalAccount
    folder: Path
    operator: int = 0
    made: Callable[..., SlotRound] = SlotRound
    false: Any = None  # what its verifier reported
    died: Counter[str] = field(default_factory=Counter)
    lasts: Iterator[str] = field(default_factory=lambda: cycle(AFTER))

    def poll_once(self, death: str = "") -> None:
        player._trees.clear()
        chain = self.connect()
        sender = DyingSender(chain, self.account, folder=self.folder)
        sender.death = death
        lane = Disputing(chain, sender, partial(self._ask, death), operator=self.operator, folder=self.folder)
        if self.false is not None:
            lane.challenge(*self.false)
        try:
            lane.poll_once()
        except Death:
            self.died[death] += 1

    def _ask(self, death: str, task: str, name: str, request: dict[str, Any]) -> WorkStatus:
        if death == "asked":
            raise Death
        if death == "by half":
            shutil.rmtree(self.folder / FOLDER, ignore_errors=True)  # so that there is something to compute
            with pytest.raises(MemoryError):
                player.run_dispute(request, self.store, made=self._failing)
        result = player.run_dispute(request, self.store, made=self.made)
        if death == "disk lost":
            shutil.rmtree(self.folder / FOLDER)
        if death in ("computed", "disk lost"):
            raise Death
        return WorkStatus("done", result=json.loads(json.dumps(result)))

    def _failing(self, *args: Any, **options: Any) -> SlotRound:
        """Fails once when a step was made and before that is known."""
        computed, left = self.made(*args, **options), [True]
        advance = computed.advance

        def fail(step: int) -> None:
            advance(step)
            if left and left.pop():
                raise MemoryError

        computed.advance = fail  # type: ignore[method-assign]
        return computed


class Trial:
    """A job on a devnet whose only claim lies, and what a verifier reports of it."""

    def __init__(self, devnet: Devnet, folder: Path) -> None:
        self.devnet, self.chain, self.folder = devnet, devnet.chain, folder
        submitter = devnet.account("submitter", zen=200 * ZEN)
        client = Client(network=devnet.network_file, account=submitter, store=str(folder / "store"))
        path = folder / "job.json"
        path.write_text(json.dumps(CONFIG))
        self.job = client.train(config=path, data=text(folder), max_budget=200, anyway=True).id
        self.store = BlockStore(folder / "store")
        driver = DevnetDriver(devnet)
        self.liar, other = driver.operator("liar", ZEN // 2), driver.operator("other", ZEN * 9 // 10)
        offers = [{party: Offer(party.price)} for party in (self.liar, other)]
        driver.bid_all(self.job, *offers)
        driver.reveal_all(self.job, *offers)
        driver.award_all(self.job)
        driver.ready(self.job, self.liar, estimate_s=60)
        self._commit()
        self.witness = devnet.account("witness", zen=100 * ZEN)
        self.false = self._verified()

    @property
    def view(self) -> JobView:
        return read_job(self.chain, self.job)

    def _commit(self) -> None:
        view = self.view
        report = run_shard(train_request(view, 0), self.store, tamper=LIE)
        results = [bundles.result_of(report)]
        digest = digest_of(self.store.add(bundles.bundle_bytes(self.job, 0, self.liar.id, results)))
        self.liar.send(self.chain.settlement.commit(self.job, 0, 0, bundles.round_root(results), digest))

    def _verified(self) -> tuple[int, Any, list[Any]]:
        view = self.view
        report = run_verification(verify_request(view, view.commits[0], 0, None), self.store)
        return self.job, view.commits[0], [report["dispute"]]

    def sides(self, name: str) -> tuple[Side, Side]:
        """The author and the asker, with folders of their own."""
        folder, connected = self.folder / name, partial(connect, self.devnet.network)
        author = Side(connected, self.store, self.liar.account, folder / "liar", self.liar.id, made=LIE.slot_round)
        asker = Side(connected, self.store, self.witness, folder / "witness", false=self.false)
        for side in (author, asker):
            side.folder.mkdir(parents=True)
        return author, asker

    def dispute(self) -> DisputeView | None:
        chain = connect(self.devnet.network)
        every = read_disputes(chain, chain.head())
        return every[0] if every else None

    def events(self) -> list[str]:
        """What was done, as the chain tells it."""
        dispute = self.dispute()
        return [event.name for event in dispute.events] if dispute else []


@pytest.fixture
def trial(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trial]:
    folder = tmp_path_factory.mktemp("crash")
    with Devnet(folder / "chain") as devnet:
        yield Trial(devnet, folder)


def played(trial: Trial, look: Callable[[Side], None]) -> None:
    """In turns: the author answers where an ask is open, else the asker asks."""
    author, asker = trial.sides(str(look))
    while (dispute := trial.dispute()) is None or dispute.is_open:
        look(author if dispute is not None and dispute.picture.open_asks else asker)
    for side in (author, asker):
        side.poll_once()
        left = side.folder / FOLDER
        assert not left.exists() or list(left.iterdir()) == [], "what the dispute kept is gone when it is over"
    if look != Side.poll_once:
        for side in (author, asker):
            assert all(side.died[death] for death in (*BEFORE, *AFTER)), side.died


@pytest.mark.long
def test_a_dispute_whose_sides_end_at_everything_they_do__goes_as_one_in_which_both_live(trial: Trial) -> None:
    before = trial.devnet.rpc("evm_snapshot", [])
    played(trial, Side.poll_once)
    calm = trial.events()
    assert trial.devnet.rpc("evm_revert", [before])

    def killed(side: Side) -> None:
        made = trial.events()
        for death in BEFORE:
            side.poll_once(death)
            assert trial.events() == made, "nothing was sent"
        side.poll_once(next(side.lasts))
        assert trial.events() != made, "it was sent, though nobody knows"

    played(trial, killed)
    assert trial.events() == calm
    dispute = trial.dispute()
    assert dispute is not None
    assert dispute.end == End.JUDGED
    trees = {node.position.tree for node in dispute.picture.nodes.values()}
    assert trees >= {Tree.SEGMENTS, Tree.STEPS, Tree.NODES, Tree.ELEMENTS}
