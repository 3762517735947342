"""The parts of the keepers' benchmark measure what they say: all past events are read once, and reactions are paired with what called for
them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from benchmarks.network import keeper_answers, keeper_reactions, keeper_starts, past_chain
from benchmarks.network.keeper_reactions import KINDS, Reactions, percentile, summary
from zoo_compute.chain.events import Event, signatures

SCOPE = {"job": 3, "turn": 1, "seat": 0, "author": 7, "lane": 130}


def test_starts__read_every_event_that_was_missed_once(tmp_path: Path) -> None:
    jobs = 60
    report = keeper_starts.measured(tmp_path, jobs)
    assert report["missed_events"] == jobs * past_chain.PER_JOB
    ranges_and_heads = report["cold_start_requests"]
    assert 1 < ranges_and_heads < 12


def test_past_jobs__have_the_layout_of_the_contracts_events() -> None:
    first, every = past_chain.FIRST_BLOCK, past_chain.Filter([None])
    logs = [log for block in range(first, first + past_chain.BLOCKS_PER_JOB) for log in every.logs_of(block, 1)]
    assert len(logs) == past_chain.PER_JOB
    assert not any(place in log for log in logs for place in ("JOB_", "HASH_", "NUMBER_"))
    assert every.logs_of(first + past_chain.BLOCKS_PER_JOB, 1) == []


def test_past_jobs__are_filtered_by_topics_as_an_rpc_does() -> None:
    posted = next(each.topic for each in signatures() if each.name == "JobPosted")
    job = past_chain.Filter([["0x" + posted.hex()], [f"0x{2:064x}"]])
    found = [log for block in range(1, 20) for log in job.logs_of(block, 3)]
    assert len(found) == 1
    assert f"0x{2:064x}" in found[0]


def test_a_reaction__lasts_from_the_cause_to_the_answer_with_the_same_place() -> None:
    seen = reactions()
    seen.record(event("ChunkDemanded", **SCOPE), 10.0)
    seen.record(event("DemandAnswered", **{**SCOPE, "turn": 2}), 11.0)
    seen.record(event("NodeAsked", id=b"a"), 12.0)
    seen.record(event("LeafShown", id=b"a"), 12.5)
    seen.record(event("DemandAnswered", **SCOPE), 13.0)
    seen.record(event("DemandAnswered", **SCOPE), 99.0)
    assert (seen.seconds["demand"], seen.seconds["ask"]) == ([3.0], [0.5])
    report = summary(seen.seconds)
    assert (report["reactions"], report["reaction_p50_s"], report["reaction_p99_s"]) == (2, 0.5, 3.0)


def test_a_demand_that_nobody_answers__is_counted_as_missed() -> None:
    seen = reactions()
    seen.record(event("ChunkDemanded", **SCOPE), 10.0)
    assert seen.missed(10.0 + keeper_reactions.LAST_S / 2) == 0, "its answer may be on the way"
    assert seen.missed(10.0 + 2 * keeper_reactions.LAST_S) == 1


def test_percentiles__are_values_that_were_measured() -> None:
    hundred = [float(n) for n in range(1, 101)]
    assert [percentile(hundred, percent) for percent in (1, 50, 99, 100)] == [1, 50, 99, 100]
    assert percentile([4.0], 50) == 4.0


def test_answers__are_counted_by_block_and_what_is_missing_is_said() -> None:
    blocks = [Counter(demands=3, asks=2), Counter(demands=4), Counter[str]()]
    report = keeper_answers.report(blocks, asked=10)
    assert (report["answers_per_block"], report["answers_by_kind"]) == (5, {"demands": 4, "asks": 2})
    assert (report["answers_blocks"], report["answers_missed"]) == (2, 1)


def reactions() -> Reactions:
    """Without a chain."""
    seen = Reactions.__new__(Reactions)
    seen.seconds, seen.waiting = {kind: [] for kind in KINDS}, {kind: {} for kind in KINDS}
    return seen


def event(name: str, **args: object) -> Event:
    return Event(name, "", 1, 0, "", b"", args)
