"""Payment channels on chain: opened, added to, listed, left and closed (docs/protocol/channels.md)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from zoo_compute.chain import permits
from zoo_compute.chain.batch import Read, read_all
from zoo_compute.chain.events import scan
from zoo_compute.chain.reverts import refusal
from zoo_compute.chain.tokens import set_allowance, token_at
from zoo_compute.errors import BareRevert, NotFunded, TokenRefusal, UserError
from zoo_compute.serving.vouchers import SignedVoucher, Voucher, domain_of
from zoo_compute.spec.params import COIN

if TYPE_CHECKING:
    from zoo_compute.chain.connection import Chain
    from zoo_compute.chain.sender import Receipt, Sender

Say = Callable[[str], None]


@dataclass(frozen=True)
class OpenChannel:
    """A channel of the chain. ends_at: in the protocol's time, when its client may take back the rest; None without notice."""

    number: int
    client: str
    operator: int
    token: str
    signer: str
    deposit: int
    paid: int
    ends_at: int | None

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON; amounts in smallest units, as text."""
        fields = {"channel": self.number, "client": self.client, "operator": self.operator, "token": self.token}
        amounts = {"deposit": str(self.deposit), "paid": str(self.paid)}
        return {**fields, "signer": self.signer, **amounts, "ends_at": self.ends_at}


def domain_at(chain: Chain) -> bytes:
    """What binds vouchers to a network."""
    return domain_of(chain.network.chain_id, chain.network.contracts["channels"])


def open_channel(sender: Sender, operator: int, token: str, signer: str, amount: int, say: Say) -> Receipt:
    """Open a channel of the sender's; its event ChannelOpened has the number. One transaction where the token takes permits.

    amount: in smallest units. Raises NotFunded, Refusal.
    """
    channels = sender.chain.channels
    # Before anything is approved.
    if not sender.chain.tasks.is_allowed(token):
        raise refusal("channels: token not allowed", "Channels.open")
    if sender.chain.registry.owner_of(operator) == COIN:
        raise refusal("channels: no such operator", "Channels.open")
    _check_balance(sender, token, amount)
    terms = None
    if sender.chain.token(token).allowance(sender.address, channels.address) < amount:
        terms = permits.next_terms(sender, token)
    permit = permits.sign_permit(sender, token, channels.address, amount, terms, say) if terms else None
    if permit is not None:
        try:
            return sender.send(channels.open_permitted(operator, token, signer, amount, *permit))
        except (TokenRefusal, BareRevert):
            say("the token takes no permit of this account: approving the deposit first")
    set_allowance(sender, token, channels.address, amount)
    return sender.send(channels.open(operator, token, signer, amount))


def add(sender: Sender, number: int, amount: int) -> Receipt:
    """Add to a channel's deposit, in smallest units. Raises UserError, NotFunded, Refusal."""
    token = read_channel(sender.chain, number).token
    _check_balance(sender, token, amount)
    set_allowance(sender, token, sender.chain.channels.address, amount)
    return sender.send(sender.chain.channels.add(number, amount))


def close(sender: Sender, signed: SignedVoucher) -> Receipt:
    """Close a channel with its newest voucher, as its operator. Raises Refusal."""
    return sender.send(sender.chain.channels.close(*signed.args))


def close_unpaid(sender: Sender, number: int) -> Receipt:
    """Close a channel that owes its operator nothing more: the client has back all that is not paid. Raises UserError, Refusal."""
    return close(sender, SignedVoucher(Voucher(number, read_channel(sender.chain, number).paid), b""))


def read_channel(chain: Chain, number: int) -> OpenChannel:
    """Raises UserError where there is none."""
    record = chain.channels.channels(number)
    if record.client == COIN:
        raise UserError(
            f"there is no channel {number} on {chain.network.name}, or it is closed", hint="`zoo channel list`"
        )
    return _open(number, record._asdict())


def list_channels(chain: Chain, *, client: str | None = None, operator: int | None = None) -> list[OpenChannel]:
    """The channels that are open, oldest first: a client's, an operator's, or all."""
    head = chain.head().number
    of = None if client is None else int(client, 16)
    opened = scan(chain, chain.network.first_block, head, names=("ChannelOpened",), operator=operator, client=of)
    numbers = [int(event.args["channel"]) for event in opened]
    records = read_all(chain, head, [Read("channels", "channels", (number,)) for number in numbers])
    return [_open(number, each) for number, each in zip(numbers, records, strict=True) if each["client"] != COIN]


def _open(number: int, record: dict[str, Any]) -> OpenChannel:
    return OpenChannel(number, **{**record, "ends_at": record["ends_at"] or None})


def _check_balance(sender: Sender, address: str, amount: int) -> None:
    token = token_at(sender.chain, address)
    balance = sender.chain.token(address).balanceOf(sender.address)
    if balance < amount:
        raise NotFunded(
            f"the account {sender.address} has {token.format(balance)}; the deposit is {token.format(amount)}",
            hint=f"send it {token.format(amount - balance)}",
        )
