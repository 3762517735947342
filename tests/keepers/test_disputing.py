"""The lane of disputes: which are its own, what it does in which order, and that work which failed is asked for again."""

from __future__ import annotations

from dataclasses import astuple, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from keepers.queue.work_queue import WorkStatus
from keepers.services import challenging, claims_of_no_job, dispute_work, disputing, retries
from keepers.services.challenging import Asking, salt_of, seal_of, unit_id
from keepers.services.dispute_work import RETRY_S, DisputeWork
from keepers.services.disputing import REFUSED_S, Disputing
from zoo_compute.chain.explorations import DisputeView
from zoo_compute.chain.generated.bindings import admissions as bindings
from zoo_compute.disputes.exploration import Call, Exploration, Opened
from zoo_compute.disputes.roles import AUTHORS, FALSE
from zoo_compute.errors import NeedsOperator, Refusal
from zoo_compute.json_codec import encode
from zoo_compute.operators.admission import TrialAnswer
from zoo_compute.spec.admissions import claim_of
from zoo_compute.spec.clocks import DEVNET, PathClocks
from zoo_compute.spec.descents import frame_hash
from zoo_compute.spec.disputed_claims import RESULT
from zoo_compute.spec.exploration import Node, Origin, Payment, Status, Tree, TreePosition
from zoo_compute.spec.frames import EMPTY, Frame, Kind
from zoo_compute.spec.trials import TRIALS, Workload

ME, OTHER = "0x" + 20 * "ab", "0x" + 20 * "cd"
NOW, MINE, REEXECUTE_S = 10_000, 7, 5
OPEN = PathClocks(NOW - 10, DEVNET.committer_s, DEVNET.asker_s, 32)


class Clock:
    def __init__(self) -> None:
        self.now = 1_000.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


class Contract:
    """A binding whose calls are their names and arguments, with values of its views."""

    def __init__(self, **views: Any) -> None:
        self.views = views
        self.address = "0x" + 20 * "ee"

    def __getattr__(self, name: str) -> Any:
        return self.views.get(name, lambda *args: (name, args))


class Lane:
    """Of operator 7; what its worker answers is set by role."""

    def __init__(self, folder: Path, **options: Any) -> None:
        self.sent: list[tuple[str, tuple[Any, ...], int]] = []
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.answers: dict[str, list[Call]] = {}
        self.refuses: set[str] = set()
        self.allowed_by: set[int] = set()
        self.head = SimpleNamespace(number=1, timestamp=NOW)
        self.seals: dict[bytes, int] = {}
        self.referee = Contract(seals=lambda hash: self.seals.get(hash, 0), owed=lambda *_: 0)
        block = SimpleNamespace(get_block=lambda _: {"baseFeePerGas": 8 * 10**9})
        self.chain: Any = SimpleNamespace(
            head=lambda: self.head,
            time=lambda head: head.timestamp,
            cached=lambda key, make: SimpleNamespace(at=lambda head: []),
            params=SimpleNamespace(clocks=DEVNET),
            w3=SimpleNamespace(eth=block),
            referee=self.referee,
            registry=Contract(may_answer=lambda operator, account: account == ME and operator in self.allowed_by),
            tasks=Contract(reexecution_price=lambda *_: ("0xtoken", 100), owed=lambda *_: 0),
            token=lambda _: Contract(balanceOf=lambda _: 1_000, allowance=lambda *_: 1_000),
        )
        sender: Any = SimpleNamespace(address=ME, send=self._send)
        self.lane = Disputing(self.chain, sender, self._ask, **{"operator": MINE, "folder": folder, **options})

    def _ask(self, task: str, name: str, request: dict[str, Any]) -> WorkStatus:
        assert task == "work.dispute"
        self.asked.append((name, request))
        calls = encode(self.answers.get(request["role"], []))
        return WorkStatus("done", result={"calls": calls, "until": NOW, "unanswered": {}})

    def _send(self, call: tuple[str, tuple[Any, ...]], *, value: int = 0) -> Any:
        if call[0] in self.refuses:
            raise Refusal("no")
        self.sent.append((*call, value))
        return SimpleNamespace(transaction_hash="0x")

    @property
    def names(self) -> list[str]:
        return [name for name, _, _ in self.sent]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    for module in (disputing, dispute_work, retries):
        monkeypatch.setattr(module, "time", clock)
    return clock


