"""In a job with custodians: of whom a keeper demands what is missing, and whom it looks after."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from keepers.decisions import custody as custody_decisions
from keepers.decisions.demands import demand_of_silent, signers_to_check
from keepers.decisions.duties import duties
from keepers.decisions.orders import DemandChunk, Progress, Send
from keepers.services import signer_checks
from keepers.services.signer_checks import LOOKS, SignerChecks
from repops.commitments import state_root
from repops.files import state_bytes
from tests.keepers.test_demands import (
    ANSWER_S,
    CLAIM,
    MADE_BY_OTHER,
    OPENED,
    PLACES,
    THE_AGGREGATOR,
    THE_PROVIDER,
    WINDOWED,
    closes,
    demand,
    demanded,
    job,
    missing,
)
from tests.keepers.test_duties import ME, OTHER
from zoo_compute.chain.custody import CustodyView, words_of
from zoo_compute.chain.views import AGGREGATOR_SEAT, Checkpoint, ClaimState, JobState, JobView
from zoo_compute.formats.bundles import Pointer
from zoo_compute.spec.custodians import CustodyStatus, Member, Record, Request, Role
from zoo_compute.spec.custodians import Progress as CustodyProgress
from zoo_compute.spec.params import CUSTODIANS_AT, STRANGERS_LANE
from zoo_compute.store import BlockStore, Gateway
from zoo_compute.store.cid import cid_of, digest_of
from zoo_compute.store.unixfs import CHUNK

FIRST, SECOND, THIRD = 4, 5, 6  # custodians
KEYS = [f"0x{number:040x}" for number in range(3)]
COMMITTEE = tuple(Member(operator, 0, key) for operator, key in zip((FIRST, SECOND, THIRD), KEYS, strict=True))
BEHIND = Role(100, CustodyStatus.CUSTODIAN)
# Places 0 and 1 signed for the checkpoint from which turn 1 starts, and for seat 0 of turn 0.
RECORD = Record(0, 1, mask=0b01, inputs=0b011, checkpoint=0b011, signed_at=OPENED)
CUSTODY = CustodyView(
    Request(10, 100, OPENED),
    CustodyProgress(3, 4, version=1),
    10**6,
    {1: COMMITTEE},
    {0: RECORD},
    dict.fromkeys((FIRST, SECOND, THIRD), BEHIND),
)
LACKING = missing(OPENED + 5, AGGREGATOR_SEAT)


def held(now: int, custody: CustodyView = CUSTODY, **changes: object) -> JobView:
    made = job(now, checkpoints=(MADE_BY_OTHER,), commits=(), run=replace(WINDOWED, missing=0b11), custody=custody)
    terms = replace(made.terms, policy=3 << CUSTODIANS_AT)
    return replace(made, terms=terms, **changes)  # type: ignore[arg-type]


# -- what is missing


def test_a_checkpoint_nobody_serves__is_demanded_of_one_that_signed_for_it() -> None:
    assert demanded(duties(held(OPENED + 6), THE_PROVIDER, LACKING)) == [DemandChunk(MADE_BY_OTHER, 0, PLACES, 0)]
    chair = replace(THE_AGGREGATOR, operator=9)
    [asked] = demanded(duties(held(OPENED + 30), chair, missing(OPENED + 20, AGGREGATOR_SEAT)))
    assert asked == DemandChunk(MADE_BY_OTHER, AGGREGATOR_SEAT, PLACES, AGGREGATOR_SEAT % 2)


def test_the_next_demand__is_of_another_signer() -> None:
    for end, lane, help_tx in (("forfeited", 145, ""), ("forfeited", 145, "0x1"), ("", 1, ""), ("bytes", 0, "")):
        before = demand(MADE_BY_OTHER, lane, operator=FIRST, end=end, help_tx=help_tx, opened_at=OPENED - ANSWER_S - 60)
        view = held(OPENED + 6, demands=(before,))
        assert [d.signer for d in demanded(duties(view, THE_PROVIDER, LACKING))] == [1]
    answered = demand(MADE_BY_OTHER, 145, operator=FIRST, end="bytes")
    assert [d.signer for d in demanded(duties(held(OPENED + 6, demands=(answered,)), THE_PROVIDER, LACKING))] == [0]


def test_a_signer_that_my_lane_asks_for_two_claims_already__is_not_asked_for_a_third() -> None:
    others = [replace(MADE_BY_OTHER, turn=turn) for turn in (5, 6)]
    busy = tuple(demand(made, 0, operator=FIRST) for made in others)
    for demands, signer in (
        (busy, 1),
        (busy[:1], 0),
        ((replace(busy[0], end="bytes"), busy[1]), 0),
        (tuple(replace(each, lane=145) for each in busy), 0),
        (tuple(replace(each, operator=THIRD) for each in busy), 0),
    ):
        assert [d.signer for d in demanded(duties(held(OPENED + 6, demands=demands), THE_PROVIDER, LACKING))] == [
            signer
        ]
    both = busy + tuple(replace(each, operator=SECOND) for each in busy)
    assert demanded(duties(held(OPENED + 6, demands=both), THE_PROVIDER, LACKING)) == [], "none until one answers"


def test_nothing_is_demanded__of_authors_of_the_open_turn_or_of_those_who_lost_their_reserve() -> None:
    open_turn = replace(held(OPENED + 60), commits=(replace(CLAIM, operator=OTHER),))
    assert demanded(duties(open_turn, replace(THE_AGGREGATOR, operator=9), missing(OPENED + 59))) == []
    gone = replace(CUSTODY, roles={FIRST: replace(BEHIND, reserve=0), SECOND: BEHIND})
    assert [d.signer for d in demanded(duties(held(OPENED + 6, gone), THE_PROVIDER, LACKING))] == [1]
    helped = replace(CUSTODY, roles={FIRST: replace(BEHIND, reserve=75), SECOND: BEHIND})
    assert [d.signer for d in demanded(duties(held(OPENED + 6, helped), THE_PROVIDER, LACKING))] == [1]
    last = replace(helped, roles={FIRST: replace(BEHIND, reserve=75)})
    assert [d.signer for d in demanded(duties(held(OPENED + 6, last), THE_PROVIDER, LACKING))] == [0]
    for lacking in (replace(CUSTODY, roles={}), replace(CUSTODY, records={})):
        assert demanded(duties(held(OPENED + 6, lacking), THE_PROVIDER, LACKING)) == []


def test_a_demand_of_me__is_closed_by_others() -> None:
    asked = demand(MADE_BY_OTHER, 145, operator=ME, opened_at=OPENED - 100)
    stakes = held(0).stakes
    assert closes(duties(held(OPENED + 90, demands=(asked,), stakes=stakes), THE_PROVIDER, Progress())) == []
    other = replace(asked, operator=FIRST)
    assert len(closes(duties(held(OPENED + 90, demands=(other,), stakes=stakes), THE_PROVIDER, Progress()))) == 1


# -- whom I look after


def test_whoever_has_a_seat__looks_after_signers_but_itself_and_the_checkpoints_author() -> None:
    assert signers_to_check(held(OPENED), THE_PROVIDER, MADE_BY_OTHER) == {0: FIRST, 1: SECOND}
    for operator in (ME, OTHER):
        committee = (replace(COMMITTEE[0], operator=operator), *COMMITTEE[1:])
        mine = replace(CUSTODY, committees={1: committee}, roles={operator: BEHIND, SECOND: BEHIND})
        assert signers_to_check(held(OPENED, mine), THE_PROVIDER, MADE_BY_OTHER) == {1: SECOND}
    for reserve, looked_after in ((76, {0: FIRST, 1: SECOND}), (75, {1: SECOND})):
        roles = {FIRST: Role(reserve, CustodyStatus.LEFT), SECOND: BEHIND}
        lost = signers_to_check(held(OPENED, replace(CUSTODY, roles=roles)), THE_PROVIDER, MADE_BY_OTHER)
        assert lost == looked_after, "it lost what it costs that others answered for it"
    stranger = replace(THE_PROVIDER, operator=77)
    assert signers_to_check(held(OPENED), stranger, MADE_BY_OTHER) == {}
    latest = MADE_BY_OTHER.deadline - 2 * THE_PROVIDER.answer_s
    assert signers_to_check(held(latest), THE_PROVIDER, MADE_BY_OTHER)
    assert signers_to_check(held(latest + 1), THE_PROVIDER, MADE_BY_OTHER) == {}, "no demand would end in time"


def test_of_a_silent_signer__one_chunk_is_demanded_from_the_lane_that_stops_no_clocks() -> None:
    silent = Progress(silent=((MADE_BY_OTHER, 1),))
    expected = [DemandChunk(MADE_BY_OTHER, STRANGERS_LANE, {0: None}, 1, is_check=True)]
    assert list(demand_of_silent(held(OPENED), THE_PROVIDER, silent)) == expected
    assert expected[0] in duties(held(OPENED, state=JobState.ENDED), THE_PROVIDER, silent), "of the last one, too"
    mine, theirs = (demand(MADE_BY_OTHER, 145, operator=SECOND, end="bytes", demander=who) for who in ("0xP", "0xA"))
    of_another = replace(theirs, operator=FIRST)
    for demands in ((theirs,), 3 * (of_another,), (replace(mine, operator=FIRST),)):
        assert list(demand_of_silent(held(OPENED, demands=demands), THE_PROVIDER, silent)) == expected
    for demands in ((mine,), (replace(mine, end=""),), (replace(of_another, end="", opened_at=OPENED),)):
        assert list(demand_of_silent(held(OPENED, demands=demands), THE_PROVIDER, silent)) == []
    both = Progress(silent=((MADE_BY_OTHER, 1), (MADE_BY_OTHER, 0)))
    assert list(demand_of_silent(held(OPENED), THE_PROVIDER, both)) == expected, "one after the other"
    latest = MADE_BY_OTHER.deadline - 2 * ANSWER_S
    assert list(demand_of_silent(held(latest), THE_PROVIDER, silent)) == expected
    assert list(demand_of_silent(held(latest + 1), THE_PROVIDER, silent)) == []


def test_others_demands__shield_no_signer() -> None:
    """Answered ones do not count; nor do open ones that leave me no time; and where the strangers' lane is used up, I use my own."""
    silent = Progress(silent=((MADE_BY_OTHER, 1),))
    own = [DemandChunk(MADE_BY_OTHER, 0, {0: None}, 1, is_check=True)]
    theirs = demand(MADE_BY_OTHER, 145, operator=SECOND, end="bytes")
    assert list(demand_of_silent(held(OPENED, demands=4 * (theirs,)), THE_PROVIDER, silent)) == own
    latest = MADE_BY_OTHER.deadline - 2 * ANSWER_S
    enough = latest - ANSWER_S * 3 // 2
    for opened_at, due in ((enough - 1, []), (enough, own)):
        for operator in (FIRST, SECOND):
            open_ = replace(theirs, end="", opened_at=opened_at, operator=operator)
            assert list(demand_of_silent(held(latest, demands=(open_,)), THE_PROVIDER, silent)) == due
    for used, due in ((1, own), (2, [])):
        spent = (*4 * (theirs,), *used * (replace(theirs, operator=FIRST, lane=0),))
        assert list(demand_of_silent(held(OPENED, demands=spent), THE_PROVIDER, silent)) == due, (
            "half is for my own data"
        )
    timed = replace(theirs, end="", opened_at=enough - 1)
    for spent in ((*3 * (theirs,), timed), (*4 * (theirs,), replace(timed, lane=1))):
        made = demand_of_silent(held(latest - 1, demands=spent), THE_PROVIDER, silent)
        assert list(made) == own, "an accomplice's demand does not answer mine"


