"""Keepers beat when nobody has: one transaction is enough for all, and they take turns."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from keepers.services.beats import Beats, delay_s, due_after
from zoo_compute.chain.connection import Head
from zoo_compute.spec.clocks import DEVNET, PRODUCTION, ClockPreset

OUTAGE_S, TURN_S, BLOCK_S, START = PRODUCTION.outage_s, 6, 12, 1_800_000_000


class Network:
    """A registry that counts beats and who asked it what; beats are mined with the next block."""

    def __init__(self, keepers: int, preset: ClockPreset = PRODUCTION) -> None:
        self.now, self.last_beat, self.sent, self.reads = START, START, 0, 0
        self.address = "registry"
        registry = SimpleNamespace(
            last_beat=self._read_last_beat, operator_count=lambda block: keepers, beat=lambda: "beat"
        )
        chain: Any = SimpleNamespace(params=SimpleNamespace(clocks=preset), registry=registry)
        self.keepers = [Beats(chain, self, number, TURN_S) for number in range(1, keepers + 1)]  # type: ignore[arg-type]

    def _read_last_beat(self, block: int) -> int:
        self.reads += 1
        return self.last_beat

    def send(self, call: str) -> None:
        assert call == "beat"
        self.sent += 1

    def block(self, seconds: int = BLOCK_S) -> None:
        """Every keeper looks at a block; what they sent is in it."""
        self.now += seconds
        sent = self.sent
        for keeper in self.keepers:
            keeper.keep(Head(self.now, self.now, b"", b""))
        if self.sent > sent:
            self.last_beat = self.now


def test_beats__while_the_chain_runs__come_in_time__and_few_send_them() -> None:
    network = Network(keepers=200)
    days = 2
    longest = 0
    for _ in range(days * 86_400 // BLOCK_S):
        network.block()
        longest = max(longest, network.now - network.last_beat)
    assert longest < OUTAGE_S, "time never stops while the chain runs"
    beats = days * 86_400 / (2 * OUTAGE_S // 3)
    assert beats * 0.9 < network.sent < 5 * beats, "of 200 keepers a few that share a turn"


def test_beat__after_a_halt__is_sent_by_those_whose_turn_it_is() -> None:
    network = Network(keepers=200)
    network.block(6 * 3_600)
    first = network.sent
    assert first <= 3, "not everybody at once"
    for _ in range(40):
        network.block()
    assert network.last_beat > START + 6 * 3_600
    assert 1 <= network.sent <= 10


def test_beat__of_a_lone_keeper__is_sent_at_once() -> None:
    network = Network(keepers=1)
    network.block(2 * OUTAGE_S // 3 - 1)
    assert network.sent == 0
    network.block(1)
    assert network.sent == 1
    network.block(1)
    assert network.sent == 1


def test_beat__that_another_sent__is_enough() -> None:
    network = Network(keepers=1)
    network.last_beat = START + 1_000  # a heartbeat
    network.block(2 * OUTAGE_S // 3)
    assert network.sent == 0
    reads = network.reads
    network.block(900)
    assert (network.sent, network.reads) == (0, reads), "nothing is asked before a beat may be due"
    network.block(100)
    assert network.sent == 1


def test_beats__where_time_never_stops__are_not_sent__and_nothing_is_asked() -> None:
    network = Network(keepers=3, preset=DEVNET)
    network.block(10**8)
    assert (network.sent, network.reads) == (0, 0)


@pytest.mark.parametrize("operators", [1, 7, 1_000])
def test_delay__leaves_time_for_the_beat_to_be_mined(operators: int) -> None:
    delays = [delay_s(number, operators, START, TURN_S, OUTAGE_S) for number in range(1, operators + 1)]
    assert due_after(START, OUTAGE_S) + max(delays) + 2 * BLOCK_S < START + OUTAGE_S
    assert operators == 1 or len(set(delays)) > 1
    again = [delay_s(number, operators, START + 1, TURN_S, OUTAGE_S) for number in range(1, operators + 1)]
    assert operators == 1 or again != delays, "another order after every beat"