def opened(number: int = 1, *, asker: str = OTHER, clocks: PathClocks = OPEN, **fields: Any) -> Opened:
    """An ask about a claim of operator 7."""
    frame = Frame(job=1, kind=fields.pop("kind", 0), slot=fields.pop("slot", 0))
    position = fields.pop("position", TreePosition(Tree.SEGMENTS, 1, 0, 2, 2, 1))
    payment = Payment(asker, 5, NOW, fields.pop("is_heavy", False))
    record = Node(bytes([9]) * 32, frame_hash(frame), position, EMPTY, Origin(bytes(22)), clocks, payment)
    return Opened(bytes([number]) * 32, EMPTY, 0, record, frame, fields.pop("status", Status.ASKED), **fields)


def dispute(number: int = 1, *nodes: Opened, job: int = 1, operator: int = MINE, **fields: Any) -> DisputeView:
    picture = Exploration({node.id: node for node in nodes}, end=fields.pop("end", None))
    key = bytes([number]) * 32
    deadline, events = fields.pop("deadline", NOW + 100), fields.pop("events", ())
    return DisputeView(key, job, b"hash", operator, deadline, REEXECUTE_S, picture, events)


@pytest.fixture
def disputes(monkeypatch: pytest.MonkeyPatch) -> list[DisputeView]:
    """What the chain has, of jobs with one claim each."""
    every: list[DisputeView] = []
    claim = claim_of(MINE, Workload(b"p" * 32, b"s" * 32, 4, 1), b"seed" * 8, b"r" * 32)
    terms = SimpleNamespace(reexecute_s=5)
    seats = {number: SimpleNamespace(operator=operator) for number, operator in enumerate((3, MINE, 5, 0))}
    monkeypatch.setattr(disputing, "explorations_of", lambda chain: SimpleNamespace(at=lambda head: list(every)))
    monkeypatch.setattr(
        disputing, "read_job", lambda chain, job, head: SimpleNamespace(job=job, terms=terms, token="", seats=seats)
    )
    monkeypatch.setattr(DisputeView, "claim_in", lambda self, view: SimpleNamespace(fields=astuple(claim), final=False))
    monkeypatch.setattr(disputing, "dispute_request", lambda view, claim, **options: options)
    return every


def disputes_claim() -> tuple[Any, ...]:
    return astuple(claim_of(MINE, Workload(b"p" * 32, b"s" * 32, 4, 1), b"seed" * 8, b"r" * 32))


# --- whose


def test_disputes_of_others__are_left_alone_while_somebody_may_act(tmp_path: Path, disputes: list[DisputeView]):
    """Each would cost gas and time: whoever asks about many claims would keep every keeper from its own."""
    place = Lane(tmp_path)
    disputes += [dispute(1, opened(), operator=3), dispute(2, opened()), dispute(3, opened(asker=ME), operator=3)]
    assert [each.key[0] for each in place.lane.poll_once()] == [2, 3]
    assert [request["role"] for _, request in place.asked] == ["asker", "author"]


def test_a_defender__answers_in_every_dispute_of_its_job(tmp_path: Path, disputes: list[DisputeView]):
    place = Lane(tmp_path, operator=0, defends=2)
    early = replace(OPEN, since=NOW - DEVNET.exclusive_s + 1)
    disputes += [dispute(1, opened()), dispute(2, opened(), job=2), dispute(3, opened(clocks=early), job=2)]
    place.answers["defender"] = [Call("answer", (1,), id=b"1")]
    place.lane.poll_once()
    assert [request["role"] for _, request in place.asked] == ["defender"], "of one the author alone may answer yet"
    assert place.names == ["answer"]


