"""What RPCs say to the view by which a costly call is decided, and what that has a keeper do."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from keepers.decisions.custody_signatures import Heard
from keepers.decisions.custody_statements import CHECKPOINT, Signed, Statement
from keepers.services import custody, second_look
from keepers.services.custody import Custody
from keepers.services.second_look import SecondLook
from keepers.services.sends import Sends
from tests.keepers.test_custody import TURN, WHOLE
from tests.keepers.test_custody import custody as held
from tests.keepers.test_duties import AGGREGATOR, OPENED, view
from tests.keepers.test_duties import ROOT as START
from tests.support.waiting import HANG_S
from zoo_compute.chain import snapshot
from zoo_compute.chain.provider import FailoverProvider
from zoo_compute.errors import FalseLook, RpcsDisagree
from zoo_compute.spec.custodians import Record
from zoo_compute.spec.params import AGGREGATOR_SEAT
from zoo_compute.store.cid import digest_of, raw_cid

HEAD, POINTER = SimpleNamespace(number=5, hash=b"1"), raw_cid(START)


class Shown:
    """One RPC, by what it says the view's block is."""

    def __init__(self, head: Callable[[], Any]) -> None:
        self._head = head
        self.newest = 10**6
        self.w3 = self
        self.eth = self

    def head(self, _: int) -> Any:
        return self._head()

    def wait_for_block(self, seen: int, longest_s: float) -> None: ...

    @property
    def block_number(self) -> int:
        return self.newest


class Place:
    """The aggregator of a job whose custodians hold what it proposes. other: the newest block that another RPC shows."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.sent: list[Any] = []
        self.other: Any = HEAD
        post = lambda *args: SimpleNamespace(contract="Custody", function="post_checkpoint", args=args)  # noqa: E731
        chain: Any = SimpleNamespace(
            params=SimpleNamespace(answer_s=60),
            custody=SimpleNamespace(post_checkpoint=post),
            network=SimpleNamespace(rpcs=("first", "second")),
            w3=SimpleNamespace(provider=FailoverProvider(("first", "second"), 1)),
            head=lambda block: HEAD,
        )
        shown = {"first": Shown(lambda: HEAD), "second": Shown(lambda: self.other)}
        monkeypatch.setattr(second_look, "over_each_rpc", lambda _: shown)
        monkeypatch.setattr(second_look, "shows_job", lambda *_: True)
        monkeypatch.setattr(second_look, "job_events", lambda *_: [])
        record = Record(TURN, 1, mask=0b111, inputs=0b111, signed_at=OPENED)
        monkeypatch.setattr(custody, "read_custody", lambda *_: held(records={TURN: record}))
        value = (START + digest_of(POINTER)).hex()
        heard = Heard(
            {}, {AGGREGATOR_SEAT: {place: Signed(CHECKPOINT, TURN, value, seat=AGGREGATOR_SEAT) for place in range(3)}}
        )
        monkeypatch.setattr(Custody, "_heard", lambda *_: heard)
        statements: Any = SimpleNamespace(mine=Statement, publish=lambda said: None)
        sender: Any = SimpleNamespace(send=self._send)
        self._sends = Sends(sender, SecondLook(chain), lambda: None)
        nobody: Any = SimpleNamespace()
        self.made = Custody(
            chain,
            sender,
            nobody,
            nobody,
            statements,
            self._sends,
            nobody,
            operator=AGGREGATOR,
            turn_s=1,
        )

    def propose(self) -> None:
        seen = view(OPENED, run=replace(WHOLE, turn=TURN, aggregator_due=OPENED + 900))
        self.made.propose(seen, AGGREGATOR_SEAT, 0b111, START, POINTER)
        self._sends.start(seen.job)
        for _, wait in self._sends.finished():
            wait()

    def _send(self, call: Any, value: int) -> Any:
        self.sent.append(call)
        return SimpleNamespace(transaction_hash="0x1")


def test_a_checkpoint_that_custodians_hold__is_posted_once_the_rpcs_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    place = Place(monkeypatch)
    place.other = SimpleNamespace(number=5, hash=b"2")
    with pytest.raises(RpcsDisagree, match=r"Custody\.post_checkpoint waits"):
        place.propose()
    assert place.sent == []
    place.other = HEAD
    place.propose()
    [call] = place.sent
    assert call.args[1:6] == (AGGREGATOR_SEAT, TURN, 0b111, START, digest_of(POINTER))


URLS = ("http://first", "http://second", "http://third")
COMMIT: Any = SimpleNamespace(contract="Settlement", function="commit")
TRUE, FALSE = b"1", b"2"
NEWEST_CHECKPOINT = 3


class Three:
    """RPCs, of which each shows a block's hash: another than TRUE is another chain than the view's. None: it does not answer."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.says: dict[str, bytes | None] = dict.fromkeys(URLS, TRUE)
        self.number = 5
        self.forgot: list[Any] = []
        self.provider = FailoverProvider(URLS, 1)
        chain: Any = SimpleNamespace(
            network=SimpleNamespace(rpcs=URLS),
            w3=SimpleNamespace(provider=self.provider),
            head=lambda number: SimpleNamespace(number=number, hash=TRUE),
            forget_all=lambda: self.forgot.append("all"),
            event_store=SimpleNamespace(forget=self.forgot.append, forget_what_came_from=self.forgot.append),
        )
        events = [SimpleNamespace(name="JobPosted", block=1), SimpleNamespace(name="CheckpointPosted", block=3)]
        self.rpcs = {url: Shown(lambda url=url: self._shown(url)) for url in URLS}
        monkeypatch.setattr(second_look, "over_each_rpc", lambda _: self.rpcs)
        monkeypatch.setattr(second_look, "shows_job", lambda *_: True)
        monkeypatch.setattr(second_look, "job_events", lambda *_: events)
        self._look = SecondLook(chain)

    def _shown(self, url: str) -> Any:
        if self.says[url] is None:
            raise ConnectionError
        return SimpleNamespace(number=self.number, hash=self.says[url])

    def confirm(self, number: int) -> None:
        self.number = number
        seen: Any = SimpleNamespace(block=number, job=1)
        self._look.confirm(COMMIT, seen)

    def others_say(self, hash_: bytes | None) -> None:
        self.says[URLS[1]] = self.says[URLS[2]] = hash_


