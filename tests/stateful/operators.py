"""Rules of a walk: the business of operators, and strays."""

from typing import Any

from tests.stateful.rules import precondition, rule
from tests.stateful.walk import INDEX, OFFSET, TOKENS, Walk
from tests.support.lockstep.stage import AUDITORS, OPERATORS
from tests.support.scenarios.governance import intakes_of
from zoo_compute.spec.auditing import verdicts_of
from zoo_compute.spec.params import AGGREGATOR_SEAT, PERIODS, STAKE_UNIT


class Operators(Walk):
    """What owners do at any time; and any call on any job, whatever its state."""

    @rule(who=INDEX, what=range(13), amount=(0, 1, 100, 5_000, 998_000, 10**6), token=TOKENS)
    def manage(self, who: int, what: int, amount: int, token: str) -> None:
        """An owner's business, exits included."""
        name = (*OPERATORS, *AUDITORS, "alice")[who]
        owner, operator, address = f"{name} owner", self.s.ids[name], self.s.tokens[token]
        calls: list[tuple[Any, ...]] = [
            ("registry", "deposit", operator, address, amount),
            ("registry", "withdraw", operator, address, amount),
            ("registry", "withdraw", operator, address, self.s.world.deposit_of(operator, address).free),
            ("registry", "add_stake", operator, amount * (STAKE_UNIT if amount % 100 == 0 else 1)),
            ("registry", "request_exit", operator),
            ("registry", "withdraw_stake", operator),
            ("registry", "set_hot", operator, self.s.accounts[f"{name} hot"]),
            ("registry", "allow_answers", operator, self.s.accounts["stranger"], amount > 0),
            ("registry", "announce", operator, "http://elsewhere"),
            ("registry", "declare_region", operator, amount and 0x45554445 if amount < 10**6 else 2**32),
            ("audits", "pay_out", operator, address, amount),
            ("audits", "deposit", operator, address, amount),
            ("datasets", "contribute", b"r" * 32, b"c" * 32, amount, b"n" * 32 if amount == 1 else bytes(32)),
        ]
        contract, function, *args = calls[what]
        self.s.attempt(contract, function, owner, *args)

    @rule(who=INDEX, tier=(0, 0, 1, 2), hours=range(2**PERIODS + 1), back=range(-1, 4))
    def promise(self, who: int, tier: int, hours: int, back: int) -> None:
        """Hours are declared; an older promise is judged; the operator is handed over, and back."""
        name = OPERATORS[who % 5]
        keys = (f"{name} owner", "stranger")
        for old, new in (keys, keys[::-1]):
            self.s.attempt("registry", "offer_owner", old, self.s.ids[name], self.s.accounts[new])
            self.s.attempt("registry", "accept_owner", new, self.s.ids[name])
        if back >= 0:
            self.s.attempt("registry", "breach", "stranger", self.s.ids[name], self.epoch - back)
        if back < 2:
            self.s.attempt("registry", "declare", f"{name} owner", self.s.ids[name], tier, hours)

    @rule(who=INDEX, periods=range(3))
    def beat(self, who: int, periods: int) -> None:
        """Signs of life, the clock running on by a period or so between them."""
        name = OPERATORS[who % 5]
        for _ in range(periods):
            self.s.attempt("registry", "heartbeat", f"{name} hot", self.s.ids[name])
            self.s.wait(self.s.preset.epoch_s // PERIODS)

    @precondition(lambda self: self.is_idle)
    @rule(who=INDEX, hours=range(1, 2**PERIODS - 1 + 1), offset=OFFSET)
    def break_promise(self, who: int, hours: int, offset: int) -> None:
        """Hours of the next epoch are promised; at its end, and at the next one's, anybody may see to it."""
        name = OPERATORS[who % 5]
        self.s.attempt("registry", "declare", f"{name} owner", self.s.ids[name], 0, hours)
        for intake in intakes_of(self.s).values():  # the pauses end before the walk goes on
            self.s.attempt("guardian", "pause", "guardian", intake)
        for _ in range(2):
            self.s.to((self.s.now // self.s.preset.epoch_s + 1) * self.s.preset.epoch_s)
        self.s.to(self.s.now + max(0, offset))
        epoch = self.epoch
        for back in (0, 1):
            self.s.attempt("registry", "breach", "stranger", self.s.ids[name], epoch - back)

    # Strays ---------------------------------------------------------------------------------------------------------

    @rule(job=INDEX, who=INDEX, which=range(17), number=(0, 1, 2, 3, 2**256 - 1))
    def stray(self, job: int, who: int, which: int, number: int) -> None:
        """Any call on any job, whatever its state."""
        job, name = self.job(job), OPERATORS[who % 5]
        operator, root = self.s.ids[name], b"r" * 32
        calls: list[tuple[Any, ...]] = [
            ("settlement", "ready", job, number, number),
            ("settlement", "decline", job, number, number),
            ("settlement", "expire", job, number),
            ("settlement", "commit", job, number, number, root, root),
            ("settlement", "time_out", job, number),
            ("settlement", "take_over", job, number, operator, number, number),
            ("settlement", "post_checkpoint", job, AGGREGATOR_SEAT, number, number, root, root),
            ("settlement", "time_out", job, AGGREGATOR_SEAT),
            ("locks", "release", job, operator),
            ("auction", "reopen", job, number),
            ("auction", "award", job, number, (operator,)),
            ("auction", "clear", job, number, (operator,)),
            ("settlement", "void"),
            ("settlement", "hold"),
            ("settlement", "resume"),
            ("audits", "draw_units", job, number),
            ("audits", "give_verdicts", job, number, operator, verdicts_of([1], [])),
        ]
        contract, function, *args = calls[which]
        self.s.attempt(contract, function, f"{name} hot", *args)
