"""Claims before the contract on revm, with the contracts that judge: askers and answerers play their calls, time passes between."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from types import SimpleNamespace
from typing import Any

from node.disputes.answerer import Answerer
from node.disputes.asker import Asker, Disputed, Wait
from node.disputes.trees import Trees
from repops.commitments import state_root_of
from tests.referee.evidence_contracts import run_of
from tests.support.evm import Reverted, chain, intrinsic_gas
from tests.support.explorations.lying_jobs import SEATS, Case
from tests.support.protocol_driver import load
from zoo_compute.disputes.exploration import Call, Event, Exploration, values
from zoo_compute.spec.clocks import PRODUCTION, End
from zoo_compute.spec.frames import Frame, Kind, Phase, Result
from zoo_compute.spec.params import AGGREGATOR_SEAT
from zoo_compute.spec.state import Claim

JOB, REEXECUTE_S, AHEAD_S = 1, 500, 10**6
PRICE, BASE_FEE = 10**15, 10**9  # of a re-execution in the job's token, of a unit of gas in the coin
COLD_GAS = 25_000  # more than what a transaction reads and writes for the first time takes: on revm all is warm
MOST_CALLS = 400
MOST_SETTLED = 32
RICH = 10**30
NOBODY = "0x" + 40 * "0"


@cache
def deployed() -> SimpleNamespace:
    """Before anything is anchored: it stays for the whole process."""
    double, protocol = load("mocks/DisputesDouble").deploy(), load("mocks/ProtocolDouble").deploy()
    token = load("mocks/FalseToken").deploy()
    for is_aggregation in (False, True):
        double.set_price(is_aggregation, token.address, PRICE)
    operators = load("OpExecutor").deploy()
    bindings = load("ConsistencyProofs").deploy(protocol.address, protocol.address)
    evidence = load("Evidence").deploy(operators.address, bindings.address)
    descent = load("Descent").deploy(operators.address)
    at, clocks = double.address, PRODUCTION
    seconds = (clocks.committer_s, clocks.asker_s, clocks.exclusive_s, clocks.seal_lead_s, clocks.opening_s)
    referee = load("Referee").deploy(at, at, at, at, at, evidence.address, descent.address, *seconds)
    return SimpleNamespace(double=double, protocol=protocol, token=token, referee=referee)


@dataclass
class Played:
    """How a dispute went. asks: of the honest asker; kind: of the evidence, or None where silence ended it.

    money: coin and tokens that the honest asker has gained once all is settled, without the gas it spent.
    """

    end: End | None
    picture: Exploration
    calls: Counter[str]
    asks: int = 0
    kind: int | None = None
    refused: str = ""
    frame: Any = None
    judged: Any = None
    money: tuple[int, int] = 0, 0


@dataclass
class Board:
    """One claim. picture: from the contract's events alone; spent: for each account's gas, at most, in the coin."""

    case: Case
    claim: Claim
    picture: Exploration = field(default_factory=Exploration)
    calls: Counter[str] = field(default_factory=Counter)
    spent: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.at, case = deployed(), self.case
        chain.base_fee = BASE_FEE
        self.accounts: dict[str, str] = {}
        self.deadline = chain.timestamp + AHEAD_S
        terms = (case.work.root, REEXECUTE_S, 1, self.deadline)
        self.at.double.set_claim(JOB, values(self.claim), terms)
        self.at.double.set_operator(self.claim.operator, self.account("owner"), self.account("hot"))
        self.at.protocol.set_job(JOB, self._record(case))
        self.at.protocol.set_run(JOB, self._run(case))
        for each in case.seated if self.claim.is_aggregation else ():
            self.at.protocol.set_claim(JOB, values(each.claim), 1)

    @staticmethod
    def _record(case: Case) -> tuple[Any, ...]:
        nobody, manifest = chain.sender, case.manifest
        return (nobody, nobody, 3, 0, bytes(32), bytes(32), bytes.fromhex(manifest.data.root), manifest.digest)

    @staticmethod
    def _run(case: Case) -> tuple[Any, ...]:
        run = list(run_of(chain.sender))
        run[4] = case.slots
        return tuple(run)

    def account(self, name: str) -> str:
        if name not in self.accounts:
            self.accounts[name] = chain.account()
            chain.set_balance(self.accounts[name], RICH)
            self.at.token.mint(self.accounts[name], RICH)
        return self.accounts[name]

    def send(self, call: Call, sender: str) -> None:
        """Raises Reverted; else the picture goes on."""
        referee, account = self.at.referee, self.account(sender)
        method = getattr(referee, call.name)
        method(*call.args, sender=account, value=call.value(chain.base_fee))
        gas = referee.last.gas + intrinsic_gas(method.prepare_calldata(*call.args)) + COLD_GAS
        self.spent[sender] += gas * chain.base_fee
        for log in referee.get_logs(include_child_logs=False):
            self.picture.apply(Event(type(log).__name__, chain.timestamp, tuple(log[1:])))
        self.calls[call.name] += 1

    # --- money

    def settle(self, sender: str) -> None:
        """What everybody prepaid, and what is owed to the owner, the hot key and the asker, at the sender's expense."""
        self._settle(list(self.picture.nodes), sender)
        for name in ("owner", "hot", "asker", "stranger"):
            self._withdraw(name, sender)

    def settle_own(self, sender: str, payee: str, answerer: str) -> None:
        """What was prepaid for the answers of one side, which are this account's in the records, at its own expense."""
        self._settle([id for id, each in self.picture.nodes.items() if each.record.answerer == answerer], sender)
        self._withdraw(payee, sender)

    def _settle(self, ids: Sequence[bytes], sender: str) -> None:
        for at in range(0, len(ids), MOST_SETTLED):
            self.send(self.picture.settle(ids[at : at + MOST_SETTLED]), sender)

    def _withdraw(self, name: str, sender: str) -> None:
        for token in (NOBODY, self.at.token.address):
            if self.at.referee.owed(token, self.account(name)):
                self.send(Call("withdraw", (token, self.account(name))), sender)

    def gained(self, *names: str) -> tuple[int, int]:
        """Coin and tokens that these accounts have more than in the beginning; gas is not paid from them on revm."""
        accounts = [self.account(name) for name in names]
        coin = sum(chain.balance(each) - RICH for each in accounts)
        return coin, sum(self.at.token.balanceOf(each) - RICH for each in accounts)

    def answers(self, answerer: Answerer, sender: str = "hot", skipped: Collection[bytes] = ()) -> int:
        """All that is open but what is skipped; how many were given."""
        given = 0
        for call in answerer.calls(self.picture, chain.timestamp, skipped):
            self.send(call, sender)
            given += 1
        return given


