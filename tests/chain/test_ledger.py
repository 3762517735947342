"""A job's money is what the chain's events say, to the wei, with a cause for every slash."""

from __future__ import annotations

from typing import Any

import pytest
from web3.exceptions import TransactionNotFound, Web3ValueError

from tests.client.test_results import aggregation, commit, view
from zoo_compute.chain.events import Event
from zoo_compute.chain.ledger import job_account, net_payments
from zoo_compute.chain.views import AGGREGATOR_SEAT, ClaimState
from zoo_compute.errors import Unreachable


class Chain:
    """Answers `scan` with given events, and each penalty's transaction with the function that made it."""

    functions = {b"aaaa": "time_out", b"bbbb": "decline"}  # noqa: RUF012
    calls = {"0xa": b"aaaa12", "0xb": b"bbbb", "0xc": b"through another contract"}  # noqa: RUF012

    def __init__(self) -> None:
        self.w3 = self
        self.eth = self
        self.memory: dict[str, Any] = {}
        self.down = False

    def cached(self, key: str, make: Any) -> Any:
        return self.memory.setdefault(key, make())

    def contract(self, name: str) -> Any:
        assert name == "settlement"
        return self

    def get_transaction(self, tx: str) -> dict[str, bytes]:
        if self.down:
            raise Unreachable("no RPC answers")
        if tx not in self.calls:
            raise TransactionNotFound(tx)
        return {"input": self.calls[tx]}

    def get_function_by_selector(self, selector: bytes) -> Any:
        if selector not in self.functions:
            raise Web3ValueError("no such function")
        return type("F", (), {"fn_name": self.functions[selector]})


def event(index: int, name: str, tx: str = "0x0", **args: Any) -> Event:
    return Event(name, "settlement", 20 + index, index, tx, b"", {"job": 5, **args})


def test_job_account__balances_and_says_why_somebody_was_slashed(monkeypatch: pytest.MonkeyPatch) -> None:
    events = [
        event(0, "JobPosted", escrow=100),
        event(1, "SetAside", "0xa", operator=2, seat=1, amount=2),
        event(1, "SeatVacated", "0xa", operator=2, turn=0, seat=1, slashed=3),
        event(2, "SeatTakenOver", operator=1, turn=0, seat=1, price=11),
        event(3, "Paid", "0x1", account="0xO", net=19, fee=1),
        event(4, "ClaimFinalised", "0x1", operator=1, turn=0, seat=0, paid=20),
        event(5, "BidReclaimed", operator=3, kind=0, forfeited=5),
        event(6, "BidReclaimed", operator=4, kind=0, forfeited=0),
        event(7, "ClaimConvicted", operator=2, turn=1, seat=1, slashed=16, restored=6, to_finder=4, to_audits=1),
        event(8, "JobFunded", amount=6),
        event(9, "SetAside", "0xa", operator=9, seat=AGGREGATOR_SEAT, amount=18),
        event(10, "SeatVacated", "0xa", operator=9, turn=1, seat=AGGREGATOR_SEAT, slashed=20),
        event(11, "SetAside", "0xa", operator=9, seat=4, amount=6),
        event(12, "SeatVacated", "0xa", operator=9, turn=2, seat=4, slashed=12),
        event(13, "SetAsideReturned", operator=9, amount=20),
        event(14, "SetAsideReturned", operator=2, amount=1),
    ]
    monkeypatch.setattr("zoo_compute.chain.ledger.scan", lambda *_, **__: iter(events))
    commits = (
        commit(0, state=ClaimState.PAID), commit(0, 1, disputed=True), commit(1), commit(1, 1, state=ClaimState.CONVICTED),
        commit(2, state=ClaimState.VOID),
    )  # fmt: skip
    account = job_account(Chain(), view(commits=commits, checkpoints=(aggregation(0),)))  # type: ignore[arg-type]
    assert account.escrowed + account.restored == account.paid + account.fee + account.refunded + account.held
    assert (account.paid, account.fee, account.held, account.slashed) == (19, 1, 86, 2 + 5 + 16 + 2 + 10)
    assert [(c.round, c.kind, c.state, c.amount) for c in account.claims] == [
        (0, "slots", "paid", 20),
        (0, "slots", "in dispute", 11),
        (0, "aggregation", "challenge window", 7),
        (1, "slots", "in turn", 20),
        (1, "slots", "convicted", 11),
        (2, "slots", "void", 20),
    ]
    assert account.committed == 38
    assert [(p.operator, p.why, p.amount, p.returned) for p in account.penalties] == [
        (2, "did not commit in time", 3, 1),
        (3, "did not open its bid", 5, 0),
        (2, "was convicted", 16, 0),
        (9, "did not aggregate in time", 20, 18),
        (9, "did not commit in time", 12, 2),
    ]
    assert account.to_dict()["claims"][0]["amount"] == "20"
    assert account.to_dict()["penalties"][0]["returned"] == "1"


def test_net_payments__are_of_the_operator_whose_claims_became_final_before() -> None:
    def final(index: int, operator: int) -> Event:
        return event(index, "ClaimFinalised", operator=operator, turn=0, seat=index, paid=111)

    events = [
        final(0, 1), final(1, 1), event(2, "Paid", account="0xO", net=210, fee=12),
        final(3, 2), event(4, "Paid", account="0xO", net=105, fee=6),  # another operator of the same owner
        event(5, "TurnOpened", turn=1), final(6, 1), event(7, "Paid", account="0xO", net=105, fee=6),
    ]  # fmt: skip
    assert net_payments(events) == {1: 315, 2: 105}


def test_cause_of_a_penalty__is_never_guessed_from_an_rpc_that_is_down() -> None:
    chain, slashed = Chain(), {"operator": 2, "turn": 0, "seat": 1, "slashed": 3}

    def why(tx: str) -> str:
        account = job_account(chain, view(), [event(0, "SeatVacated", tx, **slashed)])  # type: ignore[arg-type]
        return account.penalties[0].why

    chain.down = True
    with pytest.raises(Unreachable):
        why("0xb")
    chain.down = False
    assert why("0xb") == "declined its slots"
    assert why("0xc") == why("0xpruned") == "left its seat"
    assert chain.memory["causes"] == {
        "0xb": "declined its slots",
        "0xc": "left its seat",
    }  # what a node forgot is asked again
    chain.down = True
    assert why("0xb") == "declined its slots"
