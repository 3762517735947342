"""A job of the specification beside Availability and Audits, whose view of it is a double told what the specification says.

The law is that of `stage`: both accept and reach the same state, or both refuse for the same reason.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import astuple, replace
from typing import Any

import boa
import numpy as np
from eth_abi.abi import encode
from eth_account import Account
from eth_utils.crypto import keccak

from repops import commitments
from tests.contract_kit import START, UNLIMITED, load, reason_of
from tests.openings import SlotRound, round_root
from zoo_compute.spec.params import DEVNET, ZEN, Terms
from zoo_compute.spec.refusal import Refused
from zoo_compute.spec.state import Claim, Config, World
from zoo_compute.spec.state import Seal as BidSeal
from zoo_compute.spec.watching import Seal, Signature
from zoo_compute.spec.world import Call, apply

CLAIM_TYPE = "(uint256,uint256,uint256,uint256,uint256,uint256,uint256,bytes32,bytes32,uint256)"
SLOTS, SEGMENTS, STEPS = 6, 3, 4
RUN_FIELDS = [
    "state",
    "round",
    "turn",
    "rounds",
    "slots",
    "quorum",
    "depth",
    "policy",
    "opened_at",
    "window_s",
    "slot_s",
    "aggregate_s",
    "aggregator",
    "aggregator_due",
    "token",
    "lock",
    "flops",
    "seats",
    "missing",
    "committed",
    "holds",
    "held_s",
    "pot",
    "start_root",
]
WATCHED = ("demands", "certified", "holdings", "spent", "coin_owed", "plans", "draws", "auditors", "units")
WATCHED += ("attestations", "falsified", "convicted", "audit_owed")
BEARERS = (1, 2, 3, 4)  # operators with seats: 4 aggregates
PRESET = replace(DEVNET, min_window_s=600, answer_s=40)


def claim_hash(claim: Claim) -> bytes:
    return bytes(keccak(encode([CLAIM_TYPE], [astuple(claim)])))


def sealed(seal: Seal) -> bytes:
    types = ["uint256"] * 4 + ["address"] + ["bytes32"] * 2
    return bytes(keccak(encode(types, astuple(seal))))


def block_hash(number: int) -> bytes:
    return bytes(keccak(number.to_bytes(32, "big")))


def update(slot: int, turn: int) -> dict[str, np.ndarray[Any, Any]]:
    big = np.arange(slot + turn, slot + turn + 1_200 + slot, dtype=np.float32)
    return {"a": big, "b": big[: slot + 1], "c": np.int64([turn])}


class Twin:
    """Both sides of one job."""

    def __init__(self, token: str) -> None:
        self.keys = {operator: Account.from_key(operator.to_bytes(32, "big")) for operator in range(1, 8)}
        self.double = load("mocks/ProtocolDouble").deploy()
        self.tokens = {name: load("mocks/FalseToken").deploy() for name in ("zen", "usd")}
        at = str(self.double.address)
        self.availability = load("Availability").deploy(at, at, at, PRESET.answer_s)
        zen = self.tokens["zen"].address
        self.audits = load("Audits").deploy(at, at, at, at, zen, PRESET.audit_bond, PRESET.draw_blocks)
        self.referee = str(boa.env.generate_address("referee"))
        self.audits.wire(self.referee)
        self.contracts = {"availability": self.availability, "audits": self.audits}
        self.submitter = str(boa.env.generate_address("submitter"))
        self.stranger = str(boa.env.generate_address("stranger"))
        self.owners = {operator: str(boa.env.generate_address(f"owner {operator}")) for operator in self.keys}
        self.world = World(
            config=Config(preset=PRESET, zen=str(zen), referee=self.referee, audits=str(self.audits.address))
        )
        self.now, self.block, self.base_fee, self.job = START, 1_000, 0, 1
        self.reasons: Counter[str] = Counter()
        self.accepts: Counter[str] = Counter()
        self.results: dict[Claim, list[SlotRound]] = {}
        self.states: dict[Claim, dict[str, np.ndarray[Any, Any]]] = {}
        self._cast()
        self._start(str(self.tokens[token].address))

    # --- the specification's job

    def play(self, contract: str, function: str, sender: str, *args: Any) -> Any:
        """A step of the protocol's other contracts, which only the specification makes."""
        self.world, result = apply(self.world, Call(contract, function, sender, self.now, args))
        self.tell()
        return result

    def _cast(self) -> None:
        for account in (self.submitter, self.stranger, *self.owners.values(), *map(self.hot, self.keys)):
            boa.env.set_balance(account, 10**24)
            for token in self.tokens.values():
                token.mint(account, 10**6 * ZEN)
                token.approve(self.audits, UNLIMITED, sender=account)
                self.world.balances[str(token.address), account] = 10**6 * ZEN
        for operator, owner in self.owners.items():
            self.double.set_operator(operator, owner, self.hot(operator))

    def _start(self, token: str) -> None:
        play = self.play
        play("tasks", "allow", "deployer", token, True, 0)
        for operator, owner in self.owners.items():
            play("registry", "register", owner, self.hot(operator), 1, 48, PRESET.min_stake, "http://")
            play("registry", "deposit", owner, operator, token, 10**9)
        roots = (b"p" * 32, b"s" * 32, b"d" * 32, b"m" * 32)
        terms = Terms(token, *roots, 9, SLOTS, 2, 100, 160, 50, 80, 300, 300, 5, 10**12, 4, 0)
        play("tasks", "post", self.submitter, terms)
        bids = [(0, operator, 2) for operator in BEARERS[:3]] + [(1, BEARERS[3], 1)]
        for kind, operator, capacity in bids:
            seal = BidSeal(1, kind, 1, operator, 40, capacity, bytes(32))
            play("auction", "bid", self.hot(operator), 1, kind, operator, seal, capacity, False)
        self.now = self.world.lot(1, 0).bid_end
        for kind, operator, _ in bids:
            play("auction", "reveal", self.stranger, 1, kind, operator, 40, bytes(32))
        self.now = self.world.lot(1, 0).reveal_end
        for kind, operators in ((0, BEARERS[:3]), (1, BEARERS[3:])):
            play("auction", "clear", self.stranger, 1, kind, operators)
        for kind, operators in ((0, BEARERS[:3]), (1, BEARERS[3:])):
            play("auction", "award", self.stranger, 1, kind, operators)
        for seat in (0, 1, 2, 128):
            if self.world.run(1).missing >> seat & 1:
                play("settlement", "ready", self.hot(self.world.seat(1, seat).operator), 1, seat, 20)

    def hot(self, operator: int) -> str:
        return str(self.keys[operator].address)

    def commit(self, seat: int) -> None:
        run, held = self.world.run(1), self.world.seat(1, seat)
        results = [self._result(slot, run.turn, run.start_root) for slot in range(held.first, held.first + held.count)]
        args = (1, seat, run.turn, round_root(results), bytes(32))
        self.play("settlement", "commit", self.hot(held.operator), *args)
        self.results[self.newest(seat)] = results

    def _result(self, slot: int, turn: int, start: bytes) -> SlotRound:
        steps = [(index * STEPS, bytes([slot, turn, index, 1]) * 8) for index in range(1, SEGMENTS + 1)]
        return SlotRound(slot, start, ((0, start), *steps), update(slot, turn))

    def post_checkpoint(self) -> None:
        run = self.world.run(1)
        state = update(40, run.turn)
        mask = ~run.missing & (1 << run.seats) - 1
        args = (1, run.turn, mask, commitments.state_root(state), bytes(32))
        self.play("settlement", "post_checkpoint", self.hot(self.world.seat(1, 128).operator), *args)
        self.states[self.newest(128)] = state

    def newest(self, seat: int) -> Claim:
        return max((posted.claim for key, posted in self.world.claims.items() if key[1] == seat), key=lambda c: c.turn)

    # --- both sides

    def tell(self) -> None:
        """The double says what the specification says of the job."""
        w, double = self.world, self.double
        if 1 in w.jobs:
            double.set_job(1, astuple(w.job(1)))
        if 1 not in w.runs:
            return
        run = {name: getattr(w.run(1), name, 0) for name in RUN_FIELDS}
        double.set_run(1, tuple(run.values()))
        for (_, seat), held in w.seats.items():
            double.set_seat(1, seat, astuple(held)[:8])
        for posted in w.claims.values():
            double.set_claim(1, astuple(posted.claim), int(posted.status))
        for turn in range(w.run(1).turn + 1):
            double.set_final(1, turn, turn < w.run(1).turn and w.lane(1, turn).pending == 0)

    def attempt(self, contract: str, function: str, sender: str, *args: Any, value: int = 0) -> str | None:
        """One call on both; the reason it was refused for."""
        call = Call(contract, function, sender, self.now, args, value, self.base_fee, self.block)
        self.world.block_hashes = {number: block_hash(number) for number in range(self.block - 256, self.block)}
        before, reason, result = self.world, None, None
        try:
            self.world, result = apply(before, call)
        except Refused as refusal:
            reason = refusal.reason
        resumed, voided = self.double.count_resumed(), self.double.count_voided()
        given, returned = self._invoke(call)
        assert given == reason, f"{call}: refused with {given!r}, specification says {reason!r}"
        if reason is not None:
            self.reasons[reason] += 1
            return reason
        self.accepts[f"{contract}.{function}"] += 1
        assert result is None or returned == result
        self._compare(before, resumed, voided)
        self.tell()
        return None

    def _invoke(self, call: Call) -> tuple[str | None, Any]:
        boa.env.timestamp = call.now
        patch = boa.env.evm.patch
        patch.block_number = call.block
        patch.prev_hashes = [block_hash(call.block - back) for back in range(1, 257)]
        boa.env.evm.vm.state.execution_context._base_fee_per_gas = call.base_fee
        method = getattr(self.contracts[call.contract], call.function)
        args = [self._encoded(arg, call) for arg in call.args]
        options = {"value": call.value} if call.value else {}
        try:
            return None, method(*args, sender=call.sender, **options)
        except boa.BoaError as error:
            return reason_of(error), None

    def _encoded(self, arg: Any, call: Call) -> Any:
        if isinstance(arg, Seal):
            return sealed(arg)
        if isinstance(arg, Signature):
            return self._signed(arg, call.args[1])
        if isinstance(arg, tuple):
            return [self._encoded(item, call) for item in arg]
        if hasattr(arg, "__dataclass_fields__"):
            return tuple(list(part) if isinstance(part, tuple) else part for part in astuple(arg))
        return arg

    def _signed(self, signature: Signature, claim: Claim) -> tuple[Any, ...]:
        key = next(key for key in self.keys.values() if str(key.address) == signature.signer)
        signed = key.unsafe_sign_hash(self.availability.digest(1, claim_hash(claim)))
        return (signature.seat, signed.v, signed.r.to_bytes(32, "big"), signed.s.to_bytes(32, "big"))

    def _compare(self, before: World, resumed: int, voided: int) -> None:
        w = self.world
        for name in WATCHED:
            old, new = getattr(before, name), getattr(w, name)
            for key in new:
                if old.get(key) != new[key]:
                    self._check(name, key, new[key])
        assert (self.audits.bonded(), self.audits.burned()) == (w.bonded, w.bonds_burned)
        moved = sum(self.double.resumed(index) for index in range(resumed, self.double.count_resumed()))
        assert self.double.holds() == w.run(1).holds
        shown = sum(posted.status != before.claims[key].status for key, posted in w.claims.items())
        assert self.double.count_voided() - voided == shown
        if not shown and w.run(1).opened_at:
            assert w.run(1).aggregator_due - before.run(1).aggregator_due == moved
        for name, token in self.tokens.items():
            held = w.balances.get((str(token.address), w.config.audits), 0)
            assert token.balanceOf(self.audits) == held, f"audits hold another amount of {name}"
        assert boa.env.get_balance(self.availability.address) == sum(w.coin_owed.values()) + sum(
            asked.deposit for asked in w.demands.values()
        )

    def _check(self, name: str, key: Any, value: Any) -> None:
        shown, expected = CHECKS[name](self, key, value)
        assert shown == expected, f"{name} {key}: shows {shown}, specification says {expected}"


