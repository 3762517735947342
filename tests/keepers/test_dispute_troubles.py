"""What a lane of disputes does with reports, with what is over and with what goes wrong: nothing waits, and it is said once."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from keepers.monitoring.logs import rotate_records
from keepers.services import challenging, false_claims
from keepers.services.challenging import UNREADABLE_S, MismatchReports
from keepers.services.disputing import REFUSED_S
from keepers.services.resolved import FAILED_S, Resolved
from tests.keepers.test_disputing import (
    HEAVY,
    ME,
    NOW,
    Clock,
    Contract,
    Lane,
    clock,
    dispute,
    disputes,
    disputes_claim,
    opened,
)
from zoo_compute.chain.explorations import DisputeView
from zoo_compute.disputes.exploration import Call, Exploration
from zoo_compute.errors import NeedsOperator, Refusal, UserError
from zoo_compute.spec.clocks import End

_ = clock, disputes  # fixtures


# --- which mismatches


def test_mismatches__are_handed_over_once_and_a_line_that_is_being_written_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    path, handed = tmp_path / "verified.jsonl", list[Any]()
    claim = SimpleNamespace(turn=0, seat=1, root=b"r")
    view = SimpleNamespace(job=3, claims=[claim, SimpleNamespace(turn=0, seat=1, root=b"older")])
    monkeypatch.setattr(challenging, "read_job", lambda chain, job: view)

    def challenge(job: int, claim: Any, places: Sequence[Any]) -> None:
        handed.append((job, claim, places))
        raise UserError("too late")

    reports = MismatchReports(None, path, challenge)  # type: ignore[arg-type]
    reports.read()
    line = json.dumps({"name": "it", "job": 3, "turn": 0, "seat": 1, "root": b"r".hex(), "dispute": {"kind": 0}}) + "\n"
    path.write_text(json.dumps({"name": "fine", "agrees": True}) + "\n" + line[:-9])
    reports.read()
    assert handed == []
    with path.open("a") as file:
        file.write(line[-9:])
    reports.read()
    reports.read()
    assert handed == [(3, claim, [{"kind": 0}])]

    # Rotated, with a line that no look has seen: what was handed over is handed over again, as after a restart.
    with path.open("a") as file:
        file.write(line.replace('"it"', '"late"'))
    assert rotate_records(path, 1, 5)
    reports.read()
    assert len(handed) == 3
    reports.read()
    assert len(handed) == 3


def test_a_report_of_a_job_that_cannot_be_read__keeps_no_other_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clock: Clock, caplog: pytest.LogCaptureFixture
):
    path, handed, readable = tmp_path / "verified.jsonl", list[int](), {2}
    lines = [
        {"name": f"of {job}", "job": job, "turn": 0, "seat": 1, "root": b"r".hex(), "dispute": {"kind": 0}}
        for job in (1, 2)
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))

    def read_job(chain: Any, job: int) -> Any:
        if job not in readable:
            raise ValueError("hostile")
        return SimpleNamespace(job=job, claims=[SimpleNamespace(turn=0, seat=1, root=b"r")])

    monkeypatch.setattr(challenging, "read_job", read_job)
    reports = MismatchReports(None, path, lambda job, claim, places: handed.append(job))  # type: ignore[arg-type]
    for _ in range(3):
        reports.read()
        clock.sleep(UNREADABLE_S)
    assert handed == [2]
    assert reports.trouble == ["of 1: ValueError: hostile"]
    assert len(caplog.records) == 1, "once, not at every look"
    readable.add(1)
    reports.read()
    assert (handed, reports.trouble) == ([2, 1], [])


def test_a_false_claim_of_a_job_that_cannot_be_read__keeps_no_other_waiting(
    tmp_path: Path, disputes: list[DisputeView], monkeypatch: pytest.MonkeyPatch
):
    def read_job(chain: Any, job: int, head: Any) -> Any:
        raise ValueError("hostile")

    monkeypatch.setattr(false_claims, "read_job", read_job)
    place = Lane(tmp_path)
    place.answers["author"] = [Call("answer", (1,), id=b"1")]
    disputes += [dispute(1, opened())]
    claim: Any = SimpleNamespace(final=False, operator=3, turn=5, seat=0, fields=disputes_claim())
    place.lane.challenge(2, claim, [{"kind": 0, "slot": 0, "result": None}])
    place.lane.poll_once()
    assert place.names == ["answer"]
    assert place.lane.trouble == ["job 2: the claim of turn 5, seat 0: ValueError: hostile"]


def test_a_claim_that_is_final__cannot_be_disputed(tmp_path: Path):
    claim: Any = SimpleNamespace(final=True, operator=3, turn=5)
    with pytest.raises(UserError, match="of operator 3 in turn 5 cannot be disputed any more"):
        Lane(tmp_path).lane.challenge(1, claim, [])


def test_a_resolved_dispute__is_looked_at_until_nothing_is_left(
    tmp_path: Path, disputes: list[DisputeView], monkeypatch: pytest.MonkeyPatch
):
    place, left = Lane(tmp_path), [NOW + 5, None]
    disputes += [dispute(1, opened(), end=End.FINAL)]
    finished: list[int] = []

    def finish(head: Any, *_: Any) -> int | None:
        finished.append(head.timestamp)
        return left[len(finished) - 1]

    monkeypatch.setattr(place.lane._resolved, "finish", finish)
    kept = tmp_path / "disputes" / disputes[0].key.hex()[:16]
    kept.mkdir(parents=True)
    for at in (0, 1, 5, 6, 7):
        place.head.timestamp = NOW + at
        assert place.lane.poll_once() == []
    assert finished == [NOW, NOW + 6]
    assert not kept.exists()


# --- what goes wrong


def test_an_account_that_cannot_pay__says_so_once_and_until_it_can(
    tmp_path: Path, disputes: list[DisputeView], clock: Clock, caplog: pytest.LogCaptureFixture
):
    place, poor = Lane(tmp_path), NeedsOperator("0xab has 1 coin", hint="send it coin")
    send, place.answers["asker"] = place._send, [HEAVY._replace(is_heavy=False)]
    disputes += [dispute(1, opened(asker=ME), operator=3)]

    def cannot_pay(call: Any, *, value: int = 0) -> Any:
        raise poor

    place.lane._sender.send = cannot_pay  # type: ignore[method-assign]
    for _ in range(4):
        place.lane.poll_once()
        clock.sleep(REFUSED_S)
    text = "dispute 01010101 of job 1: ask_claim: 0xab has 1 coin (send it coin)"
    assert (place.lane.trouble, place.lane.unpaid) == ([text], {disputes[0].key: poor})
    assert [record.getMessage() for record in caplog.records if record.levelname == "ERROR"] == [text]
    place.lane._sender.send = send  # type: ignore[method-assign]
    place.lane.poll_once()
    assert (place.names, place.lane.trouble, place.lane.unpaid) == (["ask_claim"], [], {})


def test_what_is_known_of_a_dispute__is_forgotten_with_it(tmp_path: Path, disputes: list[DisputeView], clock: Clock):
    forgotten = list[Any]()
    explorations: Any = SimpleNamespace(at=lambda head: list(disputes), forget=forgotten.append)
    place = Lane(tmp_path, explorations=explorations)
    lane, place.refuses = place.lane, {"answer"}
    lane._resolved.finish = lambda *_: None  # type: ignore[method-assign]
    place.answers["author"] = [Call("answer", (1,), id=b"1")]
    disputes += [dispute(1, opened()), dispute(2, opened(2), operator=3), dispute(3, opened(3), operator=3)]
    lane.poll_once()
    assert lane._refused.paused
    assert {each[0] for each in lane._false._asked} == {2, 3}
    disputes[:] = [replace(each, picture=Exploration(each.picture.nodes, end=End.FINAL)) for each in disputes[:2]]
    lane.poll_once()
    lane.poll_once()
    assert forgotten[-1] == {each.key for each in disputes}, "mine too: it is finished"
    disputes.clear()
    lane.poll_once()
    kept = (lane._false._asked, lane._refused._pauses, lane._over, lane.unanswered, lane._work._failed)
    assert not any(kept)


def test_a_withdrawal_that_fails__is_tried_ever_more_rarely_and_keeps_no_other_waiting(
    clock: Clock, caplog: pytest.LogCaptureFixture
):
    tried, paid = list[float](), list[Any]()
    refuses = {"0xbad"}

    def send(call: Any) -> None:
        asset = call[1][0]
        if asset in refuses:
            tried.append(clock.now)
            raise Refusal("referee: transfer failed")
        paid.append((call[0], asset))

    picture = Exploration({})
    contracts = Contract(owed=lambda asset, account: 1)
    chain: Any = SimpleNamespace(referee=contracts, tasks=Contract(owed=lambda *_: 0))
    resolved = Resolved(chain, SimpleNamespace(address=ME, send=send), 0)  # type: ignore[arg-type]
    view: Any = SimpleNamespace(picture=picture, operator=3, key=b"k", end=End.FINAL)
    head: Any = SimpleNamespace(number=1)
    for token in ("0xbad", "0xgood"):
        resolved.finish(head, view, view, token)
    start = clock.now
    for _ in range(400):
        resolved.withdraw()
        clock.sleep(1)
    assert [round((at - start) / FAILED_S) for at in tried] == [0, 1, 3, 7]
    assert sorted(asset for _, asset in paid) == ["0x" + 40 * "0", "0xgood"]
    [text] = resolved.trouble
    assert text.startswith(f"a withdrawal of 0xbad from referee to {ME}: refused: referee: transfer failed")
    assert [record.levelname for record in caplog.records] == ["ERROR"], "once"
    refuses.clear()
    clock.sleep(FAILED_S * 16)
    resolved.withdraw()
    assert (resolved.trouble, len(paid)) == ([], 3)
