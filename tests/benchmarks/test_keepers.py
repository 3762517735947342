"""The benchmark of keepers measures what it says: all events of the past jobs are read, and none twice."""

from __future__ import annotations

from pathlib import Path

from benchmarks.network import past_chain
from benchmarks.network.keepers import starts


def test_starts__read_every_event_once(tmp_path: Path) -> None:
    jobs = 60
    report = starts(tmp_path, jobs)
    assert report["events"] == jobs * past_chain.PER_JOB
    ranges_and_heads = report["cold_start_requests"]
    assert ranges_and_heads < 12


def test_past_jobs__have_the_layout_of_the_contracts_events() -> None:
    first = past_chain.FIRST_BLOCK
    logs = [log for block in range(first, first + past_chain.BLOCKS_PER_JOB) for log in past_chain.logs_of(block, 1)]
    assert len(logs) == past_chain.PER_JOB
    assert not any(place in log for log in logs for place in ("JOB_", "HASH_", "NUMBER_"))
    assert past_chain.logs_of(first + past_chain.BLOCKS_PER_JOB, 1) == []
