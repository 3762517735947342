"""Explorations on both sides: the specification and, in step with it, the contracts, over doubles for all that they ask of others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import astuple, dataclass, field, fields, replace
from typing import Any

from tests.support.evm import Reverted, chain
from tests.support.explorations.hashed_computation import WORK, HashedComputation, Tree, noise
from tests.support.lockstep.referee_records import claim_word, finder_word, node_word, plain, sent, verdict_word
from tests.support.lockstep.stage import judge_by_hash
from tests.support.protocol_driver import load
from zoo_compute.spec import referee, verdicts
from zoo_compute.spec.bits import UINT256_MAX
from zoo_compute.spec.clocks import PRODUCTION
from zoo_compute.spec.disputed_claims import Explorations, Terms, claim_key, heavy_price, is_final
from zoo_compute.spec.exploration import Node
from zoo_compute.spec.frames import Frame, Position, Work
from zoo_compute.spec.params import COIN
from zoo_compute.spec.revert import Refused, require
from zoo_compute.spec.state import Claim, Message

REEXECUTE_S = 500
JOB, TRAINER, AGGREGATOR = 1, 7, 8
PRICE, AHEAD_S = 10**15, 100_000
ENDS = ("judge", "expire", "close", "settle", "withdraw", "seal", "open_seal", "reward")
KEPT = tuple(each.name for each in fields(Explorations) if each.name not in ("court", "preset"))


@dataclass
class CourtOnPaper:
    """What `DisputesDouble` and `EvidenceDouble` answer, and what they were called for."""

    hot: dict[int, str] = field(default_factory=dict)
    answer_keys: dict[int, str] = field(default_factory=dict)
    owners: dict[int, str] = field(default_factory=dict)
    terms: dict[tuple[int, Claim], Terms] = field(default_factory=dict)
    deadlines: dict[tuple[int, int], int] = field(default_factory=dict)
    token: str = COIN
    parts: int = 3
    refuses: bool = False  # the token, and all accounts coin
    calls: list[tuple[Any, ...]] = field(default_factory=list)

    def dispute_terms(self, job: int, claim: Claim) -> Terms:
        require((job, claim) in self.terms, "settlement: no such claim")
        return self.terms[job, claim]

    def claim_deadline(self, job: int, turn: int) -> int:
        return self.deadlines.get((job, turn), UINT256_MAX)

    def reexecution_price(self, job: int, is_aggregation: bool) -> tuple[str, int]:
        return self.token, PRICE + int(is_aggregation)

    def may_answer(self, operator: int, account: str) -> bool:
        return account in (self.hot[operator], self.answer_keys.get(operator))

    def owner_of(self, operator: int) -> str:
        return self.owners[operator]

    def part_count(self, descriptor: bytes, element: int) -> int:
        return self.parts

    def judge(self, kind: int, frame: Frame, position: Position, data: bytes) -> None:
        judge_by_hash(kind, frame, position, data)

    def open_dispute(self, job: int, claim: Claim) -> None:
        self.calls.append(("DisputeOpened", claim_key(job, claim)))

    def close_dispute(self, job: int, claim: Claim, outcome: int, used_s: int, burned: int) -> None:
        self.calls.append(("DisputeClosed", claim_key(job, claim), int(outcome), used_s, burned))

    def reward_finder(self, job: int, claim: Claim, finder: str) -> None:
        self.calls.append(("FinderRewarded", claim_key(job, claim), finder))

    def take(self, token: str, account: str, amount: int) -> bool:
        return not self.refuses

    def send(self, token: str, account: str, amount: int) -> bool:
        return token == COIN or not self.refuses


class Exploring:
    """One claim of three slots by a trainer, and one of an aggregator. nodes, frames: what a caller keeps of the exploration."""

    def __init__(self, *, work: Work = WORK) -> None:
        self.accounts = {
            name: chain.account() for name in ("hot", "owner", "carol hot", "carol", "dave", "eve", "mallory")
        }
        for account in self.accounts.values():
            chain.set_balance(account, 10**24)
        self.double, self.evidence = load("mocks/DisputesDouble").deploy(), load("mocks/EvidenceDouble").deploy()
        self.token = load("mocks/FalseToken").deploy()
        self.descent = load("Descent").deploy(self.evidence.address)
        at, double = self.evidence.address, self.double.address
        preset = PRODUCTION
        clocks = preset.committer_s, preset.asker_s, preset.exclusive_s, preset.seal_lead_s, preset.opening_s
        self.contract = load("Referee").deploy(
            double, double, double, double, double, at, self.descent.address, *clocks
        )
        self.court = CourtOnPaper(token=self.token.address)
        self.world = Explorations(self.court, preset)
        self.job, self.work, self.base_fee = JOB, work, 10**9
        self.reasons: Counter[str] = Counter()
        self.accepted: Counter[str] = Counter()
        self.nodes: dict[bytes, Node] = {}
        self.frames: dict[bytes, Frame] = {}
        self.claims: dict[str, Claim] = {}
        self.sides: dict[tuple[str, int], HashedComputation] = {}
        self.deadline = chain.timestamp + AHEAD_S
        self._play(self.deadline)

    def _play(self, deadline: int) -> None:
        self.set_parts(3)
        for is_aggregation in (False, True):
            self.double.set_price(is_aggregation, self.token.address, PRICE + int(is_aggregation))
        for account in self.accounts.values():
            self.token.mint(account, 10**30)
        for operator, hot, owner in ((TRAINER, "hot", "owner"), (AGGREGATOR, "carol hot", "carol")):
            self.court.hot[operator], self.court.owners[operator] = self.accounts[hot], self.accounts[owner]
            self.double.set_operator(operator, self.accounts[owner], self.accounts[hot])
        start = noise("start")
        sides = [HashedComputation("bob", slot, start, self.work) for slot in range(4, 7)]
        self.sides |= {("bob", side.slot): side for side in sides}
        root = Tree(tuple(side.leaf() for side in sides)).root
        bob = Claim(3, 2, 0, TRAINER, 4 << 16 | 3, 100, start, root)
        other = HashedComputation("carol", 0, start, self.work)
        self.sides["carol", 0] = other
        carol = Claim(3, 2, 128, AGGREGATOR, 0b1, 40, start, other.state(-2).root)
        for name, claim, slots in (("bob", bob, 3), ("carol", carol, 1)):
            self.keep(name, claim, slots, deadline)

    def keep(self, name: str, claim: Claim, slots: int, deadline: int, job: int = JOB) -> None:
        """As Settlement does."""
        terms = Terms(self.work.root, REEXECUTE_S, slots, deadline)
        self.claims[name] = claim
        self.court.terms[job, claim] = terms
        self.double.set_claim(job, plain(claim), astuple(terms))

    def lose(self, name: str, job: int = JOB) -> None:
        """As Availability has Settlement convict a claim, beside its dispute."""
        del self.court.terms[job, self.claims[name]]
        self.double.set_claim(job, plain(self.claims[name]), (bytes(32), 0, 0, 0))

    def close_turn(self, deadline: int, turn: int = 3, job: int = JOB) -> None:
        self.court.deadlines[job, turn] = deadline
        self.double.set_deadline(job, turn, deadline)

    def set_parts(self, parts: int) -> None:
        self.court.parts = parts
        self.evidence.set_parts(parts)

    def refuse_transfers(self, refuses: bool = True) -> None:
        self.court.refuses = refuses
        self.token.refuse(refuses)

    @property
    def explorations(self) -> Explorations:
        return self.world

    def hot_of(self, name: str) -> str:
        return "carol hot" if name == "carol" else "hot"

    def wait(self, seconds: int) -> None:
        chain.timestamp += seconds

    def to(self, second: int) -> None:
        chain.timestamp = second

    # --- calls in step

    def call(self, function: str, sender: str, *args: Any, value: int = 0) -> Any:
        """On both sides; returns what the specification does, or raises its refusal. Nothing may differ."""
        account = self.accounts[sender]
        message = Message(account, chain.timestamp, value, self.base_fee)
        before = {name: copy(getattr(self.world, name)) for name in KEPT}
        calls = len(self.court.calls)
        refusal, result = "", None
        try:
            side = verdicts if function in ENDS else referee
            result = getattr(side, function)(self.world, message, *args)
        except Refused as refused:
            refusal = refused.reason
            for name, kept in before.items():
                setattr(self.world, name, kept)
            del self.court.calls[calls:]
        chain.base_fee = self.base_fee
        reverted = ""
        try:
            getattr(self.contract, function)(*map(sent, args), sender=account, value=value)
        except Reverted as error:
            reverted = error.reason or f"? {error}"
        assert reverted == refusal, f"{function}: contract {reverted!r}, specification {refusal!r}"
        self.reasons[refusal] += 1
        if refusal:
            raise Refused(refusal)
        self.accepted[function] += 1
        self._compare(before, calls, result)
        return result

    def _compare(self, before: dict[str, Any], calls: int, result: Any) -> None:
        w, contract = self.world, self.contract
        logs = [(type(event).__name__, *event[1:]) for event in contract.get_logs()]
        self._compare_events(logs, calls, result)
        for id in {*w.nodes, *before["nodes"]}:
            if w.nodes.get(id) != before["nodes"].get(id):
                assert contract.nodes(id) == node_word(w.nodes.get(id)), "node"
        for key, claim in w.claims.items():
            if claim != before["claims"].get(key):
                assert contract.claims(key) == claim_word(claim), f"claim {claim}"
                assert contract.is_final(key) == (not claim.end and is_final(w, claim, chain.timestamp))
        for holder, open_asks in w.heavy.items():
            assert contract.open_heavy(*holder) == open_asks, "heavy asks"
        for (token, account), amount in w.owed.items():
            assert contract.owed(token, account) == amount, "owed"
        for token, amount in w.burned.items():
            assert contract.burned(token) == amount, "burned"
        for key, verdict in w.verdicts.items():
            assert contract.verdicts(key) == verdict_word(verdict), "verdict"
        for key, finder in w.finders.items():
            assert contract.finders(key) == finder_word(finder), "finder"
        for hash_, at in w.seals.items():
            assert contract.seals(hash_) == at, "seal"
        self.check_money()

    def _compare_events(self, logs: list[tuple[Any, ...]], calls: int, result: Any) -> None:
        asked = [each for each in logs if each[0] in ("ClaimAsked", "NodeAsked")]
        others = [each for each in logs if each[0] in ("DisputeOpened", "DisputeClosed", "FinderRewarded")]
        assert others == self.court.calls[calls:], f"calls {others}, specification {self.court.calls[calls:]}"
        if asked:
            id, node, *_ = result
            assert (asked[0][-1], asked[0][3 if asked[0][0] == "ClaimAsked" else 2]) == (node.record, id), "event"

    def check_money(self) -> None:
        """INVARIANT money: the balances are the open prepayments, what is owed, and what is burned."""
        w = self.world
        coin = sum(amount for (token, _), amount in w.owed.items() if token == COIN)
        tokens = sum(amount for (token, _), amount in w.owed.items() if token != COIN) + sum(w.burned.values())
        for node, _ in w.nodes.values():
            coin += node.payment.fee * 10**9
            if node.payment.is_heavy:
                tokens += heavy_price(w, self.job, node.payment.is_of_aggregation, node.price)[1]
        assert chain.balance(self.contract.address) - coin >= 0, "coin"
        assert self.token.balanceOf(self.contract.address) == tokens, "tokens"

    def no(self, reason: str, function: str, sender: str, *args: Any, value: int = 0) -> None:
        try:
            self.call(function, sender, *args, value=value)
        except Refused as error:
            refusal = error.reason
        else:
            refusal = "accepted"
        assert refusal == reason, f"{function}: {refusal!r}, expected {reason!r}"

    @contextmanager
    def fork(self) -> Iterator[Exploring]:
        """A copy to go on with; what happens on chain is undone."""
        with chain.anchor():
            mine = copy(self)
            mine.court = replace(
                self.court, terms=dict(self.court.terms), deadlines=dict(self.court.deadlines), calls=[]
            )
            mine.world = Explorations(mine.court, PRODUCTION)
            for name in KEPT:
                setattr(mine.world, name, copy(getattr(self.world, name)))
            mine.nodes, mine.frames, mine.claims = dict(self.nodes), dict(self.frames), dict(self.claims)
            yield mine
