"""Credits: what an account has of them, buying, pledging, and what accepted work shares of the mint."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from zoo_compute.amounts import CREDIT, ZEN, Token, format_amount
from zoo_compute.chain.batch import Read, read_all
from zoo_compute.chain.tokens import set_allowance
from zoo_compute.errors import NotFunded, UserError
from zoo_compute.spec.credits import credits_for
from zoo_compute.spec.params import CLAIM_EPOCHS

if TYPE_CHECKING:
    from zoo_compute.chain.connection import Chain
    from zoo_compute.chain.sender import Sender

NAME = "credits"


@dataclass(frozen=True)
class EpochShare:
    """An account's part in an epoch's mint, all in smallest units. accepted: of all work; share: of the account, not claimed yet."""

    epoch: int
    accepted: int
    budget: int
    share: int

    @property
    def amount(self) -> int:
        """The ZEN that the share brings, if the epoch ended as it is."""
        return self.budget * self.share // self.accepted if self.accepted else 0


@dataclass(frozen=True)
class CreditsView:
    """Credits at one block. rate: 10**-18 dollars for a ZEN. epoch: the present one. pledges: ZEN of the account behind collateral."""

    rate: int
    posted_at: int
    is_fresh: bool
    poster: str
    burned: int
    pool: int
    epoch: int
    balance: int
    pledges: int
    shares: tuple[EpochShare, ...]  # of epochs that can be claimed, and the present one

    @property
    def claimable(self) -> tuple[EpochShare, ...]:
        return tuple(share for share in self.shares if share.epoch < self.epoch and share.amount)

    @property
    def present(self) -> EpochShare:
        return self.shares[-1]


def read_credits(chain: Chain, account: str) -> CreditsView:
    """What the contract shows, and what an account has. Two requests, of some hundred reads."""
    head = chain.head().number
    epoch = chain.now() // chain.params.epoch_s
    names = ("rate", "posted_at", "is_fresh", "poster", "burned", "pool")
    reads = [Read(NAME, name, ()) for name in names]
    reads += [Read(NAME, "balanceOf", (account,)), Read(NAME, "pledges", (account,))]
    rate, posted_at, is_fresh, poster, burned, pool, balance, pledges = read_all(chain, head, reads)
    shares = shares_of(chain, account, range(max(0, epoch - CLAIM_EPOCHS), epoch + 1))
    return CreditsView(
        rate, posted_at, bool(is_fresh), str(poster), burned, pool, epoch, balance, pledges, tuple(shares)
    )


def shares_of(chain: Chain, account: str, epochs: range) -> list[EpochShare]:
    """An account's parts in the mints of these epochs."""
    head = chain.head().number
    shares = read_all(chain, head, [Read(NAME, "shares", (account, epoch)) for epoch in epochs])
    totals = read_all(chain, head, [Read(NAME, "epochs", (epoch,)) for epoch in epochs])
    return [
        EpochShare(epoch, total["accepted"], total["budget"], share)
        for epoch, share, total in zip(epochs, shares, totals, strict=True)
    ]


def price_of(chain: Chain, text: str, *, what: str) -> tuple[int, int]:
    """What to buy, in smallest units of a dollar and of credits: `$20` is dollars, a number alone is credits. Raises UserError."""
    rate = chain.credits.rate()
    if not chain.credits.is_fresh():
        raise UserError(
            "the rate of credits is stale, so none can be bought",
            hint="the poster's next rate ends that (`zoo credits show`); jobs can be paid in ZEN meanwhile",
        )
    if text.strip().startswith("$"):
        dollars = Token("$", 18).parse(text.strip()[1:], what=what)
    else:
        # The dollars that buy at least as many.
        dollars = -(-CREDIT.parse(text, what=what) * rate // 10**CREDIT.decimals)
    if not dollars:
        raise UserError(f"{what} is nothing: {text!r}", hint="buy for more, such as $20")
    return dollars, credits_for(dollars, rate)


def buy(sender: Sender, dollars: int, most: int) -> int:
    """Burn ZEN worth so many smallest units of a dollar, at most `most`; returns the credits bought. Raises NotFunded."""
    chain = sender.chain
    _check_zen(sender, most, "buying burns up to")
    set_allowance(sender, chain.zen.address, chain.credits.address, most)
    before = chain.credits.balanceOf(sender.address)
    sender.send(chain.credits.buy(dollars, most))
    return chain.credits.balanceOf(sender.address) - before


def pledge(sender: Sender, operator: int, amount: int) -> None:
    """Put ZEN behind as many credits of collateral. Raises NotFunded."""
    chain = sender.chain
    _check_zen(sender, amount, "the pledge is")
    set_allowance(sender, chain.zen.address, chain.credits.address, amount)
    sender.send(chain.credits.pledge(operator, amount))


def claim(sender: Sender, account: str) -> dict[int, int]:
    """Claim an account's shares of every mint that is over. Returns the ZEN by epoch."""
    chain = sender.chain
    claimable = read_credits(chain, account).claimable
    for share in claimable:
        sender.send(chain.credits.claim(account, share.epoch))
    return {share.epoch: share.amount for share in claimable}


def _check_zen(sender: Sender, needed: int, what: str) -> None:
    balance = sender.chain.zen.balanceOf(sender.address)
    if balance < needed:
        raise NotFunded(
            f"the account {sender.address} has {format_amount(balance)}; {what} {format_amount(needed)}",
            hint=f"send it {ZEN.format(needed - balance)}",
        )
