"""A side's keeper and workers are killed each time it comes to owe a move of a dispute game: the game ends as it must all the same."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from keepers.decisions.requests import verify_request
from keepers.processes.local_network import LocalNetwork, OperatorPlan
from keepers.services.challenging import challenge
from node.compute.programs import Programs
from node.disputes.computation import SlotRound
from node.disputes.defender import Defender
from node.disputes.player import dispute_of, result_in
from node.disputes.trees import Trees
from node.inputs.job_files import fetch_inputs, fetch_manifest
from node.inputs.updates import fetch_results
from node.replay import replay
from tests.support.games.game_board import GameBoard, play
from tests.support.games.hostile_challenger import Hostile
from tests.support.liars.commands import lying_worker
from tests.support.local_jobs import TINY, submit
from zoo_compute.chain.games import GameView, read_games
from zoo_compute.chain.network import load as load_network
from zoo_compute.chain.sender import Sender
from zoo_compute.chain.snapshot import read_job
from zoo_compute.chain.views import ClaimState, JobState, JobView
from zoo_compute.client.dispute_transcript import Transcript
from zoo_compute.errors import Refusal
from zoo_compute.json_codec import decode, encode
from zoo_compute.spec.frames import Frame, Kind, Outcome, Phase, Position, Result, Work
from zoo_compute.spec.params import COIN, ZEN
from zoo_compute.spec.referee import opened_game
from zoo_compute.spec.revert import Refused
from zoo_compute.spec.state import Claim
from zoo_compute.store import BlockStore
from zoo_compute.store.cid import raw_cid

pytestmark = pytest.mark.chaos

PATIENCE_S = 420
# After a side comes to owe a move, in turn: before its keeper has seen it, while it moves, afterwards.
LATER_S = (0.0, 0.5, 1.0)
SERVERS = ("broker", "gateway")  # which are not of a game
# What a side has in all is twice this and more, so that it can start anew for every move.
LIMITS = {"slot_s": 90, "aggregate_s": 90, "reexecute_s": 150, "policy": "roll back"}
TRAINING = TINY["training"] | {"rounds": 1, "slots": 2, "quorum": 1}
CONFIG = TINY | {"training": TRAINING, "limits": LIMITS}
ROUND, SLOT, STEP = 0, 0, 5


@dataclass
class Blows:
    """Kills the keeper and the workers of an operator. fired: where the game stood; owed: of these, where the move was still owed."""

    network: LocalNetwork
    name: str
    fired: list[tuple[Any, ...]] = field(default_factory=list)
    owed: list[tuple[Any, ...]] = field(default_factory=list)

    def strike(self) -> None:
        daemon = self.network.daemons[self.name]
        for child in [child for child in daemon.children if child not in SERVERS]:
            daemon.kill(child, hold=True)
        for child in daemon.children:
            daemon.resume(child)

    def at(self, game: GameView) -> None:
        """Once for every place where it owes a move, as soon as its processes run again."""
        place = _place(game)
        if place in self.fired or not self._is_up():
            return
        time.sleep(LATER_S[len(self.fired) % len(LATER_S)])
        self.strike()
        self.fired.append(place)
        if place == _place(_game(self.network, game.number)):
            self.owed.append(place)

    def _is_up(self) -> bool:
        children = self.network.daemons[self.name].children.values()
        return all(child.running for child in children)

    def check(self) -> None:
        """That it fired all the way down, and now and then in time."""
        assert {place[1] for place in self.fired} >= {Phase.SEGMENTS, Phase.NODES, Phase.ELEMENTS}
        assert len(self.owed) >= len(self.fired) // len(LATER_S) > 0


def _place(game: GameView) -> tuple[Any, ...]:
    """Where a game stands; nowhere once it is over."""
    state = game.state
    return () if state is None else (game.number, state.phase, state.awaits, state.height, state.index, state.is_open)


def _game(network: LocalNetwork, number: int) -> GameView:
    chain = network.devnet.chain
    return next(game for game in read_games(chain, chain.head()) if game.number == number)


def watch(network: LocalNetwork, job: int, done: Callable[[JobView, list[GameView]], Any]) -> JobView:
    """Look until `done` is true of what is there; it may disturb."""
    chain, deadline = network.devnet.chain, time.monotonic() + PATIENCE_S
    while True:
        network.poll()
        view = read_job(chain, job)
        games = read_games(chain, chain.head(), job=job)
        if done(view, games):
            return view
        stand = [_place(game) for game in games]
        assert time.monotonic() < deadline, f"{view.state!r}, games at {stand}; logs in {network.folder}"
        time.sleep(0.2)


def test_a_challenger_that_is_killed_at_every_move__has_the_liar_convicted(tmp_path: Path) -> None:
    plans = (
        OperatorPlan("alpha", price="0.80", worker_command=lying_worker(round=ROUND, slot=SLOT, step=STEP)),
        OperatorPlan("beta", price="0.90"),
        OperatorPlan("delta", roles=("aggregator",), aggregator_price="0.50"),
        OperatorPlan("epsilon", roles=("verifier",), sample_rate=1.0, bonds=100 * ZEN),
    )
    with LocalNetwork(tmp_path, plans) as network:
        moments: list[dict[str, Any]] = []
        blows = Blows(network, "epsilon")

        def disturbed(view: JobView, games: list[GameView]) -> bool:
            disputed = [report for report in network.verification_reports() if report.get("dispute")]
            if disputed and not moments:  # once before it has opened the game, or just afterwards
                moments.extend(disputed)
                blows.strike()
            for game in games:
                if game.state is not None and game.state.is_challengers_turn:
                    blows.at(game)
            is_over = bool(games) and not any(game.is_open for game in games)
            if is_over and view.run is not None and view.run.is_waiting:  # for the window of what was rolled back
                network.devnet.warp_to(max(claim.deadline for claim in view.claims) + 1)
            return is_over and view.state == JobState.ENDED

        view = watch(network, submit(network, CONFIG), disturbed)
        chain = network.devnet.chain
        (game,) = read_games(chain, chain.head())
        print(f"challenger: {len(blows.fired)} blows, {len(blows.owed)} while the move was owed")
        assert moments
        assert game.outcome == Outcome.CONVICTED
        assert Transcript(chain, game).moves[-1].function == "convict", "by evidence, not by silence"
        blows.check()
        convicted = [claim.operator for claim in view.claims if claim.state == ClaimState.CONVICTED]
        assert set(convicted) == {_number(network, "alpha")}
        assert view.checkpoint_roots[1] == _honest(network, view, tmp_path / "store")


def _number(network: LocalNetwork, name: str) -> int:
    return next(number for number, each in network.operators.items() if each == name)


def _store(network: LocalNetwork, folder: Path) -> BlockStore:
    peers = [f"http://127.0.0.1:{daemon.config.gateway_port}" for daemon in network.daemons.values()]
    return BlockStore(folder, [*peers, *load_network(network.network_path).storage])


def _honest(network: LocalNetwork, view: JobView, folder: Path) -> bytes:
    """The checkpoint that honest work gives."""
    store = _store(network, folder)
    return replay(fetch_manifest(store, raw_cid(view.terms.manifest)), store, [0b11]).roots[1]


# --- the other side


class Attack:
    """A challenger without a case: goes anywhere, and shows true openings to the contract at every place it comes to."""

    def __init__(self, network: LocalNetwork, view: JobView, folder: Path) -> None:
        self.chain, self.account = network.devnet.chain, network.devnet.account("hostile", zen=100 * ZEN)
        self.sender = Sender(self.chain, self.account, folder=network.devnet.folder)
        self.claim = view.commits[0]
        request = verify_request(view, self.claim, SLOT, None)
        store = _store(network, folder)
        inputs = fetch_inputs(store, request)
        entries = fetch_results(store, request, request, self.claim.start_root)
        dispute = dispute_of(inputs, SLOT, result_in(list(entries.values()), entries[SLOT]), "end_root")
        assert dispute is not None
        programs = Programs(inputs.programs.graph)
        mine = SlotRound(inputs.manifest, programs, inputs.checkpoint, inputs.examples, ROUND, SLOT)
        self.tried: Counter[int] = Counter()
        trees = Trees(mine)
        self.player = Hostile(trees, random.Random(self._deep(trees, dispute)), self._judge, self.tried)
        self.game = challenge(self.chain, self.sender, view, self.claim, dispute)

    def _deep(self, trees: Trees, dispute: dict[str, Any]) -> int:
        """The first seed with which it goes down to the parts of an element; that is found on paper."""

        def refuse(*asked: Any) -> None:
            raise Refused("evidence: on paper")

        work, result = Work(*decode(dispute["work"])), Result(*decode(dispute["result"]))
        begins = opened_game(1, Claim(*self.claim.fields), Kind.TRAINING, SLOT, work, result)  # type: ignore[arg-type]
        for seed in count():
            hostile = Hostile(trees, random.Random(seed), refuse, Counter())
            if play(GameBoard(begins), Defender(trees), hostile, refuse).game.phase == Phase.PARTS:
                return seed
        raise AssertionError("unreachable")

    def _judge(self, kind: int, frame: Frame, position: Position, data: bytes) -> None:
        call: Any = self.chain.referee.convict
        try:
            self.sender.simulate(call(self.game, self.claim.fields, *decode(encode((frame, kind, data)))))
        except Refusal as refusal:
            if refusal.reason.startswith("evidence: "):
                raise Refused(refusal.reason) from None
            raise

    def move(self, game: GameView) -> bool:
        """Whether it had one."""
        assert game.state is not None
        disputed = self.player.next(game.state, game.revealed)
        if disputed is not None:
            self.sender.send(getattr(self.chain.referee, disputed.name)(self.game, *decode(encode(disputed.args))))
        return disputed is not None


def test_an_honest_operator_that_is_killed_at_every_move__is_never_convicted(tmp_path: Path) -> None:
    plans = (
        OperatorPlan("alpha", price="0.80"),
        OperatorPlan("delta", roles=("aggregator",), aggregator_price="0.50"),
    )
    with LocalNetwork(tmp_path, plans) as network:
        job = submit(network, CONFIG)
        view = watch(network, job, lambda view, games: view.commits and view.state == JobState.ENDED)
        attack, blows = Attack(network, view, tmp_path / "store"), Blows(network, "alpha")
        silent: list[GameView] = []

        def disturbed(view: JobView, games: list[GameView]) -> bool:
            (game,) = games
            if game.state is None:
                return True
            if game.state.is_challengers_turn:
                if silent or not attack.move(game):
                    network.devnet.warp_to(game.state.due + 1)  # it has nothing: its silence ends the game
                    silent.append(game)
                    return False
                game = _game(network, attack.game)  # at once: a keeper answers within a second
            if game.state is not None and not game.state.is_challengers_turn:
                blows.at(game)
            return False

        view = watch(network, job, disturbed)
        print(f"committer: {len(blows.fired)} blows, {len(blows.owed)} while the move was owed; tried {attack.tried}")
        assert _game(network, attack.game).outcome == Outcome.DISMISSED
        assert [claim for claim in view.claims if claim.state == ClaimState.CONVICTED] == []
        blows.check()
        assert attack.tried, "it had something to show"
        chain = network.devnet.chain
        assert chain.zen.balanceOf(attack.account.address) < 100 * ZEN, "its bond is lost"
        assert chain.referee.owed(COIN, attack.account.address) == 0
