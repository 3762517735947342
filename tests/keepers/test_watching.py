"""The watch: what a keeper shows, and whom it recalls, where its part of the stake pays for the gas."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from keepers.decisions.orders import Send
from keepers.decisions.watching import (
    BREACH_GAS,
    LAPSE_GAS,
    LAPSES_ONE_IN,
    RECALL_GAS,
    Admitted,
    Gas,
    Promised,
    breaches,
    lapses,
    recalls,
    schedules,
)
from keepers.services import watching
from keepers.services.watching import LOOKS_AN_EPOCH, Watching, turn_s
from zoo_compute.chain.connection import Head
from zoo_compute.errors import Refusal
from zoo_compute.spec.params import PRODUCTION, ZEN

STAKE, GWEI = 1_000 * ZEN, 10**9
FREE, DEAR = Gas(0, 0), Gas(1_000 * GWEI, 1_000 * ZEN)
BROKEN = Promised(7, STAKE, tier=0, hours=2**24 - 1, beats=2**24 - 1 - 0b11, is_judged=False)
ME = "0xMe"
DRAWN = Admitted(7, STAKE, True, True, has_trial=False, recalled_in=4, due=0, recaller="0x0")
EPOCH_S = PRODUCTION.epoch_s


@pytest.mark.parametrize(
    ("changes", "is_shown"),
    [
        ({}, True),
        ({"beats": 2**24 - 2}, False),  # one of 24 may be missed at 95 %
        ({"tier": 3, "beats": 2**24 - 2}, True),
        ({"is_judged": True}, False),
        ({"hours": 0b100, "beats": 0}, True),
        ({"hours": 0b100, "beats": 0b100}, False),
        ({"stake": 0}, False),
    ],
)
def test_a_broken_promise__is_shown_once(changes: dict[str, Any], is_shown: bool) -> None:
    due = list(breaches([replace(BROKEN, **changes)], 5, FREE))
    assert due == ([Send("registry", "breach", (7, 5))] if is_shown else [])


def test_a_breach__is_shown_where_its_fee_exceeds_the_gas() -> None:
    """A tenth of a hundredth of 1,000 ZEN is one ZEN; here a coin is worth a thousand."""
    most = 10**18 // (BREACH_GAS * 1_000)
    assert list(breaches([BROKEN], 5, Gas(most, 1_000 * ZEN)))
    assert not list(breaches([BROKEN], 5, Gas(most + 1, 1_000 * ZEN)))


@pytest.mark.parametrize(
    ("changes", "is_recalled"),
    [
        ({}, True),
        ({"is_drawn": False}, False),
        ({"is_eligible": False}, False),
        ({"has_trial": True}, False),
        ({"due": 9}, False),
        ({"recalled_in": 5}, False),
    ],
)
def test_who_was_drawn__is_recalled_once_an_epoch(changes: dict[str, Any], is_recalled: bool) -> None:
    due = list(recalls([replace(DRAWN, **changes)], 5, FREE))
    assert due == ([Send("admissions", "recall", (7,))] if is_recalled else [])


def test_a_recall__pays_where_one_lapse_in_twenty_pays_for_all_of_them() -> None:
    """Half of a hundredth of 1,000 ZEN is five ZEN."""
    most = 5 * 10**18 // ((LAPSES_ONE_IN * RECALL_GAS + LAPSE_GAS) * 1_000)
    assert list(recalls([DRAWN], 5, Gas(most - 1, 1_000 * ZEN)))
    assert not list(recalls([DRAWN], 5, Gas(most + 1, 1_000 * ZEN)))


def test_a_draw__is_scheduled_for_whoever_could_be_recalled() -> None:
    assert list(schedules([DRAWN], FREE)) == [Send("admissions", "schedule", ())]
    assert not list(schedules([], FREE))
    assert not list(schedules([replace(DRAWN, due=9)], FREE))
    assert not list(schedules([DRAWN], DEAR))


def test_a_lapse__is_called_by_whoever_recalled_a_second_after_its_time() -> None:
    recalled = replace(DRAWN, due=100, recaller=ME.lower())
    assert not list(lapses([recalled], 100, ME, FREE))
    assert list(lapses([recalled], 101, ME, FREE)) == [Send("admissions", "lapse", (7,))]
    assert not list(lapses([replace(recalled, recaller="0xother")], 101, ME, FREE)), "it would pay somebody else"
    assert not list(lapses([replace(recalled, due=0)], 101, ME, FREE))
    assert not list(lapses([recalled], 101, ME, DEAR))


# --- the service


class Net:
    """A registry and admissions of a few operators; what is sent is refused where it was sent before."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.promised = {number: replace(BROKEN, operator=number) for number in (1, 2, 3)}
        self.admitted = {2: replace(DRAWN, operator=2, recalled_in=0)}
        self.left: set[int] = set()  # with their stakes, so with their admissions
        self.stopped, self.draw, self.sent = False, 0, list[tuple[Any, ...]]()
        self.address = ME
        contract = lambda *names: SimpleNamespace(  # noqa: E731
            **{name: (lambda *args, name=name: (name, *args)) for name in names}
        )
        registry, admissions = contract("breach"), contract("schedule", "recall", "lapse")
        registry.operator_count = lambda block: 3
        registry.is_stopped = lambda epoch, block: self.stopped
        admissions.draws = lambda epoch, block: self.draw
        eth = SimpleNamespace(get_block=lambda _: {"baseFeePerGas": GWEI // 100}, max_priority_fee=0)
        self.chain: Any = SimpleNamespace(
            params=PRODUCTION,
            registry=registry,
            admissions=admissions,
            time=lambda head: head.timestamp,
            w3=SimpleNamespace(eth=eth),
        )
        monkeypatch.setattr(watching, "read_all", self.read)

    def read(self, chain: Any, block: int, reads: Any) -> list[Any]:
        return [self._value(each.function, each.args) for each in reads]

    def _value(self, name: str, args: tuple[Any, ...]) -> Any:
        number = args[2] if name == "claims" else args[0]
        promise, trial = self.promised[number], self.admitted.get(number)
        last = {"epoch": 0, "due": 0, "caller": ME}
        if trial is not None:
            last = {"epoch": trial.recalled_in, "due": trial.due, "caller": trial.recaller}
        return {
            "stake_of": promise.stake,
            "operators": {"stake": promise.stake, "exit_at": 0},
            "promised": {"tier": promise.tier, "hours": promise.hours},
            "beats": promise.beats,
            "is_judged": promise.is_judged,
            "is_admitted": trial is not None and number not in self.left,
            "is_drawn": trial is not None and trial.is_drawn,
            "claims": bytes(32),
            "recalls": last,
        }[name]

    def send(self, call: tuple[Any, ...]) -> None:
        if call in self.sent:
            raise Refusal("asked already")
        self.sent.append(call)

    def keeper(self, operator: int = 1) -> Watching:
        return Watching(self.chain, self, operator, 3, 1_000 * ZEN)  # type: ignore[arg-type]


@pytest.fixture
def net(monkeypatch: pytest.MonkeyPatch) -> Net:
    return Net(monkeypatch)


def at(epoch: int, second: int = EPOCH_S // 2) -> Head:
    return Head(1, epoch * EPOCH_S + second, b"", b"")


def test_watching__shows_others_promises_of_the_last_epoch_and_recalls_whom_chance_drew(net: Net) -> None:
    keeper = net.keeper()
    keeper.look(at(9))
    assert net.sent == [("breach", 2, 8), ("breach", 3, 8), ("schedule",)]
    keeper.look(at(9, EPOCH_S // 2 + 1))
    assert len(net.sent) == 3, "it looks a few times an epoch"
    net.draw = 5
    keeper.look(at(9, EPOCH_S // 2 + EPOCH_S // LOOKS_AN_EPOCH))
    assert net.sent[3:] == [("recall", 2)], "the promises are judged"
    net.admitted[2] = replace(DRAWN, operator=2, recalled_in=9, due=9 * EPOCH_S + 50_000, recaller=ME)
    keeper.look(at(9, 49_999))
    assert len(net.sent) == 4
    keeper.look(at(9, 51_000))
    assert net.sent[4:] == [("lapse", 2)]
    keeper.look(at(10))
    assert net.sent[5:] == [("breach", 2, 9), ("breach", 3, 9)], "and what was refused keeps nothing else waiting"


def test_watching__of_a_recall_whose_operator_left_with_its_stake__sends_nothing(net: Net) -> None:
    net.stopped, net.draw = True, 5
    net.admitted[2] = replace(DRAWN, operator=2, recalled_in=9, due=9 * EPOCH_S, recaller=ME)
    net.left = {2}
    net.keeper().look(at(9))
    assert net.sent == []
    net.left = set()
    net.keeper().look(at(9))
    assert net.sent == [("lapse", 2)]


def test_watching__of_an_epoch_in_which_the_chain_stood_still__shows_nobody(net: Net) -> None:
    net.stopped, net.admitted = True, {}
    net.keeper().look(at(9))
    assert net.sent == []


def test_watching__begins_after_its_turn_which_is_another_in_every_epoch(net: Net) -> None:
    turns = {turn_s(1, epoch, 200, 3, EPOCH_S) for epoch in range(50)}
    assert len(turns) > 10
    assert max(turns) < 600
    assert turn_s(1, 1, 10**9, 3, EPOCH_S) <= EPOCH_S // 4
    late = next(epoch for epoch in range(9, 99) if turn_s(1, epoch, 3, 3, EPOCH_S))
    net.keeper().look(at(late, 0))
    assert net.sent == []
