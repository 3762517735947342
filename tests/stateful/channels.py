"""Rules of a walk: channels are opened, spent by vouchers, left and closed, in tokens that fail now and then."""

from __future__ import annotations

from typing import Any

from tests.stateful.rules import rule
from tests.stateful.walk import BOTH, INDEX, OFFSET, Walk
from tests.support.lockstep.stage import OPERATORS, WEALTH
from zoo_compute.spec.channels import MAX_DEPOSIT
from zoo_compute.spec.state import NO_CHANNEL, Channel, Voucher

CLIENTS = ("submitter", "stranger")
SIGNERS = ("guardian", "timelock")
TOKENS = ("zen", "usd", "bad")
AMOUNTS = (0, 1, 19, 20, 1_000, 10**18, MAX_DEPOSIT, MAX_DEPOSIT + 1)
PERMIT = (0, 27, b"r" * 32, b"s" * 32)  # of nobody


class Channels(Walk):
    """What clients, operators and strangers do with channels."""

    def number(self, index: int) -> int:
        """An open channel; now and then one that is closed, or none."""
        numbers = list(self.s.world.channels)
        return numbers[index % len(numbers)] if numbers and index < 7 else self.s.world.channel_count - index + 7

    def record(self, number: int) -> Channel:
        return self.s.world.channels.get(number, NO_CHANNEL)

    def within(self, amount: int, token: str) -> int:
        """The bad token has no reason to refuse what an account does not have: no more than it has is tried there."""
        return min(amount, WEALTH // 10**6) if token == self.s.tokens["bad"] else amount

    @rule(3, who=INDEX, client=CLIENTS, signer=SIGNERS, token=TOKENS, amount=AMOUNTS, permitted=BOTH)
    def open_channel(self, who: int, client: str, signer: str, token: str, amount: int, permitted: bool) -> None:
        function, permit = ("open_permitted", PERMIT) if permitted else ("open", ())
        args = (who, self.s.tokens[token], self.s.accounts[signer], self.within(amount, self.s.tokens[token]))
        self.s.attempt("channels", function, client, *args, *permit)

    @rule(client=CLIENTS, which=INDEX, amount=AMOUNTS)
    def add_to_channel(self, client: str, which: int, amount: int) -> None:
        number = self.number(which)
        self.s.attempt("channels", "add", client, number, self.within(amount, self.record(number).token))

    @rule(4, which=INDEX, more=(-1, 0, 1, 7, 500, 2**255), wrong=INDEX, by=INDEX, ends=(False, False, True))
    def show_voucher(self, which: int, more: int, wrong: int, by: int, ends: bool) -> None:
        """A voucher for so much more than was paid; it has a wrong signer, channel or total now and then, or a wrong sender."""
        number = self.number(which)
        record = self.record(number)
        total = max(0, record.paid + more)
        signer = self.s.accounts["stranger"] if wrong == 5 else record.signer
        known = signer if signer in self.s.accounts.values() else self.s.accounts["stranger"]
        voucher = Voucher(known, number + (wrong == 6), total + (wrong == 7))
        operator = self.s.world.operator(record.operator)
        sender = {5: "submitter", 6: "stranger", 7: f"{OPERATORS[0]} hot"}.get(by)
        if sender is None:
            sender = operator.owner if by % 2 and record.operator else operator.hot if record.operator else "stranger"
        self.s.attempt("channels", "close" if ends else "redeem", sender, number, total, voucher)

    @rule(2, which=INDEX, client=CLIENTS)
    def leave_channel(self, which: int, client: str) -> None:
        self.s.attempt("channels", "leave", client, self.number(which))

    @rule(2, which=INDEX, offset=OFFSET, waits=BOTH)
    def refund_channel(self, which: int, offset: int, waits: bool) -> None:
        """At any time, or around the end of a notice."""
        leaving = [number for number, record in self.s.world.channels.items() if record.ends_at]
        number = leaving[which % len(leaving)] if leaving and waits else self.number(which)
        if waits and leaving:
            self.s.to(max(self.s.now, self.record(number).ends_at + offset))
        self.s.attempt("channels", "refund", "stranger", number)

    @rule(refuses=BOTH)
    def turn_token(self, refuses: bool) -> None:
        self.s.attempt("token", "refuse", "stranger", self.s.tokens["bad"], refuses)

    @rule(who=INDEX, token=TOKENS)
    def withdraw_from_channels(self, who: int, token: str) -> None:
        accounts: list[Any] = [account for _, account in self.s.world.channels_owed] or [self.s.accounts["stranger"]]
        self.s.attempt("channels", "withdraw", "stranger", self.s.tokens[token], accounts[who % len(accounts)])

    @rule(who=INDEX)
    def change_keys(self, who: int) -> None:
        """An operator's hot key, and back; or its owner."""
        name = OPERATORS[who % 5]
        operator, owner = self.s.ids[name], self.s.world.operator(self.s.ids[name]).owner
        key = "hot" if who % 2 else "owner"
        if key == "hot":
            is_own = self.s.world.operator(operator).hot == self.s.accounts[f"{name} hot"]
            self.s.attempt("registry", "set_hot", owner, operator, self.s.accounts["sink" if is_own else f"{name} hot"])
            return
        new = "stranger" if owner != self.s.accounts["stranger"] else f"{name} owner"
        self.s.attempt("registry", "offer_owner", owner, operator, self.s.accounts[new])
        self.s.attempt("registry", "accept_owner", new, operator)

    @rule(token=("bad", "usd"), allowed=BOTH)
    def allow_token(self, token: str, allowed: bool) -> None:
        self.s.attempt("tasks", "allow", "deployer", self.s.tokens[token], allowed, 0)
