"""Lanes of several accounts on one claim: silence convicts, an asker is replaced half way, a stranger answers for a true claim."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from keepers.decisions.requests import verify_request
from keepers.queue.work_queue import WorkStatus
from keepers.services.dispute_work import Ask
from keepers.services.disputing import Disputing
from node.disputes.player import result_in
from node.inputs import bundles
from tests.support.disputed_job import FEE, Dispute
from tests.support.trained_claims import LIE, SLOT, Trained, computed
from zoo_compute.chain.explorations import DisputeView, read_disputes
from zoo_compute.chain.sender import Sender
from zoo_compute.chain.snapshot import read_job
from zoo_compute.chain.views import ClaimState
from zoo_compute.devnet.devnet import Devnet
from zoo_compute.disputes.exploration import values
from zoo_compute.disputes.roles import AUTHORS
from zoo_compute.errors import UserError
from zoo_compute.spec.clocks import End
from zoo_compute.spec.frames import Kind, Result, Work
from zoo_compute.spec.params import COIN, ZEN
from zoo_compute.training.work_root import work_of

pytestmark = pytest.mark.integration

LOOKS = 100


class Scene:
    """A job whose first claim is false, or true; lanes of its author, of its third operator and of strangers."""

    def __init__(self, devnet: Devnet, folder: Path, lie: Kind | None) -> None:
        self.devnet, self.chain, self.folder = devnet, devnet.chain, folder
        self.work = Trained(folder / "work", lie)
        self.dispute = Dispute(devnet, self.work)
        self.author = self.dispute.parties[0]

    def lane(self, sender: Sender, name: str, ask: Ask | None = None, **options: Any) -> Disputing:
        options = {"operator": 0, "folder": self.folder / name, **options}
        return Disputing(self.chain, sender, ask or self.honest, **options)

    def honest(self, task: str, name: str, request: dict[str, Any], **options: Any) -> WorkStatus:
        return computed(self.work.store, task, request, **options)

    def authors(self, **options: Any) -> Disputing:
        return self.lane(self.author.sender, "author", partial(self.honest, **options), operator=self.author.id)

    def stranger(self, name: str) -> Sender:
        account = self.devnet.account(name, zen=100 * ZEN)
        return Sender(self.chain, account, folder=self.devnet.folder)

    @property
    def places(self) -> list[dict[str, Any]]:
        request = verify_request(read_job(self.chain, self.dispute.job), self.dispute.claim(0), SLOT, None)  # type: ignore[arg-type]
        report = self.honest("work.verify", "it", request).result
        assert report is not None
        return [report["dispute"]]

    @property
    def result(self) -> Result:
        entry = bundles.result_of(self.work.job.reports[SLOT])
        return result_in([entry], entry)

    @property
    def specified(self) -> Work:
        return work_of(self.work.job.manifest, self.work.job.programs.graph)

    @property
    def view(self) -> DisputeView:
        return read_disputes(self.chain, self.chain.head())[-1]

    def play(self, *lanes: Disputing, until: Callable[[], bool]) -> None:
        for _ in range(LOOKS):
            for lane in lanes:
                lane.poll_once()
            if until():
                return
            time.sleep(0.2)
        raise AssertionError(f"no end: {[(node.position, node.status) for node in self.view.picture.nodes.values()]}")

    def asked_by(self, sender: Sender) -> int:
        nodes = self.view.picture.nodes.values()
        return sum(node.record.payment.asker == sender.address.lower() for node in nodes)


def test_a_silent_author__is_convicted_in_the_second_after_its_clock(devnet: Devnet, tmp_path: Path):
    scene = Scene(devnet, tmp_path, Kind.TRAINING)
    stranger, claim = scene.stranger("stranger"), scene.dispute.claim(0)
    lane, coin = scene.lane(stranger, "stranger"), scene.chain.coin(stranger.address)
    lane.challenge(scene.dispute.job, claim, scene.places)
    lane.poll_once()
    lane.poll_once()
    assert scene.asked_by(stranger) == 1, "it is the author's turn"
    [node] = scene.view.picture.open_asks
    devnet.warp_to(node.due - 5)
    lane.poll_once()
    assert scene.view.is_open
    devnet.warp_to(node.due + 1)
    lane.poll_once()
    assert scene.view.end == End.SILENT
    assert scene.dispute.claim(0).state == ClaimState.CONVICTED
    assert lane.poll_once() == []
    assert scene.chain.referee.owed(COIN, stranger.address) == 0
    assert scene.chain.coin(stranger.address) > coin - 10**16, "what it prepaid came back"
    with pytest.raises(UserError, match="cannot be disputed any more"):
        lane.challenge(scene.dispute.job, scene.dispute.claim(0), scene.places)


def test_asks_that_their_asker_leaves_behind__are_expired_by_a_keeper_with_a_seat(devnet: Devnet, tmp_path: Path):
    scene = Scene(devnet, tmp_path, Kind.TRAINING)
    asker, keeper = scene.lane(scene.stranger("stranger"), "stranger"), scene.dispute.parties[1]
    asker.challenge(scene.dispute.job, scene.dispute.claim(0), scene.places)
    asker.poll_once()
    lane = scene.lane(keeper.sender, "keeper", operator=keeper.id)
    [node] = scene.view.picture.open_asks
    devnet.warp_to(node.due + scene.chain.params.clocks.exclusive_s)
    assert lane.poll_once() == []
    assert scene.view.is_open, "those who take part in it come first"
    devnet.warp_to(node.due + 4 * scene.chain.params.clocks.exclusive_s)
    assert lane.poll_once() == []
    assert scene.view.end == End.SILENT
    assert scene.dispute.claim(0).state == ClaimState.CONVICTED
    assert lane.trouble == []


def test_an_asker_that_leaves_half_way__is_replaced_by_another_account(devnet: Devnet, tmp_path: Path):
    scene = Scene(devnet, tmp_path, Kind.TRAINING)
    first, second = scene.stranger("first"), scene.stranger("second")
    lanes = {name: scene.lane(sender, name) for name, sender in (("first", first), ("second", second))}
    author = scene.authors(made=LIE.slot_round)
    claim, places = scene.dispute.claim(0), scene.places
    lanes["first"].challenge(scene.dispute.job, claim, places)
    scene.play(lanes["first"], author, until=lambda: scene.asked_by(first) == 3 and not scene.view.picture.open_asks)
    lanes["second"].challenge(scene.dispute.job, claim, places)
    scene.play(lanes["second"], author, until=lambda: not scene.view.is_open)
    assert scene.view.end == End.JUDGED
    assert scene.asked_by(first) == 3
    assert 0 < scene.asked_by(second) <= 5
    for name, sender in (("first", first), ("second", second)):
        lanes[name].poll_once()
        assert scene.chain.zen.balanceOf(sender.address) == 100 * ZEN, "what each prepaid came back"


def test_an_asker_that_is_restarted__goes_on_without_a_report(devnet: Devnet, tmp_path: Path):
    scene = Scene(devnet, tmp_path, Kind.TRAINING)
    asker, author = scene.stranger("asker"), scene.authors(made=LIE.slot_round)
    lane = scene.lane(asker, "before")
    lane.challenge(scene.dispute.job, scene.dispute.claim(0), scene.places)
    scene.play(lane, author, until=lambda: scene.asked_by(asker) == 2)
    scene.play(scene.lane(asker, "after"), author, until=lambda: not scene.view.is_open)
    assert scene.view.end == End.JUDGED


def test_a_true_claim__is_answered_for_and_in_the_end_paid_with_the_fees(devnet: Devnet, tmp_path: Path):
    """A stranger answers what a hash determines; what is new, the author or an answer key; whoever answered has the fee."""
    scene = Scene(devnet, tmp_path, None)
    stranger, asker = scene.stranger("stranger"), scene.dispute.parties[2]
    defending = scene.lane(stranger, "stranger", defends=scene.dispute.job)
    claim: Any = scene.dispute.claim(0)
    result, nothing = scene.result, (0, (bytes(32), bytes(32), []), [])
    args: Any = (scene.dispute.job, claim.fields, int(Kind.TRAINING), SLOT, values(scene.specified), values(result))
    call = scene.chain.referee.ask_claim(*args, *nothing)  # type: ignore[arg-type]
    asker.send(call, value=FEE)
    defending.poll_once()
    [node] = scene.view.picture.open_asks
    devnet.warp_to(node.record.clocks.since + scene.chain.params.clocks.exclusive_s)
    defending.poll_once()
    [root] = scene.view.picture.nodes.values()
    assert root.is_answered
    assert root.record.answerer == stranger.address.lower()
    leaf: Any = scene.view.picture.ask(root, 1)
    asker.send(scene.chain.referee.ask(*leaf.args), value=FEE)
    devnet.warp_to(scene.chain.now() + scene.chain.params.clocks.exclusive_s)
    defending.poll_once()
    [node] = scene.view.picture.open_asks
    assert defending.unanswered[scene.view.key] == {node.id.hex(): AUTHORS}
    author, coin = scene.authors(), scene.chain.coin(stranger.address)
    scene.author.sender.send(scene.chain.registry.allow_answers(scene.author.id, stranger.address, True))
    defending.poll_once()
    assert not scene.view.picture.open_asks, "an answer key answers what is new"
    final_after = scene.view.final_after(scene.chain.params.clocks)
    assert final_after is not None
    devnet.warp_to(final_after + 1)
    scene.play(author, defending, until=lambda: not scene.view.is_open)
    assert scene.view.end == End.FINAL
    assert scene.dispute.claim(0).state == ClaimState.PAID
    scene.play(author, defending, until=lambda: scene.chain.coin(stranger.address) > coin)
    assert scene.chain.coin(scene.author.account.address) > 0
