"""A verifier runs others' trials again, and asks about those that are false."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from keepers.queue.work_queue import WorkStatus
from keepers.services.false_claims import FalseClaims
from keepers.services.trial_checks import TrialChecks
from zoo_compute.chain.connection import Head
from zoo_compute.chain.events import Event
from zoo_compute.operators.admission import answered
from zoo_compute.spec.admissions import claim_of
from zoo_compute.spec.disputed_claims import claim_key
from zoo_compute.spec.state import Claim
from zoo_compute.spec.trials import TRIALS, Workload

WORK = Workload(b"p" * 32, b"s" * 32, 3, 10**9)
PLACE = {"kind": 0, "slot": 0, "result": None}
ME, DEADLINE = 1, 1_000


def event(operator: int, seed: bytes = b"e" * 32, deadline: int = DEADLINE) -> Event:
    claim = claim_of(operator, WORK, seed, b"r" * 32)
    args = {
        "claim": {name: getattr(claim, name) for name in Claim.__dataclass_fields__},
        "workload": {name: getattr(WORK, name) for name in Workload.__dataclass_fields__},
        "seconds": 5,
        "deadline": deadline,
    }
    return Event("TrialAnswered", "admissions", 1, 0, "0x0", b"", args)


class Net:
    def __init__(self, events: list[Event]) -> None:
        self.events, self.results = events, dict[str, WorkStatus]()
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.challenged: list[tuple[int, Any, Any]] = []
        self.chain: Any = SimpleNamespace(
            time=lambda head: head.timestamp, network=SimpleNamespace(first_block=0), admissions=self
        )
        self.word = bytes(32)

    def claims(self, job: int, seat: int, operator: int) -> bytes:
        return self.word

    def ask(self, task: str, name: str, request: dict[str, Any]) -> WorkStatus:
        assert task == "work.trial"
        self.asked.append((name, request))
        return self.results.get(name, WorkStatus("queued"))

    def checks(self, rate: float = 1.0) -> TrialChecks:
        checks = TrialChecks(
            self.chain,
            self.ask,
            lambda *args: self.challenged.append(args),
            operator=ME,
            secret=b"secret",
            sample_rate=rate,
        )
        checks._history = SimpleNamespace(events_until=lambda head: self.events)  # type: ignore[assignment]
        return checks


def head(second: int) -> Head:
    return Head(1, second, b"", b"")


def test_a_false_trial__is_asked_about_once() -> None:
    net = Net([event(ME), event(2), event(3, deadline=10)])
    checks = net.checks()
    checks.look(head(100))
    [(name, request)] = net.asked
    assert name.startswith("trial-0-2-")
    assert request["steps"] == 3
    assert request["trial"] == [WORK.program_root.hex(), WORK.state_root.hex(), (b"e" * 32).hex()]
    net.results[name] = WorkStatus("done", {"agrees": False, "message": "another root", "dispute": PLACE})
    for second in (200, 300):
        checks.look(head(second))
    [(job, claim, places)] = net.challenged
    assert (job, claim.operator, claim.deadline, places) == (TRIALS, 2, DEADLINE, [PLACE])
    assert claim.fields == tuple(answered(event(2)).claim)


@pytest.mark.parametrize(
    "status",
    [
        WorkStatus("done", {"agrees": True}),
        WorkStatus("done", {"agrees": None, "message": "another program"}),
        WorkStatus("failed", error="no memory"),
    ],
)
def test_a_trial_that_agrees_or_cannot_be_run__is_not_asked_about(status: WorkStatus) -> None:
    net = Net([event(2)])
    checks = net.checks()
    checks.look(head(100))
    net.results[net.asked[0][0]] = status
    for second in (200, 300):
        checks.look(head(second))
    assert net.challenged == []
    assert len(net.asked) == 2


def test_trials__are_drawn_by_the_rate() -> None:
    trials = [event(2, seed=number.to_bytes(32, "big")) for number in range(200)]
    counts = []
    for rate in (0.0, 0.25, 1.0):
        net = Net(trials)
        net.checks(rate).look(head(100))
        counts.append(len(net.asked))
    assert counts[0] == 0
    assert 20 < counts[1] < 90
    assert counts[2] == 200


def test_a_reported_trial__is_disputed_while_it_is_pending_and_its_window_is_open() -> None:
    net, trial = Net([]), answered(event(2))
    key = claim_key(TRIALS, Claim(*trial.claim))
    troubles: Any = SimpleNamespace(contained=_contained)

    def undisputed(second: int, word: bytes) -> list[Any]:
        net.word = word
        claims = FalseClaims(net.chain, "0xme", ME, troubles)
        assert claims.add(TRIALS, trial.view, [PLACE]) == key
        return list(claims.undisputed(head(second), set()))

    word = trial.claim_hash[:30] + b"\0\x01"
    [dispute] = undisputed(DEADLINE, word)
    assert (dispute.key, dispute.job, dispute.operator, dispute.deadline) == (key, TRIALS, 2, DEADLINE)
    assert undisputed(DEADLINE + 1, word) == []
    assert undisputed(DEADLINE, bytes(32)) == [], "it is settled, or judged"
    assert undisputed(DEADLINE, b"\x01" * 32) == [], "the operator has answered another since"


class _contained:
    def __init__(self, *args: Any) -> None:
        pass

    def __enter__(self) -> None:
        pass

    def __exit__(self, *args: object) -> None:
        pass
