"""The protocol's time: the contract's is the specification's, it never runs backwards nor jumps, and no call changes it.

What a halt does to each clock is in `tests/support/scenarios/halts.py`.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.support.contract import Contract
from tests.support.evm import chain
from tests.support.protocol_driver import load
from zoo_compute.spec import clocks
from zoo_compute.spec.params import DEVNET, PRODUCTION

OUTAGE_S = PRODUCTION.clocks.outage_s
HALT_S = 6 * 3_600
# Seconds up to the next block, and whether somebody beats in it.
GAPS = st.lists(st.tuples(st.integers(0, 3 * OUTAGE_S) | st.just(HALT_S), st.booleans()), max_size=12)


@pytest.fixture(scope="module")
def registry() -> Contract:
    zen = load("ZenToken").deploy(10**24)
    preset = DEVNET
    return load("NodeRegistry").deploy(
        zen, chain.account("guardian"), preset.min_stake, preset.exit_delay_s, preset.epoch_s, OUTAGE_S
    )


def beat(registry: Contract) -> None:
    registry.beat(sender=chain.account("anyone"))


def test_time__begins_as_block_time(registry: Contract) -> None:
    assert (registry.time(), registry.last_beat(), registry.stopped_s()) == (chain.timestamp, chain.timestamp, 0)
    assert registry.outage_s() == OUTAGE_S == 1_800


@pytest.mark.parametrize("short_s", [1, 0, -1])
def test_gap__of_outage_s__counts_in_full__and_a_second_more_does_not(registry: Contract, short_s: int) -> None:
    with chain.anchor():
        begun = registry.time()
        chain.timestamp += OUTAGE_S - short_s
        assert registry.time() == begun + OUTAGE_S - max(0, short_s)
        beat(registry)
        stopped = [log for log in registry.get_logs() if type(log).__name__ == "TimeStopped"]
        assert [(log.seconds, log.stopped_s) for log in stopped] == [(1, 1)] * (short_s < 0)


@given(gaps=GAPS)
@example(gaps=[(OUTAGE_S, False), (1, True), (0, True), (HALT_S, False), (HALT_S, True)])
@settings(max_examples=60, deadline=None, derandomize=True)
def test_time__is_the_specifications__whoever_beats(registry: Contract, gaps: list[tuple[int, bool]]) -> None:
    with chain.anchor():
        last_beat, stopped_s, time = int(chain.timestamp), 0, registry.time()
        for gap, somebody_beats in gaps:
            chain.timestamp += gap
            now = int(chain.timestamp)
            read = registry.time()
            assert read == clocks.protocol_time_s(now, stopped_s, last_beat, PRODUCTION.clocks)
            assert time <= read <= time + gap
            time = read
            if somebody_beats:
                beat(registry)
                stopped_s, last_beat = clocks.stopped_after(now, stopped_s, last_beat, PRODUCTION.clocks), now
                assert (registry.time(), registry.last_beat(), registry.stopped_s()) == (time, last_beat, stopped_s)


@given(gaps=GAPS, more=st.sets(st.integers(0, 11)))
@settings(max_examples=200, deadline=None, derandomize=True)
def test_beats__let_time_run__and_never_faster_than_blocks(gaps: list[tuple[int, bool]], more: set[int]) -> None:
    """Who beats more often makes no second pass that did not; who does not beat stops everybody's clocks alike, until anybody does."""

    def passed(beats: list[bool]) -> int:
        now = last_beat = stopped_s = 0
        for (gap, _), beats_here in zip(gaps, beats, strict=True):
            now += gap
            if beats_here:
                stopped_s, last_beat = clocks.stopped_after(now, stopped_s, last_beat, PRODUCTION.clocks), now
        return clocks.protocol_time_s(now, stopped_s, last_beat, PRODUCTION.clocks)

    few = [beats for _, beats in gaps]
    many = [beats or at in more for at, beats in enumerate(few)]
    assert 0 <= passed(few) <= passed(many) <= sum(gap for gap, _ in gaps)
    assert passed([True] * len(gaps)) == sum(min(gap, OUTAGE_S) for gap, _ in gaps)


def test_heartbeat__is_a_beat(registry: Contract) -> None:
    with chain.anchor():
        zen: Any = chain.contracts[str(registry.zen())]
        owner, hot = chain.account("owner"), chain.account("hot")
        zen.transfer(owner, DEVNET.min_stake)
        zen.approve(registry, DEVNET.min_stake, sender=owner)
        operator = registry.register(hot, 1, 24, DEVNET.min_stake, "http://here", sender=owner)
        chain.timestamp += HALT_S
        time = registry.time()
        registry.heartbeat(operator, sender=hot)
        assert (registry.time(), registry.last_beat()) == (time, chain.timestamp)
        assert registry.stopped_s() == HALT_S - OUTAGE_S
