"""When an operator shows a channel's newest voucher on chain: to close a channel whose client leaves, or to be paid in between. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from zoo_compute.inference.books import RECHECKS

GAS_SHARE = 100  # a payment in between is worth a hundred times its gas: it can wait, since the deposit is in escrow
REDEEM_GAS = CLOSE_GAS = 160_000  # tests/integration/test_cli_channel.py


@dataclass(frozen=True)
class Due:
    """What a channel's newest voucher would add. in_zen: whether the channel's token is ZEN, in which gas can be priced.

    ends_at: when the client's notice is over, in the protocol's time; 0: none was given.
    """

    channel: int
    unpaid: int
    in_zen: bool
    ends_at: int


def is_to_close(due: Due, now: int, notice_s: int, gas_zen: int) -> bool:
    """Of a channel with notice: once every process of the operator has seen the notice, so that no voucher is accepted after this one.

    A voucher in ZEN that is not worth its gas is let go. now: the protocol's time. gas_zen: what the transaction costs.
    """
    if not due.ends_at or due.unpaid <= 0 or (due.in_zen and due.unpaid <= gas_zen):
        return False
    return now >= due.ends_at - notice_s + 2 * notice_s // RECHECKS


def is_to_redeem(due: Due, gas_zen: int) -> bool:
    """Of a channel without notice. In other tokens than ZEN the operator redeems by hand: their worth is not known here."""
    return not due.ends_at and due.in_zen and due.unpaid > GAS_SHARE * gas_zen
