"""Directed sequences about channels; see `opening`. Walks over the same are in `tests/stateful/test_channels.py`."""

from typing import Any

from tests.support.lockstep.stage import Stage
from tests.support.scenarios.auctions import scenario
from zoo_compute.spec.channels import MAX_DEPOSIT
from zoo_compute.spec.state import ZERO_ADDRESS, Channel, Voucher

PERMIT = (0, 27, b"r" * 32, b"s" * 32)  # of nobody


def opened(s: Stage, amount: int = 1_000, token: str = "zen", operator: str = "alice") -> int:
    """A channel of the submitter's, whose vouchers the guardian signs."""
    args = (s.ids[operator], s.tokens[token], s.accounts["guardian"], amount)
    return int(s.ok("channels", "open", "submitter", *args))


def voucher(s: Stage, channel: int, total: int, signer: str = "guardian") -> Voucher:
    return Voucher(s.accounts[signer], channel, total)


def show(s: Stage, function: str, channel: int, total: int, /, by: str = "alice hot", **changes: Any) -> str | None:
    """Redeem or close with the right voucher, or with one that has these changes."""
    args = {"channel": channel, "total": total, "signer": "guardian"} | changes
    return s.attempt("channels", function, by, channel, total, voucher(s, **args))


@scenario
def a_channel_is_opened_to_an_operator_in_an_allowed_token(s: Stage) -> None:
    s.register("alice")
    zen, signer, alice = s.tokens["zen"], s.accounts["guardian"], s.ids["alice"]

    def no(reason: str, *args: Any) -> None:
        s.no(f"channels: {reason}", "channels", "open", "submitter", *args)
        s.no(f"channels: {reason}", "channels", "open_permitted", "submitter", *args, *PERMIT)

    no("token not allowed", 99, s.tokens["bad"], ZERO_ADDRESS, 0)
    for operator in (0, 2, 2**256 - 1):
        no("no such operator", operator, zen, ZERO_ADDRESS, 0)
    no("zero signer", alice, zen, ZERO_ADDRESS, 0)
    for amount in (0, MAX_DEPOSIT + 1, 2**256 - 1):
        no("amount out of range", alice, zen, signer, amount)
    s.no("erc20: transfer amount exceeds balance", "channels", "open", "submitter", alice, zen, signer, MAX_DEPOSIT)
    assert opened(s) == 1
    assert s.ok("channels", "open_permitted", "stranger", alice, s.tokens["usd"], signer, 7, *PERMIT) == 2
    assert s.world.channels[2] == Channel(s.accounts["stranger"], alice, s.tokens["usd"], signer, 7)


@scenario
def vouchers_pay_the_operators_owner_less_the_fee_and_what_is_left_goes_back(s: Stage) -> None:
    s.register("alice")
    s.register("bob")
    channel, other, before = opened(s), opened(s, operator="bob"), dict(s.world.balances)

    def moved(account: str) -> int:
        address = s.world.config.treasury if account == "treasury" else s.accounts[account]
        key = s.tokens["zen"], address
        return s.world.balances.get(key, 0) - before.get(key, 0)

    for function in ("redeem", "close"):
        assert show(s, function, 99, 10) == "channels: no such channel"
        for sender in ("submitter", "guardian", "stranger", "bob hot", "bob owner"):
            assert show(s, function, channel, 10, by=sender) == "channels: not the operator"
        for changes in ({"signer": "submitter"}, {"total": 11}, {"channel": other}, {"signer": "alice hot"}):
            assert show(s, function, channel, 10, **changes) == "channels: voucher not signed"
    assert show(s, "redeem", channel, 0) == "channels: nothing new"
    assert show(s, "redeem", channel, 39) is None
    assert (moved("alice owner"), moved("treasury")) == (37, 2)
    assert show(s, "redeem", channel, 38) == show(s, "close", channel, 38) == "channels: already paid more"
    assert show(s, "redeem", channel, 39) == "channels: nothing new"
    assert show(s, "close", channel, 100, by="alice owner") is None
    assert (moved("alice owner"), moved("treasury"), moved("submitter")) == (37 + 57, 2 + 4, 900)
    for function in ("redeem", "close"):
        assert show(s, function, channel, 200) == "channels: no such channel"
    assert opened(s) == 3
    # What was signed for the channel before it is worth nothing in this one.
    assert show(s, "close", 3, 100, channel=channel) == "channels: voucher not signed"


@scenario
def a_deposit_pays_no_more_than_it_is_and_grows_by_what_its_client_adds(s: Stage) -> None:
    s.register("alice")
    channel = opened(s)
    s.no("channels: no such channel", "channels", "add", "submitter", 99, 0)
    for sender in ("guardian", "alice owner"):
        s.no("channels: not the client", "channels", "add", sender, channel, 0)
    for amount in (0, MAX_DEPOSIT - 999, 2**256 - 1):
        s.no("channels: amount out of range", "channels", "add", "submitter", channel, amount)
    assert show(s, "redeem", channel, 1_001) is None
    assert s.result == 1_000
    assert show(s, "redeem", channel, 2**256 - 1) == "channels: nothing new"
    s.ok("channels", "add", "submitter", channel, 10)
    assert show(s, "redeem", channel, 1_001) is None
    assert s.result == 1
    assert show(s, "close", channel, 2**256 - 1) is None
    assert s.result == 9