def test_a_defender_with_an_answer_key__is_the_author(tmp_path: Path, disputes: list[DisputeView]):
    place = Lane(tmp_path, operator=0, defends=2)
    early = replace(OPEN, since=NOW - 1)
    disputes += [dispute(1, opened(clocks=early), job=2), dispute(2, opened(clocks=early), job=2, operator=3)]
    place.allowed_by = {MINE}
    place.answers["author"] = [Call("answer", (1,), id=b"1")]
    place.lane.poll_once()
    assert [request["role"] for _, request in place.asked] == ["author"], (
        "the other asks are the author's alone for now"
    )
    assert place.names == ["answer"]


def test_what_is_false__is_where_this_account_asked_before_it_was_restarted(
    tmp_path: Path, disputes: list[DisputeView]
):
    place = Lane(tmp_path, operator=0)
    known = opened(asker=ME, kind=Kind.UPDATE, slot=2)
    disputes += [
        dispute(1, known, opened(2, asker=ME, kind=RESULT, slot=2)),
        dispute(2, opened(asker=ME, kind=RESULT, slot=1)),
    ]
    place.lane.poll_once()
    asked = [[(at["kind"], at["slot"]) for at in request["places"]] for _, request in place.asked]
    assert asked == [[(Kind.UPDATE, 2)], [(Kind.TRAINING, 1), (Kind.UPDATE, 1)]]


def test_a_job_that_cannot_be_read__keeps_no_other_dispute_waiting(
    tmp_path: Path, disputes: list[DisputeView], monkeypatch: pytest.MonkeyPatch
):
    read = disputing.read_job

    def read_job(chain: Any, job: int, head: Any) -> Any:
        if job == 1:
            raise ValueError("hostile")
        return read(chain, job, head)

    monkeypatch.setattr(disputing, "read_job", read_job)
    place = Lane(tmp_path)
    place.answers["author"] = [Call("answer", (1,), id=b"1")]
    disputes += [dispute(1, opened()), dispute(2, opened(), job=2)]
    place.lane.poll_once()
    assert place.names == ["answer"]


# --- what, and when


def test_the_dispute_whose_clock_ends_first__is_at_the_front(tmp_path: Path, disputes: list[DisputeView]):
    late, soon = replace(OPEN, committer_left_s=90), replace(OPEN, committer_left_s=20)
    disputes += [dispute(1, opened(clocks=late)), dispute(2, opened(2, clocks=late), opened(3, clocks=soon))]
    place = Lane(tmp_path)
    place.lane.poll_once()
    assert [Path(request["folder"]).name for _, request in place.asked] == ["02" * 8, "01" * 8]


def test_all_answers_of_a_look__are_sent_and_a_refused_one_is_skipped_for_a_while(
    tmp_path: Path, disputes: list[DisputeView], clock: Clock
):
    """One answer that the contract refuses must not stand before all others for ever."""
    place = Lane(tmp_path)
    bad, good = opened(1), opened(2)
    disputes += [dispute(1, bad, good)]
    place.answers["author"] = [Call("answer", (1,), id=bad.id), Call("answer_words", (2,), id=good.id)]
    place.refuses = {"answer"}
    place.lane.poll_once()
    assert place.names == ["answer_words"]
    place.lane.poll_once()
    assert place.asked[-1][1]["skipped"] == [bad.id]
    clock.sleep(REFUSED_S + 1)
    place.refuses = set()
    place.lane.poll_once()
    assert place.names == ["answer_words", "answer_words", "answer", "answer_words"]


def test_an_askers_worker__is_asked_again_in_the_second_after_a_clock(tmp_path: Path, disputes: list[DisputeView]):
    node = opened(asker=ME)
    disputes += [dispute(1, node, operator=3)]
    place = Lane(tmp_path)
    place.head.timestamp = node.due
    names = []
    for now in (node.due - 1, node.due, node.due + 1, node.due + 2):
        place.head.timestamp = now
        place.lane.poll_once()
        names.append(place.asked[-1][0])
    assert (names[0], names[2]) == (names[1], names[3])
    assert names[1] != names[2]


