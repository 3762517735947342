"""Both sides' keepers and workers end before, in the middle of and after every move of a game on a devnet: it goes on as without that."""

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
from keepers.services.challenging import challenge
from keepers.services.disputing import FOLDER, DisputePlayer
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
from zoo_compute.chain.games import GameView, read_games
from zoo_compute.chain.sender import Receipt, Sender
from zoo_compute.chain.snapshot import read_job
from zoo_compute.chain.views import JobView
from zoo_compute.client.dispute_transcript import Transcript
from zoo_compute.devnet.devnet import Devnet
from zoo_compute.errors import Refusal
from zoo_compute.spec.frames import Outcome, Phase
from zoo_compute.spec.params import ZEN
from zoo_compute.store import BlockStore
from zoo_compute.store.cid import digest_of

pytestmark = pytest.mark.integration

LIE = Lie(round=0, slot=0, step=5)
CONFIG = TINY | {
    "training": TINY["training"] | {"rounds": 1, "slots": 1, "quorum": 1},
    "limits": {"slot_s": 600, "aggregate_s": 600, "reexecute_s": 1_000},  # nobody runs out of time here
}
BEFORE = ("asked", "computed", "disk lost", "sending")  # the move is not made
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
        if self.death == "sending":
            raise Death
        receipt = super().send(call, value=value)
        if self.death == "twice":
            with pytest.raises(Refusal):
                super().send(call, value=value)
        if self.death in AFTER:
            raise Death
        return receipt

    def _watch(self, entry: Any) -> Any:
        if self.death == "waiting":
            raise Death
        return super()._watch(entry)


@dataclass
class Side:
    """One side's keeper and worker, which are built anew for every look at the chain."""

    connect: Callable[[], Chain]
    store: BlockStore
    account: LocalAccount
    folder: Path
    operator: int = 0
    made: Callable[..., SlotRound] = SlotRound
    died: Counter[str] = field(default_factory=Counter)
    lasts: Iterator[str] = field(default_factory=lambda: cycle(AFTER))

    def poll_once(self, death: str = "") -> None:
        player._trees.clear()
        chain = self.connect()
        sender = DyingSender(chain, self.account, folder=self.folder)
        sender.death = death
        lane = DisputePlayer(chain, sender, partial(self._ask, death), operator=self.operator, folder=self.folder)
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
                player.run_move(request, self.store, made=self._failing)
        result = player.run_move(request, self.store, made=self.made)
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
    """A job on a devnet whose only claim lies, and a game about it that was just opened."""

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
        offers = [{party: Offer(party.price, standby=True)} for party in (self.liar, other)]
        driver.bid_all(self.job, *offers)
        driver.reveal_all(self.job, *offers)
        driver.award_all(self.job)
        driver.ready(self.job, self.liar, estimate_s=60)
        self._commit()
        self.witness = devnet.account("witness", zen=100 * ZEN)
        self._challenge()

    @property
    def view(self) -> JobView:
        return read_job(self.chain, self.job)

    def _commit(self) -> None:
        view = self.view
        report = run_shard(train_request(view, 0), self.store, tamper=LIE)
        results = [bundles.result_of(report)]
        digest = digest_of(self.store.add(bundles.bundle_bytes(self.job, 0, self.liar.id, results)))
        self.liar.send(self.chain.settlement.commit(self.job, 0, 0, bundles.round_root(results), digest))

    def _challenge(self) -> None:
        view = self.view
        verified = run_verification(verify_request(view, view.commits[0], 0, None), self.store)
        sender = Sender(self.chain, self.witness, folder=self.folder)
        self.game = challenge(self.chain, sender, view, view.commits[0], verified["dispute"])

    def sides(self, name: str) -> tuple[Side, Side]:
        """The committer and the challenger, with folders of their own."""
        folder, connected = self.folder / name, partial(connect, self.devnet.network)
        committer = Side(connected, self.store, self.liar.account, folder / "liar", self.liar.id, made=LIE.slot_round)
        challenger = Side(connected, self.store, self.witness, folder / "witness")
        for side in (committer, challenger):
            side.folder.mkdir(parents=True)
        return committer, challenger

    def stands(self) -> GameView:
        chain = connect(self.devnet.network)
        return next(game for game in read_games(chain, chain.head()) if game.number == self.game)

    def moves(self) -> list[Any]:
        """What was done in the game, as the chain tells it."""
        chain = connect(self.devnet.network)
        return [(move.function, move.by) for move in Transcript(chain, self.stands()).moves]


@pytest.fixture
def trial(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trial]:
    folder = tmp_path_factory.mktemp("crash")
    with Devnet(folder / "chain") as devnet:
        yield Trial(devnet, folder)


@pytest.mark.long
def test_a_game_whose_sides_end_at_every_move__goes_as_one_in_which_both_live(trial: Trial) -> None:
    before = trial.devnet.rpc("evm_snapshot", [])
    committer, challenger = trial.sides("calm")
    while (game := trial.stands()).state is not None:
        (challenger if game.state.is_challengers_turn else committer).poll_once()
    calm = trial.moves()
    assert trial.devnet.rpc("evm_revert", [before])

    committer, challenger = trial.sides("killed")
    phases = set()
    while (game := trial.stands()).state is not None:
        side = challenger if game.state.is_challengers_turn else committer
        phases.add(game.state.phase)
        for death in BEFORE:
            side.poll_once(death)
            assert trial.stands().state == game.state, "no move was made"
        side.poll_once(next(side.lasts))
        assert trial.stands().state != game.state, "it was made, though nobody was told"
    assert trial.moves() == calm
    assert game.outcome == Outcome.CONVICTED
    assert phases >= {Phase.SEGMENTS, Phase.STEPS, Phase.NODES, Phase.ELEMENTS}
    for side in (committer, challenger):
        assert {side.died[death] for death in BEFORE} == {side.died["asked"]}
        assert all(side.died[death] for death in (*BEFORE, *AFTER))
        side.poll_once()
        assert list((side.folder / FOLDER).iterdir()) == [], "what the game kept is gone when it is over"