@pytest.fixture
def three(monkeypatch: pytest.MonkeyPatch) -> Three:
    return Three(monkeypatch)


def test_the_rpc_in_use__is_set_aside_once_it_is_alone_at_two_blocks(three: Three) -> None:
    three.others_say(FALSE)
    for number in (5, 5):
        with pytest.raises(FalseLook, match=r"disagree at block 5(\n|$)"):
            three.confirm(number)
    assert three.provider.trusts_all()
    with pytest.raises(FalseLook, match="http://first is alone, and is not used for 10 minutes"):
        three.confirm(6)
    assert three.provider.trusted() == list(URLS[1:])
    assert three.forgot[-1] == URLS[0], "what it gave before is read again"


@pytest.mark.parametrize("answers", [None, TRUE])
def test_an_rpc_that_lied_while_the_one_in_use_failed__is_the_one_that_is_set_aside(
    three: Three, answers: bytes | None
) -> None:
    """It rests at each second look, and the one in use was doubted in its place."""
    three.says = {URLS[0]: FALSE, URLS[1]: FALSE, URLS[2]: answers}
    for number in (5, 6):
        three.provider.used = {URLS[0], URLS[2]}
        with pytest.raises(FalseLook):
            three.confirm(number)
        assert three.provider.used == set()
    assert three.provider.trusted() == list(URLS[:2])


def test_where_all_that_were_used_show_something_else__none_is_set_aside(three: Three) -> None:
    three.others_say(FALSE)
    three.says[URLS[0]] = FALSE
    for number in range(5, 9):
        three.provider.used = {URLS[0], URLS[2]}
        with pytest.raises(FalseLook):
            three.confirm(number)
    assert three.provider.trusts_all()