@pytest.mark.parametrize(("seconds", "names"), [(0, []), (1, ["close"])])
def test_its_claim__is_closed_in_the_second_after_every_clock(
    tmp_path: Path, disputes: list[DisputeView], seconds: int, names: list[str]
):
    answered = opened(clocks=replace(OPEN, since=NOW + 130, asker_left_s=30), status=Status.ANSWERED)
    disputes += [dispute(1, answered)]
    place = Lane(tmp_path)
    place.head.timestamp = NOW + 160 + seconds
    place.lane.poll_once()
    assert place.names == names
    assert place.asked == [], "nothing was left to answer"


def test_a_trial__is_answered_as_a_claim_is(
    tmp_path: Path, disputes: list[DisputeView], monkeypatch: pytest.MonkeyPatch
):
    """Silence would cost an honest operator its admission and a fifth of its stake."""
    spec = claim_of(MINE, Workload(b"p" * 32, b"s" * 32, 4, 1), b"seed" * 8, b"r" * 32)
    trial = TrialAnswer(bindings.Claim(*astuple(spec)), bindings.Workload(b"p" * 32, b"s" * 32, 4, 1), 5, 9)
    monkeypatch.setattr(claims_of_no_job, "trial_answers", lambda chain, operator: [trial])
    disputes += [replace(dispute(1, opened(), job=TRIALS), claim_hash=trial.claim_hash)]
    place = Lane(tmp_path)
    place.answers["author"] = [Call("answer", (1,), id=b"1")]
    place.lane.poll_once()
    [(_, request)] = place.asked
    assert request["trial"] == [each.hex() for each in (b"p" * 32, b"s" * 32, b"seed" * 8)]
    assert place.names == ["answer"]


@pytest.mark.parametrize(
    "lacking",
    [
        WorkStatus("failed", error="no memory"),
        WorkStatus("done", result={"unanswered": {"01": "not served"}, "calls": []}),
    ],
)
def test_work_that_failed_or_left_an_ask_out__is_asked_for_again_after_a_while(clock: Clock, lacking: WorkStatus):
    answers = {"it": lacking, "it-1": lacking}
    asked: list[str] = []

    def ask(task: str, name: str, request: dict[str, Any]) -> WorkStatus:
        asked.append(name)
        return answers[name]

    work = DisputeWork(ask)
    assert work.submitted(b"k", "it", {}) == lacking
    clock.sleep(RETRY_S - 1)
    assert work.submitted(b"k", "it", {}) == lacking
    clock.sleep(1)
    assert work.submitted(b"k", "it", {}) == lacking
    clock.sleep(RETRY_S)
    answers["it-2"] = WorkStatus("done", result={"unanswered": {"01": AUTHORS, "02": FALSE}})
    for _ in range(2):
        assert work.submitted(b"k", "it", {}) == answers["it-2"]
        clock.sleep(RETRY_S)
    assert asked == ["it", "it", "it-1", "it-2", "it-2"], (
        "that an answer needs the author, or that there is none, is final"
    )
    work.begin_look([b"other"])
    assert work._failed == {}, "of what is over nothing is kept"


# --- what an ask takes

HEAVY = Call("ask_claim", (1, (), int(Kind.UPDATE), 0), gas=100, is_heavy=True, id=bytes(range(32)))


