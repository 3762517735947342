"""A job in a notebook: rows for pandas, and a picture whose texts are strangers'."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime
from html.parser import HTMLParser
from types import SimpleNamespace
from typing import Any

import pandas
import pytest

from tests.client.test_results import ROOT0, RUN, aggregation, commit, view
from zoo_compute import drawing
from zoo_compute.amounts import Token
from zoo_compute.chain.ledger import JobAccount
from zoo_compute.chain.views import ClaimState, JobState, JobView, Rollback
from zoo_compute.client.evaluation import Evaluation
from zoo_compute.client.history import rows_of
from zoo_compute.client.job import Job
from zoo_compute.client.picture import picture
from zoo_compute.client.progress import Progress, progress_of
from zoo_compute.errors import Unreachable
from zoo_compute.jobs.config import ComputeJob
from zoo_compute.jobs.quote import quote
from zoo_compute.spec.params import DEVNET

MADE = b"\1" * 32
USD = Token("USD", 1, "0xU")
HOSTILE = "<script>alert('x')</script>\"&"


def account(**changes: Any) -> JobAccount:
    values = {"escrowed": 100, "paid": 30, "held": 70, "claims": (), "penalties": (), "takeovers": ()}
    return JobAccount(**(dict.fromkeys(JobAccount.__dataclass_fields__, 0) | values | changes))


@pytest.fixture
def job() -> JobView:
    """Round 1 was repeated and is optimistic, round 2 runs: operator 1 has committed."""
    paid, rolled_back = ClaimState.PAID, commit(1, 0, state=ClaimState.CONVICTED)
    commits = (commit(0, 0, state=paid), commit(0, 1, state=paid), rolled_back, commit(2, 1, round=1), commit(2, 0, round=1, disputed=True))  # fmt: skip
    return view(
        checkpoint_roots={0: ROOT0, 1: MADE}, checkpoint_cids={1: (ROOT0,)}, commits=commits, rollbacks=(Rollback(2, 1, 40),),
        checkpoints=(aggregation(0, MADE, state=paid, block=33),), run=replace(RUN, round=1, turn=2),
    )  # fmt: skip


def rows(job: JobView, *evaluations: Evaluation) -> list[dict[str, Any]]:
    found = {each.root: each for each in evaluations}
    return rows_of(job, (4.5, 3.5), found, USD, lambda block: 1_000 * block)


def test_history__has_a_row_for_each_round__and_joins_what_was_evaluated(job: JobView) -> None:
    first, second = rows(job, Evaluation(1, "0x" + MADE.hex(), 4.4, 81.0))
    assert (first["round"], first["state"], first["loss"], first["heldout_loss"], first["perplexity"]) == (
        1,
        "final",
        4.5,
        4.4,
        81.0,
    )
    assert (first["slots"], first["price"]) == (3, 3.8)
    assert first["time"] == datetime.fromtimestamp(33_000, UTC)
    assert (second["round"], second["state"], second["heldout_loss"], second["time"]) == (2, "training", None, None)
    assert (second["slots"], second["price"]) == (3, 3.1), "the claims of the repeated turn, not of the one rolled back"


def test_history__begins_with_the_start__if_that_was_evaluated(job: JobView) -> None:
    start = rows(job, Evaluation(0, "0x" + ROOT0.hex(), 5.7, 300.0))[0]
    assert (start["round"], start["state"], start["loss"], start["heldout_loss"]) == (0, "start", None, 5.7)


def test_history__is_what_pandas_takes(job: JobView) -> None:
    table = pandas.DataFrame(rows(job)).set_index("round")
    assert table.loss.tolist() == [4.5, 3.5]
    assert table.heldout_loss.isna().all()
    assert str(table.time.dt.tz) == "UTC"


def test_history__of_a_job_without_a_round__is_empty() -> None:
    assert rows(view(state=JobState.OPEN, run=None)) == []


def test_history__of_a_round_that_was_repeated__counts_its_newest_turn(job: JobView) -> None:
    """What was built on the round that was rolled back is no round any more."""
    ended = replace(job, state=JobState.ENDED, commits=(*job.commits, commit(1, 1, round=2)))
    first, second = rows(ended)
    assert (first["round"], second["round"], second["state"]) == (1, 2, "unfinished")
    assert second["slots"] == 3


class Texts(HTMLParser):
    """Collects tags and texts; an open tag that is never closed fails the test."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.texts: list[str] = []
        self._open: list[str] = []
        self.feed(html)
        self.close()
        assert not self._open

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.add(tag)
        if tag not in ("rect", "polyline"):
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in ("rect", "polyline"):
            assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def seen(job: JobView, **changes: Any) -> Progress:
    return replace(progress_of(job, spent=30, due=20, losses=(4.5, 3.5), token=USD), **changes)


