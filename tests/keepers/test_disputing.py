"""The lane of disputes: which are its own, what it does in which order, and that work which failed is asked for again."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import astuple, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from keepers.queue.work_queue import WorkStatus
from keepers.services import challenging, disputing
from keepers.services.challenging import Asking, MismatchReports, salt_of, seal_of, unit_id
from keepers.services.disputing import REFUSED_S, RETRY_S, Disputing
from zoo_compute.chain.explorations import DisputeView
from zoo_compute.chain.generated.bindings import admissions as bindings
from zoo_compute.disputes.exploration import Call, Exploration, Opened
from zoo_compute.errors import NeedsOperator, Refusal, UserError
from zoo_compute.json_codec import encode
from zoo_compute.operators.admission import TrialAnswer
from zoo_compute.spec.admissions import claim_of
from zoo_compute.spec.clocks import DEVNET, End, PathClocks
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
        self.head = SimpleNamespace(number=1, timestamp=NOW)
        self.seals: dict[bytes, int] = {}
        self.referee = Contract(seals=lambda hash: self.seals.get(hash, 0), owed=lambda *_: 0)
        block = SimpleNamespace(get_block=lambda _: {"baseFeePerGas": 8 * 10**9})
        self.chain: Any = SimpleNamespace(
            head=lambda: self.head,
            params=SimpleNamespace(clocks=DEVNET),
            w3=SimpleNamespace(eth=block),
            referee=self.referee,
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
    monkeypatch.setattr(disputing, "time", clock)
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
    monkeypatch.setattr(disputing, "read_disputes", lambda *_, wanted: [each for each in every if wanted(each)])
    monkeypatch.setattr(disputing, "read_job", lambda chain, job, head: SimpleNamespace(job=job, terms=terms, token=""))
    monkeypatch.setattr(DisputeView, "claim_in", lambda self, view: SimpleNamespace(fields=astuple(claim), final=False))
    monkeypatch.setattr(disputing, "dispute_request", lambda view, claim, **options: options)
    return every


# --- whose


def test_disputes_of_others__are_left_alone(tmp_path: Path, disputes: list[DisputeView]):
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
    monkeypatch.setattr(disputing, "trial_answers", lambda chain, operator: [trial])
    disputes += [replace(dispute(1, opened(), job=TRIALS), claim_hash=trial.claim_hash)]
    place = Lane(tmp_path)
    place.answers["author"] = [Call("answer", (1,), id=b"1")]
    place.lane.poll_once()
    [(_, request)] = place.asked
    assert request["trial"] == [each.hex() for each in (b"p" * 32, b"s" * 32, b"seed" * 8)]
    assert place.names == ["answer"]


def test_work_that_failed__is_asked_for_again_after_a_while(tmp_path: Path, clock: Clock):
    place = Lane(tmp_path)
    answers = {"it": WorkStatus("failed", error="no memory"), "it-1": WorkStatus("failed", error="again")}
    asked: list[str] = []

    def ask(task: str, name: str, request: dict[str, Any]) -> WorkStatus:
        asked.append(name)
        return answers[name]

    place.lane._ask = ask
    submitted = place.lane._submitted
    assert submitted("it", {}).error == "no memory"
    clock.sleep(RETRY_S - 1)
    assert submitted("it", {}).error == "no memory"
    clock.sleep(1)
    assert submitted("it", {}).error == "again"
    clock.sleep(RETRY_S)
    answers["it-2"] = WorkStatus("done", result={})
    assert submitted("it", {}).state == "done"
    assert asked == ["it", "it", "it-1", "it-2"]


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


def test_a_heavy_ask__needs_a_reexecution_in_the_jobs_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    place, view = Lane(tmp_path), SimpleNamespace(job=1)
    asking = Asking(place.chain, SimpleNamespace(address=ME, send=place._send))  # type: ignore[arg-type]
    balance, allowance = 99, 99
    place.chain.token = lambda _: Contract(balanceOf=lambda _: balance, allowance=lambda *_: allowance)
    monkeypatch.setattr(challenging, "token_at", lambda *_: SimpleNamespace(format=str))
    with pytest.raises(NeedsOperator, match=r"prepays 100; 0xab.* has 99"):
        asking.provide(view, HEAVY, is_aggregation=False)  # type: ignore[arg-type]
    balance = 100
    asking.provide(view, HEAVY, is_aggregation=False)  # type: ignore[arg-type]
    assert place.sent == [("approve", (place.referee.address, 400), 0)]
    allowance = 100
    asking.provide(view, HEAVY, is_aggregation=False)  # type: ignore[arg-type]
    asking.provide(view, HEAVY._replace(is_heavy=False), is_aggregation=False)  # type: ignore[arg-type]
    assert len(place.sent) == 1


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