@scenario
def a_client_leaves_after_its_notice_in_which_the_operator_may_show_its_voucher(s: Stage) -> None:
    s.register("alice")
    left, kept, idle = opened(s), opened(s), opened(s)
    s.no("channels: no such channel", "channels", "leave", "submitter", 99)
    s.no("channels: not the client", "channels", "leave", "alice owner", left)
    s.no("channels: no such channel", "channels", "refund", "stranger", 99)
    s.no("channels: no notice given", "channels", "refund", "submitter", left)
    for channel in (left, kept):
        s.ok("channels", "leave", "submitter", channel)
    ends_at = s.now + s.preset.notice_s
    assert s.world.channels[left].ends_at == ends_at
    s.no("channels: notice given", "channels", "leave", "submitter", left)
    s.no("channels: notice given", "channels", "add", "submitter", left, 1)
    assert show(s, "redeem", left, 300) is None
    s.to(ends_at)
    s.no("channels: notice not over", "channels", "refund", "submitter", left)
    s.to(ends_at + 1)
    # The operator is late, and first all the same.
    assert show(s, "close", kept, 400) is None
    s.no("channels: no such channel", "channels", "refund", "submitter", kept)
    assert s.ok("channels", "refund", "stranger", left) == 700
    assert show(s, "close", left, 400) == "channels: no such channel"
    # An operator that is owed nothing closes without a voucher.
    assert show(s, "close", idle, 0, signer="stranger") is None
    assert s.result == 0


@scenario
def what_a_token_does_not_deliver_is_owed_and_holds_up_nobody(s: Stage) -> None:
    s.register("alice")
    bad = s.tokens["bad"]
    s.ok("tasks", "allow", "deployer", bad, True, 0)
    first, second = opened(s, token="bad"), opened(s, token="bad")
    s.ok("channels", "leave", "submitter", second)
    s.no("channels: nothing owed", "channels", "withdraw", "stranger", bad, s.accounts["submitter"])
    s.ok("token", "refuse", "stranger", bad, True)
    args = (s.ids["alice"], bad, s.accounts["guardian"], 1)
    s.no("channels: transfer failed", "channels", "open", "submitter", *args)
    s.no("channels: transfer failed", "channels", "add", "submitter", first, 1)
    assert show(s, "redeem", first, 100) is None
    assert show(s, "close", first, 300) is None
    s.wait(s.preset.notice_s + 1)
    s.ok("channels", "refund", "submitter", second)
    owed = {account: amount for (_, account), amount in s.world.channels_owed.items()}
    accounts = s.accounts["alice owner"], s.world.config.treasury, s.accounts["submitter"]
    assert tuple(owed[account] for account in accounts) == (95 + 190, 15, 700 + 1_000)
    s.no("channels: transfer failed", "channels", "withdraw", "stranger", bad, accounts[0])
    s.ok("token", "refuse", "stranger", bad, False)
    for account in accounts:
        s.ok("channels", "withdraw", "stranger", bad, account)
        s.no("channels: nothing owed", "channels", "withdraw", "stranger", bad, account)
    s.ok("treasury", "collect", "stranger", bad)


@scenario
def a_halt_of_the_chain_takes_nothing_of_a_notice_under_production_rules(s: Stage) -> None:
    s.register("alice")
    channel, outage_s = opened(s), s.preset.clocks.outage_s
    s.ok("channels", "leave", "submitter", channel)
    s.halt(s.preset.notice_s + 1)
    s.no("channels: notice not over", "channels", "refund", "submitter", channel)
    assert s.world.channels[channel].ends_at - s.time == s.preset.notice_s - outage_s
    s.ok("registry", "beat", "stranger")
    assert show(s, "close", channel, 1_000) is None


@scenario
def a_channel_outlives_its_operators_keys_and_owner(s: Stage) -> None:
    s.register("alice")
    channel, alice = opened(s), s.ids["alice"]
    s.ok("registry", "set_hot", "alice owner", alice, s.accounts["bob hot"])
    s.ok("registry", "offer_owner", "alice owner", alice, s.accounts["carol owner"])
    s.ok("registry", "accept_owner", "carol owner", alice)
    for sender in ("alice hot", "alice owner"):
        assert show(s, "close", channel, 100, by=sender) == "channels: not the operator"
    before = s.world.balances[s.tokens["zen"], s.accounts["carol owner"]]
    assert show(s, "close", channel, 100, by="bob hot") is None
    assert s.world.balances[s.tokens["zen"], s.accounts["carol owner"]] == before + 95