def test_a_heavy_ask__waits_until_its_step_is_sealed_long_enough(tmp_path: Path, disputes: list[DisputeView]):
    disputes += [dispute(1, opened(asker=ME), operator=3, deadline=0)]
    place = Lane(tmp_path, secret=b"secret")
    place.answers["asker"] = [HEAVY]
    place.lane.poll_once()
    assert place.names == ["seal"]
    [(_, (seal,), _)] = place.sent
    assert seal == seal_of(ME, HEAVY.id, salt_of(b"secret", disputes[0].key, HEAVY.id))
    assert seal == seal_of(ME, unit_id(int.from_bytes(HEAVY.id, "big")), salt_of(b"secret", disputes[0].key, HEAVY.id))
    place.seals[seal] = NOW
    for now, names in ((DEVNET.seal_lead_s - 1, ["seal"]), (DEVNET.seal_lead_s, ["seal", "ask_claim"])):
        place.head.timestamp = NOW + now
        place.lane.poll_once()
        assert place.names == names
    assert place.sent[-1][2] == HEAVY.value(2 * 9 * 10**9), "with room for the base fee to double"


@pytest.mark.parametrize(
    ("left_s", "names"), [(2 * DEVNET.seal_lead_s, ["seal"]), (2 * DEVNET.seal_lead_s - 1, ["ask_claim"])]
)
def test_an_ask_without_time_for_a_seal__is_made_without_one(
    tmp_path: Path, disputes: list[DisputeView], left_s: int, names: list[str]
):
    disputes += [dispute(1, opened(asker=ME), operator=3, deadline=NOW + left_s)]
    place = Lane(tmp_path, secret=b"secret")
    place.answers["asker"] = [HEAVY]
    place.lane.poll_once()
    assert place.names == names


@pytest.mark.parametrize("prices", [(100, 0), (200, 0), (0, 0), (90, 110)])
def test_a_heavy_ask__needs_a_reexecution_in_the_jobs_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, prices: tuple[int, int]
):
    """At the reserve of 100, or at what the claim of two slots is paid for one of them."""
    place = Lane(tmp_path)
    claim = SimpleNamespace(price=prices[0] + prices[1], count=2, is_aggregation=False)
    asking = Asking(place.chain, SimpleNamespace(address=ME, send=place._send, chain=place.chain))  # type: ignore[arg-type]
    balance, allowance = 99, 99
    place.chain.token = lambda _: Contract(balanceOf=lambda _: balance, allowance=lambda *_: allowance)
    monkeypatch.setattr(challenging, "token_at", lambda *_: SimpleNamespace(format=str))
    approvals = [("approve", (place.referee.address, 0), 0), ("approve", (place.referee.address, 400), 0)]
    with pytest.raises(NeedsOperator, match=r"prepays 100; 0xab.* has 99"):
        asking.provide(1, claim)  # type: ignore[arg-type]
    balance = 100
    asking.provide(1, claim)  # type: ignore[arg-type]
    assert place.sent == approvals, "a token may refuse to change one amount into another"
    allowance = 100
    asking.provide(1, claim)  # type: ignore[arg-type]
    assert len(place.sent) == 2
    allowance = 0
    asking.provide(1, claim)  # type: ignore[arg-type]
    assert place.sent == approvals + approvals[1:]
    claim.price = 202
    with pytest.raises(NeedsOperator, match=r"prepays 101; 0xab.* has 100"):
        asking.provide(1, claim)  # type: ignore[arg-type]


def test_the_lane__looks_at_every_block_while_a_dispute_is_open_and_at_once_where_a_result_is_there(
    clock: Clock, tmp_path: Path
) -> None:
    lane, waits = Lane(tmp_path), list[tuple[int, float]]()
    lane.chain.wait_for_block = lambda seen, longest_s: waits.append((seen, longest_s))
    lane.head = SimpleNamespace(number=12, timestamp=NOW)
    lane.lane.poll_once()
    lane.lane._pause(3, has_open=True)
    assert (waits, clock.now) == ([(12, 3)], 1_000)
    lane.lane._work._waiting["computed meanwhile"] = {}
    lane.lane._pause(3, has_open=True)
    assert (len(waits), clock.now) == (1, 1_000)
    lane.lane._pause(3, has_open=False)
    assert (len(waits), clock.now) == (1, 1_003)