def test_the_picture__shows_state_money_slots_and_losses(job: JobView) -> None:
    made = Texts(picture(job, seen(job), account(), "testnet"))
    said = " ".join(made.texts)
    assert "Job 5 on testnet: running" in said
    assert "round 2 runs, 0 of 3 slots are in, 1 of 2 rounds are final, 1 in dispute, 1 convicted, 1 rolled back" in said  # fmt: skip
    assert "inputs close in 1 min" in said
    assert "paid 3 USD" in said
    assert "left 7 USD" in said
    assert "round 1, slot 2: paid" in said
    assert "round 2, slot 0: in dispute" in said
    assert "unverified: 4.5000 to 3.5000" in said
    assert "polyline" in made.tags


def test_a_curve__leaves_out_losses_that_are_no_numbers() -> None:
    """A node may report anything."""
    assert "nan" not in drawing.curve([1.0, float("nan"), 0.5, float("inf"), None], "loss")
    assert drawing.curve([1.0, float("nan")], "loss") == ""


def test_the_picture__of_an_open_job__has_no_squares_and_no_curve() -> None:
    job = view(state=JobState.OPEN, run=None)
    made = Texts(picture(job, progress_of(job, spent=0, due=0), account(paid=0), "testnet"))
    assert not made.tags & {"rect", "polyline", "svg"}


def test_the_picture__is_bounded(job: JobView) -> None:
    terms = replace(job.terms, slots=16_384)
    assert picture(replace(job, terms=terms), seen(job), account(), "testnet").count("<rect") == 2 * 64


def test_what_strangers_write__is_text(job: JobView) -> None:
    token = Token(HOSTILE, 1, "0xU")
    html = picture(job, seen(job, token=token, waiting_for=HOSTILE, missing=(HOSTILE,)), account(), HOSTILE)
    made = Texts(html)
    assert made.tags <= {"div", "b", "span", "svg", "rect", "title", "polyline"}
    assert HOSTILE in " ".join(made.texts)
    assert "<script" not in html


def a_job(job: JobView, monkeypatch: pytest.MonkeyPatch) -> Job:
    head = SimpleNamespace(timestamp=33_000)
    chain = SimpleNamespace(network=SimpleNamespace(first_block=0), head=lambda _: head, cached=lambda _, make: make())
    client: Any = SimpleNamespace(
        store=None, chain=chain, use_peers=lambda: None, description=SimpleNamespace(name="net")
    )
    monkeypatch.setattr("zoo_compute.client.job.read_job", lambda *_: job)
    monkeypatch.setattr("zoo_compute.client.job.token_at", lambda *_: USD)
    monkeypatch.setattr("zoo_compute.client.progress.LossReader.losses", lambda *_: (4.5, 3.5))
    monkeypatch.setattr(Job, "_account", lambda *_: account())
    return Job(client, 5)


def test_a_cell__shows_the_job__while_an_event_loop_runs(job: JobView, monkeypatch: pytest.MonkeyPatch) -> None:
    """Notebooks run cells inside a loop, where a nested `asyncio.run` would raise."""
    mine = a_job(job, monkeypatch)

    async def cell() -> tuple[str, list[dict[str, Any]]]:
        return mine._repr_html_(), mine.history()

    html, table = asyncio.run(cell())
    assert "Job 5 on net: running" in html
    assert table[0]["time"] == datetime.fromtimestamp(33_000, UTC)


def test_a_cell__without_its_chain__says_so(job: JobView, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = a_job(job, monkeypatch)

    def fails(*_: Any) -> None:
        raise Unreachable(HOSTILE)

    monkeypatch.setattr("zoo_compute.client.job.read_job", fails)
    assert "Job(5)" in mine._repr_html_()
    assert "not readable now: &lt;script" in mine._repr_html_()


def test_a_quote__is_drawn_with_its_warnings_escaped() -> None:
    sections = {
        "model": {"layers": 1, "heads": 1, "width": 8, "context": 8},
        "training": {"learning_rate": 0.001, "batch_size": 2, "inner_steps": 10, "rounds": 4, "slots": 6},
        "market": {"reserve": 2, "max_price": 2, "aggregator_max_price": 1},
    }
    made = replace(quote(ComputeJob.from_dict(sections), DEVNET), token=Token(HOSTILE, 18, "0xU"))
    seen = Texts(made._repr_html_())
    assert seen.tags == {"div", "b", "table", "tr", "td"}
    said = " ".join(seen.texts)
    assert "4 rounds of 6 slots, 10 steps each" in said
    assert "the reserve of a slot-round equals its maximum, 2 ZEN" in said
    assert f"{HOSTILE}, if the auction clears" in said
