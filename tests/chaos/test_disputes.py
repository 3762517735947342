"""A side's keeper and workers are killed each time it has to act in a dispute: it ends as it must all the same."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from keepers.cli.verify import LIES_EXIT_CODE
from keepers.processes.local_network import LocalNetwork, OperatorPlan
from node.disputes.asker import Disputed
from node.inputs.job_files import fetch_manifest
from node.replay import replay
from tests.support.explorations.sybils import Hostile
from tests.support.liars.commands import lying_worker
from tests.support.local_jobs import TINY, submit
from tests.support.stranger_asks import Stranger
from tests.support.waiting import HANG_S
from zoo_compute.chain.explorations import DisputeView, read_disputes
from zoo_compute.chain.network import load as load_network
from zoo_compute.chain.sender import Sender
from zoo_compute.chain.snapshot import read_job
from zoo_compute.chain.views import ClaimState, JobState, JobView
from zoo_compute.client.dispute_transcript import Transcript
from zoo_compute.client.disputes import list_disputes
from zoo_compute.disputes import evidence
from zoo_compute.disputes.exploration import Opened
from zoo_compute.errors import Refusal
from zoo_compute.spec.clocks import End
from zoo_compute.spec.exploration import Tree
from zoo_compute.spec.frames import EMPTY, Kind
from zoo_compute.spec.params import COIN, ZEN
from zoo_compute.store import BlockStore
from zoo_compute.store.cid import raw_cid

pytestmark = pytest.mark.chaos

PATIENCE_S = 3 * HANG_S
# After a side comes to owe an act, in turn: before its keeper has seen it, while it computes, afterwards.
LATER_S = (0.0, 0.5, 1.0)
SERVERS = ("broker", "gateway")  # which take no part in disputes
# A heavy ask gives a re-execution more, and a claim is asked about in three: a side can start anew for every act.
LIMITS = {"slot_s": 90, "aggregate_s": 90, "reexecute_s": 150, "policy": "roll back"}
TRAINING = TINY["training"] | {"rounds": 1, "slots": 2, "quorum": 1}
CONFIG = TINY | {"training": TRAINING, "limits": LIMITS}
ROUND, SLOT, STEP = 0, 0, 5
ASKS = 14  # of a stranger, which go from the segments to the words of a node
TRIES = 200
LIAR = OperatorPlan("alpha", price="0.80", worker_command=lying_worker(round=ROUND, slot=SLOT, step=STEP))
AGGREGATOR = OperatorPlan("delta", roles=("aggregator",), aggregator_price="0.50")
VERIFIER = OperatorPlan("epsilon", roles=("verifier",), sample_rate=1.0, ask_zen=100 * ZEN)

Point = tuple[Any, ...]


@dataclass
class Blows:
    """Kills the keeper and the workers of an operator. fired: where the dispute was; owed: of these, where it was after the blow still.

    point: where the side has to act, and in which tree; nowhere if it is not its turn.
    """

    network: LocalNetwork
    name: str
    point: Callable[[DisputeView], Point]
    fired: list[Point] = field(default_factory=list)
    owed: list[Point] = field(default_factory=list)

    def strike(self) -> None:
        daemon = self.network.daemons[self.name]
        for child in [child for child in daemon.children if child not in SERVERS]:
            daemon.kill(child, hold=True)
        for child in daemon.children:
            daemon.resume(child)

    def at(self, dispute: DisputeView) -> None:
        """Once for every point, as soon as its processes run again."""
        point = self.point(dispute)
        if not point or point in self.fired or not self._is_up():
            return
        time.sleep(LATER_S[len(self.fired) % len(LATER_S)])
        self.strike()
        self.fired.append(point)
        if point == self.point(dispute_of(self.network, dispute.key)):
            self.owed.append(point)

    def _is_up(self) -> bool:
        return all(child.running for child in self.network.daemons[self.name].children.values())

    def check(self) -> None:
        """That it fired all the way down, and now and then in time."""
        assert {point[0] for point in self.fired} >= {Tree.SEGMENTS, Tree.NODES}
        assert len(self.owed) >= len(self.fired) // len(LATER_S) > 0


def answer_owed(dispute: DisputeView) -> Point:
    for each in dispute.picture.open_asks[:1]:
        return each.position.tree, each.id
    return ()


def ask_owed(dispute: DisputeView) -> Point:
    nodes = list(dispute.picture.nodes.values())
    if not dispute.is_open or not nodes or dispute.picture.open_asks:
        return ()
    is_in_trace = nodes[-1].frame.trace_root != EMPTY
    return Tree.NODES if is_in_trace else Tree.SEGMENTS, len(nodes)


def dispute_of(network: LocalNetwork, key: bytes) -> DisputeView:
    chain = network.devnet.chain
    [dispute] = read_disputes(chain, chain.head(), wanted=lambda each: each.key == key)
    return dispute


def watch(network: LocalNetwork, job: int, done: Callable[[JobView, list[DisputeView]], Any]) -> JobView:
    """Look until `done` is true of what is there; it may disturb."""
    chain, deadline = network.devnet.chain, time.monotonic() + PATIENCE_S
    while True:
        network.poll()
        view = read_job(chain, job)
        disputes = read_disputes(chain, chain.head(), job=job)
        if done(view, disputes):
            return view
        explored = [(each.end, len(each.picture.nodes), len(each.picture.open_asks)) for each in disputes]
        assert time.monotonic() < deadline, f"{view.state!r}, disputes {explored}; logs in {network.folder}"
        time.sleep(0.2)


def is_done_again(network: LocalNetwork, view: JobView, disputes: list[DisputeView]) -> bool:
    """After the conviction; what was rolled back waits for a window."""
    is_over = bool(disputes) and not any(each.is_open for each in disputes)
    if is_over and view.run is not None and view.run.is_waiting:
        network.devnet.warp_to(max(claim.deadline for claim in view.claims) + 1)
    return is_over and view.state == JobState.ENDED


def check_conviction(network: LocalNetwork, view: JobView, folder: Path) -> Transcript:
    """Of the liar alone, by evidence, and the round is done again without the lie."""
    chain = network.devnet.chain
    [dispute] = list_disputes(chain, chain.head(), view.job)
    assert dispute.view.end == End.JUDGED, "by evidence, not by silence"
    convicted = [claim.operator for claim in view.claims if claim.state == ClaimState.CONVICTED]
    assert set(convicted) == {number_of(network, "alpha")}
    store = store_of(network, folder)
    honest = replay(fetch_manifest(store, raw_cid(view.terms.manifest)), store, [0b11]).roots[1]
    assert view.checkpoint_roots[1] == honest
    return Transcript(chain, dispute)


def number_of(network: LocalNetwork, name: str) -> int:
    return next(number for number, each in network.operators.items() if each == name)


def store_of(network: LocalNetwork, folder: Path) -> BlockStore:
    peers = [f"http://127.0.0.1:{daemon.config.gateway_port}" for daemon in network.daemons.values()]
    return BlockStore(folder, [*peers, *load_network(network.network_path).storage])


def test_an_asker_that_is_killed_whenever_it_has_to_ask__has_the_liar_convicted(tmp_path: Path) -> None:
    with LocalNetwork(tmp_path, (LIAR, OperatorPlan("beta", price="0.90"), AGGREGATOR, VERIFIER)) as network:
        moments: list[dict[str, Any]] = []
        blows = Blows(network, "epsilon", ask_owed)

        def disturbed(view: JobView, disputes: list[DisputeView]) -> bool:
            reports = [report for report in network.verification_reports() if report.get("dispute")]
            if reports and not moments:  # once before it has asked, or just afterwards
                moments.extend(reports)
                blows.strike()
            for dispute in disputes:
                blows.at(dispute)
            return is_done_again(network, view, disputes)

        view = watch(network, submit(network, CONFIG), disturbed)
        print(f"asker: {len(blows.fired)} blows, {len(blows.owed)} while it had to ask")
        assert moments
        check_conviction(network, view, tmp_path / "store")
        blows.check()


def test_an_asker_that_is_gone_half_way__is_replaced_by_another_account(tmp_path: Path) -> None:
    with LocalNetwork(tmp_path, (LIAR, OperatorPlan("beta", price="0.90"), AGGREGATOR, VERIFIER)) as network:
        gone: list[int] = []  # how many asks were made by then
        second: list[subprocess.Popen[bytes]] = []

        def disturbed(view: JobView, disputes: list[DisputeView]) -> bool:
            if not gone and any(len(each.picture.nodes) >= 2 for each in disputes):
                daemon = network.daemons["epsilon"]
                for child in list(daemon.children):
                    daemon.kill(child, hold=True)
                gone.append(len(disputes[0].picture.nodes))
                second.append(verifying(network, view.job))
            return is_done_again(network, view, disputes)

        view = watch(network, submit(network, CONFIG), disturbed)
        assert second[0].wait(PATIENCE_S) == LIES_EXIT_CODE
        transcript = check_conviction(network, view, tmp_path / "store")
        accounts = [entry.sender for entry in transcript.entries if entry.function.startswith("ask")]
        assert len(set(accounts)) == 2
        assert len(accounts) > gone[0] >= 2
        assert accounts[0] != accounts[-1] == network.devnet.account("second").address
        [asked] = json.loads((tmp_path / "second" / "report").read_text())["disputes"]
        assert asked["outcome"] == "judged"


def verifying(network: LocalNetwork, job: int) -> subprocess.Popen[bytes]:
    """`zoo verify JOB --challenge` by an account of its own."""
    devnet, home = network.devnet, network.folder / "second"
    devnet.account("second", zen=20 * ZEN)
    home.mkdir()
    options = ["--slot", str(SLOT), "--challenge", "--store", str(home / "store"), "--json"]
    account = ["--account", str(devnet.key_file("second")), "--network", str(network.network_path)]
    command = [sys.executable, "-m", "zoo_compute.cli.main", "verify", str(job), *options, *account]
    environment = {**os.environ, "ZOO_PASSPHRASE_FILE": str(devnet.passphrase_file), "ZOO_HOME": str(home)}
    with (home / "log").open("wb") as log, (home / "report").open("wb") as report:
        return subprocess.Popen(command, stdout=report, stderr=log, env=environment)


# --- the other side


class Attack:
    """A stranger without a case: asks anywhere, and shows true openings as evidence at every place that is answered."""

    def __init__(self, network: LocalNetwork, view: JobView, folder: Path) -> None:
        self.network, self.chain = network, network.devnet.chain
        account = network.devnet.account("hostile", zen=100 * ZEN)
        sender = Sender(self.chain, account, folder=network.devnet.folder)
        store = store_of(network, folder)
        self.stranger = Stranger(self.chain, sender, store, view, view.commits[0], SLOT)
        self.rng = random.Random(1)
        self.accused: set[bytes] = set()
        self.tried: Counter[int] = Counter()
        self.asked = 0

    @property
    def trees(self) -> set[Tree]:
        return {each.position.tree for each in self.stranger.picture.nodes.values() if each.is_answered}

    def act(self) -> None:
        """An ask more, the deepest place first; before that, all evidence about what was answered."""
        stranger = self.stranger
        nodes = list(stranger.picture.nodes.values())
        if not nodes:
            stranger.begin()
            self.asked += 1
            return
        for node in nodes:
            self._accuse(node)
        deepest = sorted(nodes, key=lambda each: (each.position.tree, -each.position.height), reverse=True)
        for number in range(TRIES):
            node = deepest[0] if number < TRIES // 2 else self.rng.choice(nodes)
            try:
                stranger.ask_anything(node, self.rng)
            except Refusal:
                continue
            self.asked += 1
            return
        raise AssertionError("nothing is left to ask for")

    def _accuse(self, node: Opened) -> None:
        if node.id in self.accused or not node.is_answered:
            return
        self.accused.add(node.id)
        stranger = self.stranger
        about = Disputed(stranger.job, stranger.claim, Kind.TRAINING, SLOT, stranger.work, stranger.result)
        board: Any = SimpleNamespace(picture=stranger.picture)
        for place, proof in Hostile(stranger.trees, about, self.rng).attempts(board, node):
            data = evidence.encode(proof)
            call = board.picture.judge(stranger.job, stranger.claim, node, place, proof.KIND, data)
            with pytest.raises(Refusal, match="evidence: "):
                stranger.sender.simulate(self.chain.referee.judge(*call.args))
            self.tried[proof.KIND] += 1


def test_an_honest_operator_that_is_killed_whenever_it_owes_an_answer__is_never_convicted(tmp_path: Path) -> None:
    with LocalNetwork(tmp_path, (OperatorPlan("alpha", price="0.80"), AGGREGATOR)) as network:
        job = submit(network, CONFIG)
        view = watch(network, job, lambda view, _: view.commits and view.state == JobState.ENDED)
        attack = Attack(network, view, tmp_path / "store")
        blows = Blows(network, "alpha", answer_owed)

        def disturbed(view: JobView, disputes: list[DisputeView]) -> bool:
            for dispute in disputes:
                if not dispute.is_open:
                    return True
                blows.at(dispute)
            if any(each.picture.open_asks for each in disputes):
                return False
            if attack.asked < ASKS:
                attack.act()
                for dispute in disputes:  # at once: a keeper answers within a second
                    blows.at(dispute_of(network, dispute.key))
            else:  # it has nothing: the claim becomes final
                clocks, chain = network.devnet.chain.params.clocks, network.devnet.chain
                network.devnet.warp_to(max(disputes[0].deadline, chain.now()) + clocks.asker_s + 1)
            return False

        view = watch(network, job, disturbed)
        print(f"committer: {len(blows.fired)} blows, {len(blows.owed)} while an answer was owed; tried {attack.tried}")
        [dispute] = read_disputes(network.devnet.chain, network.devnet.chain.head(), job=job)
        assert dispute.end == End.FINAL
        assert [claim for claim in view.claims if claim.state == ClaimState.CONVICTED] == []
        assert attack.trees >= {Tree.SEGMENTS, Tree.NODES, Tree.ELEMENTS}
        blows.check()
        assert attack.tried, "it had something to show"
        chain = network.devnet.chain
        hostile = attack.stranger.sender.address
        assert chain.zen.balanceOf(hostile) < 100 * ZEN, "the re-executions that it prepaid are the operator's"
        assert chain.referee.owed(COIN, hostile) == 0