def test_the_only_one_that_was_used__is_set_aside_whatever_it_says_later(three: Three) -> None:
    three.others_say(FALSE)
    three.says[URLS[0]] = FALSE
    for number in (5, 6):
        three.provider.used = {URLS[0]}
        with pytest.raises(FalseLook):
            three.confirm(number)
    assert three.provider.trusted() == list(URLS[1:])


def test_an_rpc_that_answers_another_thread_meanwhile__is_no_error(three: Three) -> None:
    class Said(dict[str, bool]):
        def get(self, url: Any, default: Any = None) -> Any:
            if url:
                three.provider.used.add(URLS[2])
            return super().get(url, default)

    three.provider.used = {URLS[0], URLS[1]}
    said = Said({URLS[1]: False, URLS[2]: False})
    assert second_look._suspect(three.provider, "", said) == URLS[0]


def test_a_passing_fork__sets_no_rpc_aside(three: Three) -> None:
    """Of one block; or the others had not indexed the events yet."""
    for number in (5, 7):
        three.others_say(FALSE)
        with pytest.raises(FalseLook):
            three.confirm(number)
        three.others_say(TRUE)
        three.confirm(number + 1)
    assert three.provider.trusts_all()


def test_what_was_read_falsely__is_read_again_from_the_newest_checkpoint(three: Three) -> None:
    three.others_say(FALSE)
    with pytest.raises(FalseLook):
        three.confirm(5)
    assert three.forgot == ["all", NEWEST_CHECKPOINT]


def test_a_view_that_not_even_the_rpc_in_use_shows__is_false(three: Three) -> None:
    """It is from one that was used for a moment, and lied."""
    for url in URLS:
        three.says[url] = FALSE
    with pytest.raises(FalseLook):
        three.confirm(5)


def test_a_view__waits_for_two_that_say_the_same_once_one_is_set_aside(three: Three) -> None:
    """It may be from the one that was set aside, since the others did not answer."""
    three.provider.set_aside(URLS[0])
    del three.rpcs[URLS[0]]
    three.others_say(None)
    with pytest.raises(RpcsDisagree):
        three.confirm(5)
    three.says[URLS[1]] = TRUE
    three.confirm(6)


def test_where_no_rpc_answers__a_deadline_does_not_wait(three: Three) -> None:
    three.others_say(None)
    three.confirm(5)
    three.says[URLS[0]] = None
    three.confirm(6)


def test_a_block_that_the_others_do_not_have__is_false(three: Three) -> None:
    """One that is ahead of the others may lie about time."""
    for url in URLS[1:]:
        three.rpcs[url].newest = 4
    with pytest.raises(FalseLook):
        three.confirm(5)


def test_an_event_that_one_rpc_kept_back_between_two_looks__is_missed_though_a_checkpoint_followed(
    three: Three, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a commitment of mine, my next round began at zero, and that was false."""
    names = {1: "JobPosted", 100: "CheckpointPosted", 150: "ResultsCommitted", 200: "CheckpointPosted"}
    true = [SimpleNamespace(name=name, block=block) for block, name in names.items()]

    def history(_: Any, *, since: int, job: int) -> Any:
        return SimpleNamespace(events_until=lambda head: [each for each in true if since <= each.block <= head.number])

    monkeypatch.setattr(snapshot, "History", history)
    monkeypatch.setattr(snapshot, "_read_job", lambda *args: replace(view(1), block=args[2].number))
    monkeypatch.setattr(second_look, "shows_job", snapshot.shows_job)
    for number, is_true in ((120, True), (220, False)):
        shown = [each for each in true if each.block <= number and each.block != 150]
        monkeypatch.setattr(second_look, "job_events", lambda *_, shown=shown: shown)
        three.number = number
        with nullcontext() if is_true else pytest.raises(FalseLook):
            three._look.confirm(COMMIT, replace(view(1), block=number))
    assert three.forgot[-1] <= 150


def test_rpcs_that_hang__hold_nothing_up_together(three: Three, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(second_look, "ANSWER_S", 0.2)
    end, ended = threading.Event(), []
    for url in URLS[1:]:
        three.rpcs[url] = Shown(lambda: ended.append(end.wait(HANG_S)))
    three.confirm(5)
    assert ended == []
    end.set()
