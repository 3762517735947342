"""The verifier's lane: what it samples, and what its reports say."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from keepers.config import from_dict
from keepers.decisions.retention import spare_s
from keepers.monitoring.logs import rotate_records
from keepers.queue.work_queue import WorkStatus
from keepers.services.verification import Verifier, read_reports
from tests.keepers.test_duties import ME, OTHER, ROOT, view
from zoo_compute.chain.views import AGGREGATOR_SEAT, Checkpoint, ClaimState, Commit, JobView
from zoo_compute.paths import REPORTS
from zoo_compute.store.cid import raw_cid


def commits(turns: int = 40, slots: int = 6) -> JobView:
    claims = tuple(Commit(t, t, 0, ME if t % 2 else OTHER, slots, 9, ROOT, ROOT, 9) for t in range(turns))
    return view(1_000, commits=claims, checkpoint_roots={t: ROOT for t in range(turns + 1)})


def verifier(
    folder: Path, answer: WorkStatus, *, rate: float = 1.0, secret: bytes = b"s"
) -> tuple[Verifier, list[str]]:
    asked: list[str] = []

    def ask(task: str, name: str, request: dict) -> WorkStatus:
        asked.append(name)
        return answer

    config = from_dict({"name": "eye", "network": "n", "roles": ["verifier"], "sample_rate": rate}, folder)
    return Verifier(config, ask, secret), asked


def test_a_sample__is_about_its_rate_and_differs_by_secret(tmp_path: Path):
    one, asked = verifier(tmp_path, WorkStatus("queued"), rate=0.25)
    one.observe(commits())
    assert 30 <= len(asked) <= 90
    other, asked_too = verifier(tmp_path, WorkStatus("queued"), rate=0.25, secret=b"other")
    other.observe(commits())
    assert set(asked) != set(asked_too)


def test_a_report__is_written_once_and_survives_a_restart(tmp_path: Path):
    done = WorkStatus("done", result={"agrees": True, "segments": 2})
    first, asked = verifier(tmp_path, done)
    few = commits(turns=1, slots=2)
    assert first.pending(few)
    first.observe(few)
    first.observe(few)
    assert len(asked) == 2
    assert not first.pending(few)
    again, asked_again = verifier(tmp_path, done)
    again.observe(few)
    assert asked_again == []
    assert len(list(read_reports(tmp_path / REPORTS))) == 2


def test_reports__are_rotated__and_of_jobs_that_are_over_none_stays_in_memory(tmp_path: Path):
    done = WorkStatus("done", result={"agrees": True, "segments": 2})
    first, _ = verifier(tmp_path, done)
    few = commits(turns=1, slots=2)
    first.observe(few)
    assert rotate_records(tmp_path / REPORTS, 1, 5)
    assert not first.pending(few)
    again, asked = verifier(tmp_path, done)
    again.observe(few)
    assert asked == [], "what was rotated is read after a restart"
    again.forget(few.job)
    assert again._reported == {}
    assert len(list(read_reports(tmp_path / REPORTS))) == 2


def test_a_mismatch__is_an_error_and_a_failure_of_ones_own_is_none(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    few = commits(turns=1, slots=1)
    liar, _ = verifier(tmp_path / "a", WorkStatus("done", result={"agrees": False, "segments": 2}))
    (tmp_path / "a").mkdir()
    liar.observe(few)
    assert "MISMATCH" in caplog.text
    caplog.clear()
    (tmp_path / "b").mkdir()
    broken, _ = verifier(tmp_path / "b", WorkStatus("failed", error="NodeOutOfMemory: too large"))
    broken.observe(few)
    assert "MISMATCH" not in caplog.text
    assert "not verified" in caplog.text
    [report] = read_reports(tmp_path / "b" / REPORTS)
    assert "agrees" not in report


def test_a_line_cut_short_by_a_crash__is_reported_again(tmp_path: Path):
    (tmp_path / REPORTS).write_text('{"name": "verify-1-0-0-0101010101010101", "agrees": tr')
    one, asked = verifier(tmp_path, WorkStatus("queued"))
    one.observe(replace(commits(turns=1, slots=1)))
    assert asked == ["verify-1-0-0-0101010101010101"]


def test_a_claim_of_a_turn_done_again__is_judged_by_its_own_start(tmp_path: Path):
    asked: list[dict] = []

    def ask(task: str, name: str, request: dict) -> WorkStatus:
        asked.append(request)
        return WorkStatus("queued")

    config = from_dict({"name": "eye", "network": "n", "roles": ["verifier"], "sample_rate": 1.0}, tmp_path)
    old, new = b"\2" * 32, b"\3" * 32
    claims = tuple(Commit(turn, 1, 0, ME, 1, 9, start, ROOT, 9) for turn, start in ((1, old), (2, new)))
    made = tuple(
        Checkpoint(turn, 0, AGGREGATOR_SEAT, OTHER, 1, 9, ROOT, root, 9, cid=root)
        for turn, root in ((0, old), (1, new))
    )
    again = view(
        1_000, commits=claims, checkpoints=made, checkpoint_roots={0: ROOT, 1: new}, checkpoint_cids={1: (new,)}
    )
    Verifier(config, ask, b"s").observe(again)
    assert [(r["round"], r["start_root"], r["checkpoint"]) for r in asked if "slot" in r] == [
        (1, old.hex(), raw_cid(old)),
        (1, new.hex(), raw_cid(new)),
    ]


def test_a_claim_whose_files_may_be_gone__is_not_drawn(tmp_path: Path):
    one, asked = verifier(tmp_path, WorkStatus("queued"))
    few = commits(turns=1, slots=2)
    paid = [replace(few.commits[0], state=ClaimState.PAID)]
    one.observe(replace(few, commits=paid, now=9 + spare_s(few) + 1))
    assert not one.pending(replace(few, commits=paid, now=9 + spare_s(few) + 1))
    assert asked == []
    one.observe(replace(few, now=9 + spare_s(few) + 1))
    assert len(asked) == 2, "what is not final can still be challenged"
    assert one.pending(replace(few, commits=paid, now=9 + spare_s(few)))
