"""A job that a reorganisation posted under another number is not posted, and paid, again."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from zoo_compute.chain.views import JobState
from zoo_compute.jobs import submission

MINE, OTHERS = b"M" * 32, b"X" * 32
ME = "0xA"


def active(
    monkeypatch: pytest.MonkeyPatch, jobs: dict[int, tuple[bytes, JobState]], known: dict[str, Any]
) -> int | None:
    """jobs: by number, manifest and state, each posted in a block of its number. The record names what was posted."""

    def job(number: int) -> Any:
        manifest, state = jobs.get(number, (b"", JobState.OPEN))
        return SimpleNamespace(submitter=ME if manifest == MINE else "0xB", manifest=manifest, state=state)

    def scan(chain: Any, first: int, last: int, names: Any) -> Any:
        for number, (manifest, _) in sorted(jobs.items()):
            if first <= number <= last:
                submitter = ME if manifest == MINE else "0xB"
                yield SimpleNamespace(args={"submitter": submitter, "manifest": manifest, "job": number})

    monkeypatch.setattr(submission, "scan", scan)
    chain = SimpleNamespace(tasks=SimpleNamespace(jobs=job), head=lambda: SimpleNamespace(number=20))
    sender: Any = SimpleNamespace(address=ME, chain=chain)
    prepared: Any = SimpleNamespace(manifest=SimpleNamespace(digest=MINE))
    return submission._active_job(sender, prepared, known)


@pytest.mark.parametrize(
    ("jobs", "expected"),
    [
        ({7: (MINE, JobState.OPEN)}, 7),
        ({7: (OTHERS, JobState.OPEN), 8: (MINE, JobState.OPEN)}, 8),  # p_sub: it was posted a second time
        ({7: (MINE, JobState.CANCELLED)}, None),
        ({7: (OTHERS, JobState.OPEN), 8: (MINE, JobState.CANCELLED)}, None),
        ({7: (OTHERS, JobState.OPEN)}, None),  # of another devnet
        ({3: (MINE, JobState.OPEN), 7: (OTHERS, JobState.OPEN)}, None),  # of an earlier submission
    ],
)
def test_the_recorded_job__is_recognised_under_another_number(
    monkeypatch: pytest.MonkeyPatch, jobs: dict[int, tuple[bytes, JobState]], expected: int | None
) -> None:
    assert active(monkeypatch, jobs, {"job": 7, "since": 6}) == expected
    assert active(monkeypatch, jobs, {"since": 6}) is None
