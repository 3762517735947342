"""`zoo job demands`: each demand with who asked, and how it ended."""

from __future__ import annotations

import dataclasses
import json
from types import SimpleNamespace
from typing import Any

import pytest

from tests.chain.test_demands import FIRST, OTHER
from tests.keepers.test_duties import view
from zoo_compute.chain import snapshot
from zoo_compute.chain.demands import Demand
from zoo_compute.chain.views import AGGREGATOR_SEAT, Checkpoint
from zoo_compute.cli import main as cli
from zoo_compute.cli.context import Settings

MADE = Checkpoint(2, 1, AGGREGATOR_SEAT, 9, 0b11, 50, bytes(32), bytes(32), 50)
ASKED = (
    Demand(FIRST, 1, 145, 1, 4, 5, 6 * 10**14, False, 10, tx="0x01", end="bytes", end_block=12),
    Demand(OTHER, 2, 128, 2, 4, 5, 6 * 10**14, True, 11, tx="0x02", end="convicted", end_block=16),
    Demand(MADE, 5, 3, 0, 4, 5, 6 * 10**14, True, 18, tx="0x03"),
    Demand(MADE, 6, 144, 0, 4, 5, 6 * 10**14, False, 12, tx="0x04"),
    Demand(MADE, 7, 145, 0, 4, 5, 6 * 10**14, False, 10, tx="0x05", end="forfeited", end_block=14),
    Demand(MADE, 8, 145, 0, 4, 5, 6 * 10**14, False, 10, tx="0x06", end="forfeited", end_block=14, help_tx="0x07"),
    Demand(MADE, 8, 145, 0, 4, 5, 6 * 10**14, False, 18, tx="0x08", help_tx="0x09"),
)
ASKED = tuple(dataclasses.replace(demand, demander="0xD" + 39 * "0") for demand in ASKED)


@pytest.fixture
def zoo(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """`zoo` on a chain whose block n has second 10 n; now is second 200."""
    asked: list[Demand] = []
    chain = SimpleNamespace(
        head=lambda block: SimpleNamespace(timestamp=10 * block), params=SimpleNamespace(answer_s=30)
    )
    monkeypatch.setattr(Settings, "chain", lambda self: chain)
    monkeypatch.setattr(snapshot, "read_job", lambda chain, job: view(200, job=job, demands=asked))

    def run(*arguments: str) -> str:
        assert cli.run(["job", "demands", "7", *arguments]) == 0
        return capsys.readouterr().out

    return SimpleNamespace(run=run, asked=asked)


def test_demands__are_listed_with_who_asked_and_how_they_ended(zoo: Any) -> None:
    zoo.asked += ASKED
    lines = zoo.run().splitlines()[1:]
    for line, parts in zip(
        lines,
        (
            ("turn 2", "slot 1 of operator 1", "anyone (0xD0000000…)", "0.0006 coin", "answered after 20 s"),
            ("slot 2 of operator 2", "the aggregator", "not answered: the claim is convicted after 50 s"),
            ("aggregation of operator 9", "operator 5", "seat 3", "open, 10 s left"),
            ("operator 6", "the submitter", "open, time is over"),
            ("aggregation of operator 9", "operator 7", "anyone", "not answered: its reserve is lost after 40 s"),
            ("operator 8", "answered by another operator: a part of its reserve is lost after 40 s"),
            ("operator 8", "open, answered by another operator, 10 s left"),
        ),
        strict=True,
    ):
        assert [part for part in parts if part not in line] == []


def test_demands__as_json__name_the_place_and_the_times(zoo: Any) -> None:
    zoo.asked += ASKED
    answer = json.loads(zoo.run("--json"))
    assert (answer["job"], answer["now"]) == (7, 200)
    first, convicted, _, last, forfeited, helped, _ = answer["demands"]
    assert (helped["end"], helped["helped"], forfeited["helped"]) == ("forfeited", True, False)
    assert first["demander"] == "0xD" + 39 * "0"
    assert (first["slot"], first["tensor"], first["group"], first["deposit"]) == (1, 4, 5, "600000000000000")
    assert (first["asked_at"], first["due"], first["ended_at"], first["end"]) == (100, 130, 120, "bytes")
    assert (first["operator"], first["asked"]) == (1, 1)
    assert (convicted["end"], forfeited["end"]) == ("convicted", "forfeited")
    assert (forfeited["operator"], forfeited["asked"]) == (9, 7)
    assert (last["end"], last["ended_at"], last["lane"]) == (None, None, 144)


def test_a_job_of_which_nothing_was_asked__says_so(zoo: Any) -> None:
    assert zoo.run() == "nobody demanded data of job 7 on chain\n"
    assert json.loads(zoo.run("--json"))["demands"] == []