def _demand(twin: Twin, key: Any, value: Any) -> tuple[Any, Any]:
    return tuple(twin.availability.demands(key[0], claim_hash(key[1]), key[2])), astuple(value)


def _unit(twin: Twin, key: Any, value: Any) -> tuple[Any, Any]:
    expected = (claim_hash(value.claim), value.attested, value.opener, value.root)
    return tuple(twin.audits.units(*key)), expected


def _attestation(twin: Twin, key: Any, value: Any) -> tuple[Any, Any]:
    shown = twin.audits.attestations(*key)
    content = sealed(value.seal) if value.seal else value.root
    return (shown.status, shown.content), (int(value.status), content)


CHECKS: dict[str, Callable[[Twin, Any, Any], tuple[Any, Any]]] = {
    "demands": _demand,
    "certified": lambda t, k, v: (t.availability.certified_at(k[0], claim_hash(k[1])), v),
    "holdings": lambda t, k, v: (tuple(t.availability.holdings(k)), astuple(v)),
    "spent": lambda t, k, v: (tuple(t.availability.held(*k)), astuple(v)),
    "coin_owed": lambda t, k, v: (t.availability.owed(k), v),
    "plans": lambda t, k, v: (tuple(t.audits.plans(k)), astuple(v)),
    "draws": lambda t, k, v: (tuple(t.audits.draws(*k)), astuple(v)),
    "auditors": lambda t, k, v: (tuple(t.audits.auditors(k)), astuple(v)),
    "units": _unit,
    "attestations": _attestation,
    "falsified": lambda t, k, v: (t.audits.falsified(*k), v),
    "convicted": lambda t, k, v: (t.audits.convicted(k[0], claim_hash(k[1])), v),
    "audit_owed": lambda t, k, v: (t.audits.owed(*k), v),
}
