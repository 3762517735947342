"""Disputes whose participants do nothing come to an end: by whom, by which call, and when."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from keepers.decisions.dispute_ends import PLACES, close_delay_s, ending, patience_s
from keepers.services import claims_of_no_job, disputing
from keepers.services.disputing import REFUSED_S
from tests.keepers.test_disputing import MINE, NOW, OPEN, REEXECUTE_S, Clock, Lane, clock, dispute, disputes, opened
from zoo_compute.chain.explorations import DisputeView
from zoo_compute.spec import clocks
from zoo_compute.spec.clocks import DEVNET, PRODUCTION
from zoo_compute.spec.exploration import Status
from zoo_compute.spec.trials import TRIALS
from zoo_compute.spec.watching import NOBODY

_ = clock, disputes  # fixtures
UNIT = DEVNET.exclusive_s
SILENT = 3  # its operator; those with a seat beside it are MINE and 5


def overdue(number: int = 1, **fields: Any) -> DisputeView:
    """Of operator 3, with an ask whose clock ends at NOW."""
    node = opened(number, clocks=replace(OPEN, since=NOW - OPEN.committer_left_s))
    return dispute(number, node, **{"operator": SILENT, **fields})


def test_an_ask_past_its_clock__comes_before_age_and_one_that_is_not_marked_before_others():
    clock = replace(OPEN, since=NOW - OPEN.committer_left_s)
    marked, plain = (
        opened(1, clocks=replace(clock, exhausted=True)),
        opened(2, clocks=replace(clock, since=clock.since + 5)),
    )
    two = dispute(1, marked, plain)
    assert ending(two, NOW, DEVNET) is None
    assert ending(two, NOW + 1, DEVNET) == (NOW, marked)
    assert ending(two, NOW + 6, DEVNET) == (NOW, plain), "silence costs the liar more there"
    assert ending(two, NOW + 10**6, DEVNET) == (NOW, plain), "also when the dispute has aged"


def test_a_claim__is_closed_when_it_is_final_or_aged():
    answered = dispute(1, opened(clocks=replace(OPEN, since=NOW), status=Status.ANSWERED), deadline=NOW)
    final_after = answered.final_after(DEVNET)
    assert final_after is not None
    assert ending(answered, final_after, DEVNET) is None
    assert ending(answered, final_after + 1, DEVNET) == (final_after, None)
    asked = dispute(1, opened(clocks=replace(OPEN, since=NOW + 10**9)), deadline=NOW)
    aged_at = clocks.aged_at(NOW, REEXECUTE_S, DEVNET)
    assert ending(asked, aged_at, DEVNET) is None
    assert ending(asked, aged_at + 1, DEVNET) == (aged_at, None)
    assert ending(replace(asked, deadline=0), aged_at + 1, DEVNET) is None, "its turn is open"


def test_whoever_earned_the_most_by_answers__closes_first():
    def paid(**fees: int) -> DisputeView:
        nodes = []
        for number, (account, fee) in enumerate(fees.items(), 1):
            node = opened(number, status=Status.ANSWERED)
            payment = replace(node.record.payment, fee=fee)
            record = replace(node.record, payment=payment, answerer=NOBODY if account == "owner" else account)
            nodes.append(replace(node, record=record))
        return dispute(1, *nodes)

    author, one, two = {"hot", NOBODY}, {"one"}, {"two"}
    for fees, first in (
        ({"owner": 2, "hot": 5, "one": 4}, author),
        ({"owner": 5, "one": 6}, one),
        ({"owner": 5, "one": 5}, author),
        ({"one": 2, "two": 3}, two),
        ({}, author),
    ):
        waits = [close_delay_s(paid(**fees), accounts, DEVNET) for accounts in (author, one, two)]
        assert waits == [0 if accounts == first else UNIT for accounts in (author, one, two)]


def test_keepers__take_turns_and_those_with_a_seat_come_first():
    seated = [2, 5, 9]
    for key in (bytes([7]), bytes([8])):
        order = sorted(range(1, 20), key=lambda operator: patience_s(operator, seated, key, PRODUCTION))
        delays = Counter(patience_s(operator, seated, key, PRODUCTION) for operator in seated)
        assert set(order[:3]) == set(seated)
        assert sorted(delays) == [3_600, 5_400, 7_200]
    first = {min(seated, key=lambda each: patience_s(each, seated, bytes([key]), PRODUCTION)) for key in range(3)}
    assert first == set(seated), "each pays for a third of the disputes"
    others = {patience_s(operator, seated, b"k", PRODUCTION) for operator in range(100, 200)}
    assert (min(others), max(others), len(others)) == ((PLACES + 2) * 1_800, (2 * PLACES + 1) * 1_800, PLACES)
    many = range(1, 65)
    assert max(patience_s(operator, many, b"k", PRODUCTION) for operator in many) == (PLACES + 1) * 1_800
    assert max(others) < clocks.bound_s(0, PRODUCTION), "long before the dispute ages"


def test_an_ask_of_others__is_expired_by_a_keeper_whose_turn_it_is(tmp_path: Path, disputes: list[DisputeView]):
    place = Lane(tmp_path)
    disputes += [overdue()]
    turn = NOW + patience_s(MINE, {MINE, 5}, disputes[0].key, DEVNET)
    place.head.timestamp = turn
    assert place.lane.poll_once() == []
    assert place.names == []
    place.head.timestamp = turn + 1
    assert place.lane.poll_once() == [], "it is no dispute of mine"
    [(name, args, value)] = place.sent
    assert (name, args[2], value) == ("expire", disputes[0].picture.open_asks[0].id, 0)
    assert place.asked == [], "nothing is computed for it"


def test_a_keeper_without_an_operator__pays_for_nobodys_disputes(tmp_path: Path, disputes: list[DisputeView]):
    place = Lane(tmp_path, operator=0)
    disputes += [overdue()]
    place.head.timestamp = NOW + 10**6
    place.lane.poll_once()
    assert place.names == []


def test_endings_of_others__are_sent_one_a_look(tmp_path: Path, disputes: list[DisputeView]):
    """And never in place of what is due in my own disputes."""
    place = Lane(tmp_path)
    place.head.timestamp = NOW + 4 * UNIT + 1
    disputes += [overdue(1), overdue(2), dispute(3, opened(3, clocks=replace(OPEN, since=NOW)))]
    place.answers["author"] = [disputing.Call("answer", (1,), id=b"1")]
    place.lane.poll_once()
    assert sorted(place.names) == ["answer", "expire"]


def test_a_claim_that_lost_its_data__is_closed_where_its_ask_does_not_expire(
    tmp_path: Path, disputes: list[DisputeView], clock: Clock
):
    place = Lane(tmp_path)
    place.refuses, place.head.timestamp = {"expire"}, NOW + 4 * UNIT + 1
    disputes += [overdue()]
    place.lane.poll_once()
    assert place.names == []
    place.lane.poll_once()
    assert place.names == ["close"]
    place.refuses = set()
    clock.sleep(REFUSED_S)
    place.lane.poll_once()
    assert place.names == ["close", "expire"]


@pytest.mark.parametrize(("later_s", "names"), [(0, []), (1, ["close"])])
def test_an_aged_trial__is_closed_by_its_operator_and_by_others(
    tmp_path: Path, disputes: list[DisputeView], monkeypatch: pytest.MonkeyPatch, later_s: int, names: list[str]
):
    answer: Any = SimpleNamespace(claim_hash=b"hash", view=SimpleNamespace(fields=tuple(range(8))))
    monkeypatch.setattr(claims_of_no_job, "trial_answers", lambda chain, operator: [answer])
    node = opened(clocks=replace(OPEN, since=NOW + 10**9))
    aged_at = clocks.aged_at(NOW, REEXECUTE_S, DEVNET)
    for operator, since in ((MINE, aged_at), (SILENT, aged_at + patience_s(MINE, (), bytes([1]) * 32, DEVNET))):
        place = Lane(tmp_path)
        disputes[:] = [dispute(1, node, job=TRIALS, operator=operator, deadline=NOW)]
        place.head.timestamp = since + later_s
        place.lane.poll_once()
        assert place.names == names


def test_an_asker_that_comes_late__has_silence_convict_and_does_not_void_the_claim(
    tmp_path: Path, disputes: list[DisputeView]
):
    place = Lane(tmp_path, operator=0)
    node = opened(asker="0x" + 20 * "ab", clocks=replace(OPEN, since=NOW))
    disputes += [dispute(1, node, operator=SILENT, deadline=NOW)]
    place.head.timestamp = clocks.aged_at(NOW, REEXECUTE_S, DEVNET) + 1
    place.answers["asker"] = [disputing.Call("expire", (1, (), node.id, ()), id=node.id)]
    place.lane.poll_once()
    assert place.names == ["expire"]