def test_a_signer_that_answered_my_checks__is_asked_no_more_in_this_job() -> None:
    silent = Progress(silent=((MADE_BY_OTHER, 1),))
    before = replace(MADE_BY_OTHER, turn=MADE_BY_OTHER.turn - 1)
    mine = demand(before, 145, operator=SECOND, end="bytes", demander="0xP")
    for demands, due in (
        ((mine,), 1),
        (2 * (mine,), 0),
        ((mine, replace(mine, demander="0xA")), 1),
        ((mine, replace(mine, operator=FIRST)), 1),
        ((mine, replace(mine, end="forfeited")), 1),
    ):
        assert len(list(demand_of_silent(held(OPENED, demands=demands), THE_PROVIDER, silent))) == due


def test_a_signer_that_is_asked_for_two_claims__is_waited_for__or_asked_from_my_lane() -> None:
    """One demand without an answer costs it its place: so it is asked for one claim a look."""
    silent = Progress(silent=((MADE_BY_OTHER, 1),))
    own = [DemandChunk(MADE_BY_OTHER, 0, {0: None}, 1, is_check=True)]
    others = [replace(MADE_BY_OTHER, turn=turn) for turn in (5, 6)]
    latest = MADE_BY_OTHER.deadline - 2 * ANSWER_S
    for opened_at, due in ((latest - ANSWER_S * 3 // 2 - 1, []), (latest - ANSWER_S * 3 // 2, own)):
        busy = tuple(demand(made, 145, operator=SECOND, opened_at=opened_at) for made in others)
        assert list(demand_of_silent(held(latest, demands=busy), THE_PROVIDER, silent)) == due
        mine = tuple(replace(each, lane=0) for each in busy)
        assert list(demand_of_silent(held(latest, demands=busy + mine), THE_PROVIDER, silent)) == []
    [first] = list(demand_of_silent(held(latest, demands=busy[:1]), THE_PROVIDER, silent))
    assert first.lane == STRANGERS_LANE
    record = {made.turn: RECORD for made in others}
    many = held(latest, replace(CUSTODY, records=record), checkpoints=tuple(others))
    both = Progress(silent=tuple((made, 1) for made in others))
    assert [d.claim for d in demand_of_silent(many, THE_PROVIDER, both)] == others[:1]


class Looks:
    """A keeper with a seat, and the store of the custodian it looks after."""

    def __init__(self, folder: Path) -> None:
        state = {"w": np.arange(2**20, dtype=np.float32)}  # 16 blocks, and their root
        self.mine, self.theirs = BlockStore(folder / "mine"), BlockStore(folder / "theirs")
        for store in (self.mine, self.theirs):
            self.state = store.add(state_bytes(state))
            pointer = Pointer(1, 0, self.state, state_root(state), 0b11)
            self.pointer = store.add(pointer.to_bytes())
        self.made = replace(MADE_BY_OTHER, cid=digest_of(self.pointer), deadline=OPENED + 10_000)
        self.checks = SignerChecks(self.mine, poll_s=0.1)

    def silent(self, now: int, made: Checkpoint | None = None) -> tuple[tuple[Checkpoint, int], ...]:
        only = replace(CUSTODY, roles={SECOND: BEHIND})
        return self.checks.silent(held(now, only, checkpoints=(made or self.made,)), THE_PROVIDER)

    def look(self) -> None:
        for _ in range(LOOKS):
            self.checks.poll_once()


@pytest.fixture
def looks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Looks:
    monkeypatch.setattr(signer_checks, "AGAIN", 10**9)
    return Looks(tmp_path)


def test_a_signer_that_serves_what_it_signed_for__is_left_alone(looks: Looks) -> None:
    with Gateway(looks.theirs) as gateway:
        looks.checks.endpoints = {SECOND: "http://127.0.0.1:1"}
        assert looks.silent(OPENED) == ()
        looks.look()
        looks.checks.endpoints = {SECOND: gateway.url}
        looks.look()
        looks.look()
        assert looks.silent(OPENED + 900) == ()


def test_a_signer_that_served_and_deletes__is_found__once_it_served_nothing_for_my_patience(looks: Looks) -> None:
    patience = int(THE_PROVIDER.demand_after_s)
    with Gateway(looks.theirs) as gateway:
        looks.checks.endpoints = {SECOND: gateway.url}
        looks.silent(OPENED)
        looks.look()
        assert looks.silent(OPENED + 900) == ()
        looks.theirs.unpin(looks.state)
        looks.theirs.collect_garbage()
        looks.look()
    assert looks.silent(OPENED + 900 + patience - 1) == ()
    assert looks.silent(OPENED + 900 + patience) == ((looks.made, 1),)


def test_of_those_that_serve__one_is_looked_at_again_now_and_then(
    looks: Looks, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, chosen = [], []

    monkeypatch.setattr(signer_checks, "AGAIN", 0)

    def serving(files: object, places: dict[str, int], scope: object) -> set[str]:
        asked.append(sorted(places))
        chosen.extend(places.values())
        return set(places)

    monkeypatch.setattr(signer_checks, "serving", serving)
    looks.checks.endpoints = {operator: f"http://{operator}" for operator in (FIRST, SECOND)}
    looks.checks.silent(held(OPENED, checkpoints=(looks.made,)), THE_PROVIDER)
    for _ in range(40):
        looks.checks.poll_once()
    assert asked == [[f"http://{operator}" for operator in (FIRST, SECOND)]], "chance chose no later look"
    monkeypatch.setattr(signer_checks, "AGAIN", 10**9)
    for _ in range(40):
        looks.checks.poll_once()
    assert sorted({tuple(urls) for urls in asked[1:]}) == [("http://4",), ("http://5",)]
    assert len(set(chosen)) == len(chosen), "every time for another block"


def test_a_custodian_that_kept_a_part__is_named_once_it_was_asked_for_another(
    looks: Looks, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says that it pins all, and has the root and the first block."""
    kept = cid_of(looks.theirs.read(looks.state, max_bytes=2**30)[:CHUNK])
    for block in (looks.theirs.root / "blocks").rglob("baf*"):
        if block.name not in (kept, looks.state, looks.pointer):
            block.unlink()
    thrown = [5]
    monkeypatch.setattr(signer_checks.secrets, "randbits", lambda _: thrown[0])
    with Gateway(looks.theirs) as gateway:
        looks.checks.endpoints = {SECOND: gateway.url}
        looks.silent(OPENED)
        looks.checks.poll_once()
        assert looks.silent(OPENED + 900) == ()
        thrown[0] = 3 * CHUNK
        looks.checks.poll_once()
        thrown[0] = 5
        looks.checks.poll_once()
    assert looks.silent(OPENED + 1_800) == ((looks.made, 1),), "it is asked for what it lacked until it has it"
    with Gateway(looks.mine) as gateway:
        looks.checks.endpoints = {SECOND: gateway.url}
        looks.checks.poll_once()
    assert looks.silent(OPENED + 1_800) == ()


def test_a_signer_that_serves_nothing__is_named_after_my_patience(looks: Looks) -> None:
    with Gateway(BlockStore(looks.theirs.root.parent / "empty")) as gateway:
        looks.checks.endpoints = {SECOND: gateway.url}
        assert looks.silent(OPENED) == ()
        for _ in range(LOOKS):
            assert looks.silent(OPENED + 900) == (), "not before it was asked often enough"
            looks.checks.poll_once()
    after = OPENED + int(THE_PROVIDER.demand_after_s)
    assert looks.silent(after - 1) == ()
    assert looks.silent(after) == ((looks.made, 1),)
    assert looks.silent(after, replace(looks.made, state=ClaimState.PAID)) == (), "it answers for it no more"
    assert looks.silent(after) == (), "forgotten meanwhile"


def test_a_custodian_without_an_endpoint__or_with_one_that_is_no_gateway__serves_nothing(looks: Looks) -> None:
    for endpoints in ({}, {SECOND: "/dns/one/tcp/4001"}, {SECOND: "http://"}):
        looks.checks = SignerChecks(looks.mine, poll_s=0.1)
        looks.checks.endpoints = endpoints
        looks.silent(OPENED)
        looks.look()
        assert looks.silent(OPENED + 900) == ((looks.made, 1),)


def test_a_checkpoint_that_i_cannot_read__says_nothing_of_its_signers(
    looks: Looks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(signer_checks, "FETCH_TIMEOUT_S", 0.1)
    junk = looks.mine.add(b"junk")
    for cid in (b"\7" * 32, digest_of(junk)):
        unknown = replace(looks.made, cid=cid)
        looks.checks = SignerChecks(looks.mine, poll_s=0.1)
        looks.silent(OPENED, unknown)
        looks.look()
        assert looks.silent(OPENED + 900, unknown) == ()


# -- whose reserve is forfeit


@pytest.mark.parametrize("left", [0, 75, 99])
def test_a_custodian_without_all_of_its_reserve__is_expelled_once_no_draw_is_scheduled(left: int) -> None:
    gone = replace(CUSTODY, roles={**CUSTODY.roles, SECOND: replace(BEHIND, reserve=left)})
    expected = Send("custody", "expel", (1, words_of(COMMITTEE), 1))
    assert list(custody_decisions.expel_duty(held(OPENED), gone)) == [expected]
    assert list(custody_decisions.expel_duty(held(OPENED), CUSTODY)) == []
    drawn = replace(gone, progress=replace(gone.progress, draw_block=7))
    assert list(custody_decisions.expel_duty(held(OPENED), drawn)) == []
    assert list(custody_decisions.expel_duty(held(OPENED, state=JobState.ENDED), gone)) == []