Between = Callable[[Board], None]


def play(
    board: Board,
    asker: Callable[[], Asker],
    answerer: Answerer,
    between: Between | None = None,
    *,
    is_patient: bool = True,
) -> Played:
    """To the end. asker: made anew for every call, as after a restart. between: what others do before each call.

    Where the answerer has no answer, time passes until the asker can convict by silence.
    """
    asks, kind, frame, judged, refused = 0, None, None, None, ""
    for _ in range(MOST_CALLS):
        if between is not None:
            between(board)
        step = asker().next(board.picture, chain.timestamp)
        if step is None:
            break
        if isinstance(step, Wait):
            if not board.answers(answerer):
                if not is_patient:
                    break
                chain.timestamp = step.until + 1
            continue
        try:
            board.send(step, "asker")
        except Reverted as error:
            refused = error.reason or "?"
            break
        if step.name == "judge":
            kind, frame, judged = step.args[4], step.args[2], step.args[3]
        asks += step.name.startswith("ask")
    else:
        raise AssertionError(f"no end after {MOST_CALLS} calls: {board.calls}")
    if board.picture.end is not None:
        board.settle("anyone")
    money = board.gained("asker")
    return Played(board.picture.end, board.picture, board.calls, asks, kind, refused, frame, judged, money)


def dispute(
    case: Case,
    about: Disputed,
    theirs: Trees,
    mine: Trees,
    *,
    between: Callable[[Answerer], Between] | None = None,
    result: Result | None = None,
    is_restarted: bool = False,
    is_patient: bool = True,
) -> Played:
    """A claim of theirs, asked about by mine. result: of the slot, where `about` does not show it."""
    results = {about.slot: result or about.result or Result()}
    answerer = Answerer(about.claim, lambda kind, slot: theirs, PRODUCTION, result_of=results.get, is_author=True)
    with board_of(case, about.claim) as board:
        others = between(answerer) if between else None

        def asker() -> Asker:
            if is_restarted:  # nothing but the events is left
                board.picture = Exploration.from_plain(json.loads(json.dumps(board.picture.plain)))
            return Asker(mine, about)

        return play(board, asker, answerer, others, is_patient=is_patient)


def training_claim(case: Case, theirs: Trees, result: Result | None = None, *, has_bundle: bool = True) -> Disputed:
    result = result or case.result(theirs)
    shape = Frame(inner_steps=case.inner_steps, segment_steps=case.segment_steps)
    claim = case.claim(case.leaf(case.slot, result))
    if not has_bundle:
        return disputed(case, claim, Kind.TRAINING)
    return disputed(case, claim, Kind.TRAINING, result, theirs.states(shape, Phase.SEGMENTS))


def update_claim(case: Case, theirs: Trees) -> Disputed:
    """The training is right."""
    result = replace(case.result(Trees(case.honest)), update_root=state_root_of(theirs.computation.after(0)))
    return disputed(case, case.claim(case.leaf(case.slot, result)), Kind.UPDATE, result)


def aggregation_claim(case: Case, theirs: Trees, seat: int = AGGREGATOR_SEAT) -> Disputed:
    mask = sum(1 << seat for seat in SEATS)
    claim = case.claim(state_root_of(theirs.computation.after(0)), seat=seat, scope=mask)
    return disputed(case, claim, Kind.AGGREGATION)


@contextmanager
def board_of(case: Case, claim: Claim) -> Iterator[Board]:
    deployed()
    with chain.anchor():
        yield Board(case, claim)


def disputed(case: Case, claim: Claim, kind: Any, result: Any = None, segments: Sequence[bytes] = ()) -> Disputed:
    return Disputed(JOB, claim, kind, 0 if claim.is_aggregation else case.slot, case.work, result, tuple(segments))
