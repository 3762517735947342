"""Availability and Audits against their specification, call for call, through all that docs/protocol.md lists of them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import boa
import pytest

from tests.openings import segment_opening, state_opening, update_opening
from zoo_compute.spec.availability import least_deposit
from zoo_compute.spec.params import STRANGERS_LANE, SUBMITTER_LANE
from zoo_compute.spec.state import Claim
from zoo_compute.spec.watching import Opening, Seal, SegmentOpening, Signature
from zoo_compute.spec.world import EXTERNAL

from .watching import PRESET, SEGMENTS, Twin

PROTOCOL = Path(__file__).parents[2] / "docs" / "protocol.md"
ANSWER_S, BOND = PRESET.answer_s, PRESET.audit_bond
SALT, LIE = b"s" * 32, b"x" * 32
# What no account of a twin can meet.
EXCLUDED = {
    "availability: transfer failed": "every account takes coin here: tests/unit/test_contracts_availability_ends.py",
}


class Played(Twin):
    """A twin whose first turn is closed: claims of seats 0, 1 and 2, of two slots each, and of the aggregator."""

    def __init__(self, token: str) -> None:
        super().__init__(token)
        for seat in (0, 1, 2):
            self.commit(seat)
        self.post_checkpoint()
        self.claims = {seat: self.newest(seat) for seat in (0, 1, 2, 128)}

    def ok(self, name: str, sender: str, *args: Any, value: int = 0) -> None:
        assert self.attempt(*name.split("."), sender, *args, value=value) is None

    def no(self, reason: str, name: str, sender: str, *args: Any, value: int = 0) -> None:
        contract, function = name.split(".")
        assert self.attempt(contract, function, sender, *args, value=value) == f"{contract}: {reason}"

    # --- availability

    def holder(self, lane: int) -> str:
        operator = self.world.seat(1, lane).operator
        return self.submitter if lane == SUBMITTER_LANE else self.hot(operator) if operator else self.stranger

    def demand(self, seat: int, lane: int = STRANGERS_LANE, reason: str = "", **changes: Any) -> None:
        claim: Claim = changes.get("claim", self.claims[seat])
        slot = changes.get("slot", 0 if claim.is_aggregation else claim.scope >> 16)
        value = changes.get("value", least_deposit(self.base_fee))
        args = (1, claim, lane, slot, changes.get("tensor", 0), changes.get("group", 0))
        sender = changes.get("sender", self.holder(lane))
        if reason:
            self.no(reason, "availability.demand", sender, *args, value=value)
        else:
            self.ok("availability.demand", sender, *args, value=value)

    def opening(self, seat: int, lane: int, *, tensor: int | None = None) -> Opening:
        claim = self.claims[seat]
        asked = self.world.demands[1, claim, lane]
        tensor = asked.tensor if tensor is None else tensor
        if claim.is_aggregation:
            parts = state_opening(self.states[claim], tensor, asked.group)
        else:
            parts = update_opening(self.results[claim], asked.slot - (claim.scope >> 16), tensor, asked.group)
        return Opening(*(tuple(part) if isinstance(part, list) else part for part in parts))

    def answer(self, seat: int, lane: int = STRANGERS_LANE) -> None:
        self.ok("availability.answer", self.stranger, 1, self.claims[seat], lane, self.opening(seat, lane))

    def signatures(self, *seats: int) -> tuple[Signature, ...]:
        return tuple(Signature(seat, self.hot(self.world.seat(1, seat).operator or 7)) for seat in seats)

    # --- audits

    def drawn(self) -> None:
        """Two auditors with unequal bonds; turn 0 is drawn 3 blocks later."""
        for operator, times in ((5, 1), (6, 39)):
            self.ok("audits.enlist", self.owners[operator], operator, times * BOND)
        self.now += 1
        self.ok("audits.schedule", self.stranger, 1, 0)
        self.block += 2 + PRESET.draw_blocks
        self.now += 10
        self.ok("audits.draw", self.stranger, 1, 0)

    def root(self, unit: int) -> bytes:
        results = self.results[self.claims[unit // SEGMENTS // 2]]
        return results[unit // SEGMENTS % 2].steps[unit % SEGMENTS + 1][1]

    def attest(self, unit: int, operator: int, reason: str = "", **changes: Any) -> None:
        claim = changes.get("claim", self.claims[unit // SEGMENTS // 2 % 3])
        hot = self.hot(operator)
        seal = Seal(1, 0, unit, operator, hot, changes.get("root") or self.root(unit % 18), SALT)
        args = (1, claim, unit, operator, seal)
        sender = changes.get("sender", hot)
        if reason:
            self.no(reason, "audits.attest", sender, *args)
        else:
            self.ok("audits.attest", sender, *args)

    def open_args(self, unit: int, segment: int | None = None) -> tuple[Any, ...]:
        claim = self.claims[unit // SEGMENTS // 2]
        segment = unit % SEGMENTS if segment is None else segment
        parts = segment_opening(self.results[claim], unit // SEGMENTS % 2, segment)
        opening = SegmentOpening(*(tuple(part) if isinstance(part, list) else part for part in parts))
        return (1, claim, unit, self.root(unit), opening)

    def finalise(self) -> None:
        self.now = max(self.now, *(claim.deadline + 1 for claim in self.claims.values()))
        for claim in self.claims.values():
            if self.world.claims[1, claim.seat, 0].status == 1:
                self.play("settlement", "finalise", self.stranger, 1, (claim,))


@contextmanager
def anchored() -> Iterator[None]:
    """Nothing of the chain or of its clock stays."""
    context, patch = boa.env.evm.vm.state.execution_context, boa.env.evm.patch
    hashes, base_fee = patch.prev_hashes, context._base_fee_per_gas
    # titanoboa decodes what it traced at an address, and other tests' contracts had these addresses before.
    boa.env.sha3_trace, boa.env.sstore_trace = {}, {}
    with boa.env.anchor():
        yield
    patch.prev_hashes, context._base_fee_per_gas = hashes, base_fee


def demands_and_answers(t: Played) -> None:
    t.demand(0, 1, "not the lane's holder", sender=t.stranger)
    t.demand(0, 0, "not the lane's holder")
    for lane in (3, 131, 2**200):
        t.demand(0, lane, "not the lane's holder")
    for what in ({"slot": 2}, {"tensor": 2**32}, {"group": 2**40}):
        t.demand(0, reason="nothing there", **what)
    t.demand(128, reason="nothing there", slot=1)
    t.base_fee = 3 * 10**9
    t.demand(0, reason="deposit too small", value=least_deposit(3 * 10**9) - 1)
    t.demand(0, 1, slot=1, tensor=0, group=1)
    t.base_fee = 0
    t.demand(0, 1, "demand open")
    t.demand(0, tensor=2**32 - 1, group=2**40 - 1)
    t.demand(128, SUBMITTER_LANE, tensor=2)
    t.demand(0, 128, tensor=1)
    t.now += 7
    wrong = t.opening(0, 1, tensor=1)
    t.no("bytes do not match", "availability.answer", t.stranger, 1, t.claims[0], 1, wrong)
    t.no("no demand", "availability.answer", t.stranger, 1, t.claims[0], 129, wrong)
    t.answer(0, 1)
    t.now += 5
    for seat, lane in ((0, STRANGERS_LANE), (128, SUBMITTER_LANE), (0, 128)):
        t.answer(seat, lane)
    t.no("no demand", "availability.close", t.stranger, 1, t.claims[0], 1)
    for _ in range(3):
        t.demand(0, 1)
        t.now += ANSWER_S
        t.answer(0, 1)
    t.demand(0, 1, "demands spent")
    t.ok("availability.withdraw", t.stranger, t.owners[1])
    t.no("nothing owed", "availability.withdraw", t.stranger, t.owners[1])


def certificates(t: Played) -> None:
    claim, certify = t.claims[0], "availability.certify"
    t.demand(0)
    t.no("seats out of order", certify, t.stranger, 1, claim, t.signatures(2, 1))
    t.no("seats out of order", certify, t.stranger, 1, claim, t.signatures(128))
    t.no("not another's seat", certify, t.stranger, 1, claim, t.signatures(0, 1))
    t.no("not another's seat", certify, t.stranger, 1, claim, t.signatures(1, 7))
    t.no("not signed", certify, t.stranger, 1, claim, (Signature(1, t.hot(6)),))
    t.no("too few slots", certify, t.stranger, 1, claim, t.signatures(1))
    t.now += ANSWER_S
    t.no("window open", "availability.close", t.stranger, 1, claim, STRANGERS_LANE)
    t.ok(certify, t.stranger, 1, claim, t.signatures(1, 2))
    t.no("certified", certify, t.stranger, 1, claim, t.signatures(1, 2))
    t.demand(0, 1, "certified")
    t.now += 1
    t.ok("availability.close", t.stranger, 1, claim, STRANGERS_LANE)


def silence(t: Played) -> None:
    """Claims of slots are void; a demand at the last moment for it leaves time to end it."""
    late = t.claims[1].deadline - 2 * ANSWER_S
    t.demand(1, 2)
    t.now += ANSWER_S + 1
    opening = t.opening(1, 2)
    t.no("answer too late", "availability.answer", t.stranger, 1, t.claims[1], 2, opening)
    t.ok("availability.close", t.stranger, 1, t.claims[1], 2)
    t.demand(1, reason="unknown claim")
    t.no("unknown claim", "availability.certify", t.stranger, 1, t.claims[1], ())
    t.no("not convicted", "audits.record_conviction", t.stranger, 1, t.claims[0])
    t.ok("audits.record_conviction", t.stranger, 1, t.claims[1])
    t.demand(2, 0)
    t.demand(2)
    t.now = late + 1
    t.demand(0, reason="too late")
    t.now = late
    t.demand(0)
    t.ok("availability.close", t.stranger, 1, t.claims[2], 0)
    t.ok("availability.close", t.stranger, 1, t.claims[2], STRANGERS_LANE)
    t.now += ANSWER_S + 1
    t.ok("availability.close", t.stranger, 1, t.claims[0], STRANGERS_LANE)


def offers_and_bonds(t: Played) -> None:
    offer, submitter = "audits.offer", t.submitter
    t.no("nothing offered", "audits.fund", submitter, 1, 9)
    t.no("nothing offered", "audits.schedule", submitter, 1, 0)
    t.no("not the submitter", offer, t.stranger, 1, 7, 10_000, SEGMENTS)
    t.no("fee out of range", offer, submitter, 1, 2**96, 10_000, SEGMENTS)
    t.no("rate out of range", offer, submitter, 1, 7, 10_001, SEGMENTS)
    t.no("segments out of range", offer, submitter, 1, 7, 10_000, 0)
    t.ok(offer, submitter, 1, 7, 5_000, SEGMENTS)
    t.no("already offered", offer, submitter, 1, 7, 10_000, SEGMENTS)
    t.no("zero amount", "audits.fund", submitter, 1, 0)
    t.ok("audits.fund", t.owners[7], 1, 30)
    t.no("not the owner", "audits.enlist", t.hot(5), 5, BOND)
    t.no("bond below the minimum", "audits.enlist", t.owners[5], 5, BOND - 1)
    t.no("not the owner", "audits.resign", t.hot(5), 5)
    t.no("not enlisted", "audits.resign", t.owners[5], 5)
    t.no("job not over", "audits.refund", t.stranger, 1)
    t.no("turn still open", "audits.schedule", t.stranger, 1, 1)
    t.no("not scheduled", "audits.draw", t.stranger, 1, 0)
    t.no("not drawn", "audits.attest", t.hot(5), 1, t.claims[0], 0, 5, Seal(1, 0, 0, 5, t.hot(5), LIE, SALT))
    t.drawn()
    t.no("already scheduled", "audits.schedule", t.stranger, 1, 0)
    t.no("already drawn", "audits.draw", t.stranger, 1, 0)
    spared = next(unit for unit in range(18) if not t.audits.is_drawn(1, 0, unit))
    t.attest(spared, 6, "unit not drawn")
    units = [unit for unit in range(12) if t.audits.is_drawn(1, 0, unit)]
    far = next(unit for unit in units if not t.audits.is_selected(1, 0, unit, 5))
    t.attest(far, 5, "not selected")
    for unit in units[:4]:
        t.attest(unit, 6)
    t.attest(units[4], 6, "budget spent")
    t.no("attestations open", "audits.resign", t.owners[6], 6)
    t.ok("audits.resign", t.owners[5], 5)
    t.ok("audits.withdraw", t.stranger, t.world.config.zen, t.owners[5])
    t.no("nothing owed", "audits.withdraw", t.stranger, t.world.config.zen, t.owners[5])
    t.finalise()
    t.no("no attestation", "audits.settle", t.stranger, 1, 0, units[0], 5)
    t.now = t.world.draws[1, 0].drawn_at + 3 * t.world.draws[1, 0].phase_s
    t.no("not final", "audits.settle", t.stranger, 1, 0, units[0], 6)
    t.now += 1
    for unit in units[:4]:
        t.ok("audits.settle", t.stranger, 1, 0, unit, 6)


def attestations(t: Played) -> None:
    t.ok("audits.offer", t.submitter, 1, 7, 10_000, SEGMENTS)
    t.ok("audits.fund", t.submitter, 1, 500)
    t.ok("audits.enlist", t.owners[1], 1, BOND)
    t.drawn()
    record = t.world.draws[1, 0]
    t.now = record.attest_until
    t.attest(0, 5, "not the hot key", sender=t.stranger)
    t.attest(0, 7, "not enlisted in time")
    t.attest(0, 1, "own work")
    t.attest(6, 5, "no such unit", claim=t.claims[0])
    t.attest(0, 5, "no such unit", claim=t.claims[128])
    for unit, root in ((0, None), (1, LIE), (2, None), (3, LIE), (6, None), (12, LIE)):
        t.attest(unit, 5, root=root)
    t.attest(0, 5, "already attested")
    t.attest(0, 6)
    t.ok("audits.enlist", t.owners[7], 7, BOND)
    t.attest(6, 1)
    t.attest(6, 6, "places taken")
    t.no("attesting runs", "audits.open", t.stranger, *t.open_args(0))
    reveal = "audits.reveal"
    t.no("not revealing", reveal, t.stranger, 1, 0, 0, 5, t.root(0), SALT)
    t.now += 1
    t.attest(4, 5, "attesting is over")
    t.no("seal does not match", reveal, t.stranger, 1, 0, 0, 5, LIE, SALT)
    for unit, root in ((0, t.root(0)), (1, LIE), (2, t.root(2)), (3, LIE), (6, t.root(6)), (12, LIE)):
        t.ok(reveal, t.stranger, 1, 0, unit, 5, root, SALT)
    t.no("no attestation", reveal, t.stranger, 1, 0, 0, 5, t.root(0), SALT)
    t.no("no attestation", "audits.open", t.stranger, *t.open_args(5))
    t.no("root does not match", "audits.open", t.stranger, *t.open_args(1, segment=2))
    for unit in (0, 1, 2, 3, 6):
        t.ok("audits.open", t.hot(unit + 1), *t.open_args(unit))
    t.no("already opened", "audits.open", t.stranger, *t.open_args(0))
    t.no("not final", "audits.settle", t.stranger, 1, 0, 0, 5)
    # Of claim 0 the referee finds leaf 3 of slot 0 false; before it, an attestation made up was right for all one knows.
    t.no("not the referee", "audits.falsify", t.stranger, 1, t.claims[0], 0, 3)
    for action in ("open_dispute", "close_dispute"):
        more = (True, (t.stranger,)) if action == "close_dispute" else ()
        t.play("settlement", action, t.referee, 1, t.claims[0], *more)
    t.attest(9, 5, "attesting is over")
    for leaf in (3, SEGMENTS + 9):
        t.ok("audits.falsify", t.referee, 1, t.claims[0], 0, leaf)
    t.now = record.drawn_at + 3 * record.phase_s + 1
    t.finalise()
    for unit, operator in ((0, 5), (0, 6), (1, 5), (2, 5), (3, 5), (6, 5), (6, 1), (12, 5)):
        t.ok("audits.settle", t.stranger, 1, 0, unit, operator)
    t.no("no attestation", "audits.settle", t.stranger, 1, 0, 0, 5)
    for token, account in list(t.world.audit_owed):
        t.ok("audits.withdraw", t.stranger, token, account)


def stale_draws_and_refunds(t: Played) -> None:
    t.ok("audits.offer", t.submitter, 1, 7, 1, SEGMENTS)
    t.ok("audits.fund", t.submitter, 1, 21)
    t.ok("audits.enlist", t.owners[5], 5, BOND)
    t.now += 1
    t.ok("audits.schedule", t.stranger, 1, 0)
    t.block += 1 + PRESET.draw_blocks
    t.no("draw block not buried", "audits.draw", t.stranger, 1, 0)
    t.block = 1_001 + 257
    t.ok("audits.draw", t.stranger, 1, 0)
    assert t.world.draws[1, 0].stale
    t.attest(17, 5)
    t.play("settlement", "open_dispute", t.referee, 1, t.claims[1])
    t.play("settlement", "close_dispute", t.referee, 1, t.claims[1], True, ())
    t.attest(7, 5, "unknown claim")
    for name, token in t.tokens.items():
        token.refuse(True)
        t.world.false_tokens[str(token.address)] = True
        t.no(
            "transfer failed",
            *(("audits.fund", t.submitter, 1, 1) if name == "usd" else ("audits.enlist", t.owners[5], 5, 1)),
        )
        token.refuse(False)
        t.world.false_tokens[str(token.address)] = False
    t.finalise()
    t.now = max(t.now, t.world.run(1).inputs_close, t.world.draws[1, 0].drawn_at + 3 * t.world.draws[1, 0].phase_s + 1)
    t.play("settlement", "abandon", t.stranger, 1)
    t.no("turn is final", "audits.schedule", t.stranger, 1, 1)
    t.ok("audits.refund", t.stranger, 1)
    t.no("nothing left", "audits.refund", t.stranger, 1)
    t.ok("audits.settle", t.stranger, 1, 0, 17, 5)


SCENARIOS = {
    function.__name__: (function, token)
    for function, token in (
        (demands_and_answers, "usd"),
        (certificates, "usd"),
        (silence, "usd"),
        (offers_and_bonds, "usd"),
        (attestations, "zen"),
        (stale_draws_and_refunds, "usd"),
    )
}


class Reached:
    """Plays each scenario once, whoever asks first."""

    def __init__(self) -> None:
        self.reasons: Counter[str] = Counter()
        self.accepts: Counter[str] = Counter()
        self._done: set[str] = set()

    def play(self, name: str) -> None:
        if name in self._done:
            return
        function, token = SCENARIOS[name]
        with anchored():
            twin = Played(token)
            function(twin)
        self.reasons.update(twin.reasons)
        self.accepts.update(twin.accepts)
        self._done.add(name)


@pytest.fixture(scope="module")
def reached() -> Reached:
    return Reached()


@pytest.mark.parametrize("name", SCENARIOS)
def test_contracts_and_specification_agree_on(reached: Reached, name: str) -> None:
    reached.play(name)


def test_every_function_and_refusal_is_reached(reached: Reached) -> None:
    for name in SCENARIOS:
        reached.play(name)
    listed = set(re.findall(r"`((?:availability|audits): [a-zA-Z' -]+)`", PROTOCOL.read_text(encoding="utf-8")))
    listed |= {"audits: transfer failed"}
    functions = {f"{contract}.{name}" for contract in ("availability", "audits") for name in EXTERNAL[contract]}
    assert sorted(functions - set(reached.accepts)) == []
    assert sorted(listed - set(EXCLUDED) - set(reached.reasons)) == []
    assert set(reached.reasons) <= listed
