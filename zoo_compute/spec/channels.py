"""Channels: deposits that clients spend on one operator by signed vouchers (docs/protocol/channels.md)."""

from dataclasses import replace

from zoo_compute.spec.params import fee_of
from zoo_compute.spec.revert import require
from zoo_compute.spec.state import NO_CHANNEL, ZERO_ADDRESS, Channel, Message, Voucher, World

MAX_DEPOSIT: int = 2**96 - 1  # smallest units: shares its word with an address


def open(w: World, msg: Message, operator: int, token: str, signer: str, amount: int) -> int:
    """A new channel of the sender's to an operator; its deposit is pulled."""
    require(w.allowed.get(token, False), "channels: token not allowed")
    require(operator in w.operators, "channels: no such operator")
    require(signer != ZERO_ADDRESS, "channels: zero signer")
    require(0 < amount <= MAX_DEPOSIT, "channels: amount out of range")
    w.channel_count += 1
    w.channels[w.channel_count] = Channel(msg.sender, operator, token, signer, amount)
    w.move(token, msg.sender, w.config.channels, amount, by="channels")
    return w.channel_count


def open_permitted(
    w: World,
    msg: Message,
    operator: int,
    token: str,
    signer: str,
    amount: int,
    deadline: int,
    v: int,
    r: bytes,
    s: bytes,
) -> int:
    """Like `open`, with a signed permit that lets the contract pull the deposit without a prior approval."""
    return open(w, msg, operator, token, signer, amount)


def add(w: World, msg: Message, channel: int, amount: int) -> None:
    """The client adds to a deposit that it gave no notice for."""
    record = _clients(w, msg, channel)
    require(0 < amount <= MAX_DEPOSIT - record.deposit, "channels: amount out of range")
    w.channels[channel] = replace(record, deposit=record.deposit + amount)
    w.move(record.token, msg.sender, w.config.channels, amount, by="channels")


def redeem(w: World, msg: Message, channel: int, total: int, voucher: Voucher) -> int:
    """Pays the operator what a voucher adds; the channel stays open."""
    record = _channel(w, channel)
    due = _due(w, msg, channel, total, voucher)
    require(due > 0, "channels: nothing new")
    w.channels[channel] = replace(record, paid=record.paid + due)
    _pay(w, record, due)
    return due


def close(w: World, msg: Message, channel: int, total: int, voucher: Voucher) -> int:
    """Pays the operator what its last voucher adds, and the client the rest. The channel is gone."""
    record = _channel(w, channel)
    due = _due(w, msg, channel, total, voucher)
    del w.channels[channel]
    _pay(w, record, due)
    _send(w, record.token, record.client, record.deposit - record.paid - due)
    return due


def leave(w: World, msg: Message, channel: int) -> None:
    """The client gives notice."""
    record = _clients(w, msg, channel)
    w.channels[channel] = replace(record, ends_at=msg.now + w.config.preset.notice_s)


def refund(w: World, msg: Message, channel: int) -> int:
    """After the notice the client has back what was not paid; anyone may call it."""
    record = _channel(w, channel)
    require(record.ends_at > 0, "channels: no notice given")
    require(msg.now > record.ends_at, "channels: notice not over")
    del w.channels[channel]
    _send(w, record.token, record.client, record.deposit - record.paid)
    return record.deposit - record.paid


def withdraw(w: World, msg: Message, token: str, account: str) -> int:
    """Sends an account what a transfer to it could not deliver."""
    amount = w.channels_owed.get((token, account), 0)
    require(amount > 0, "channels: nothing owed")
    w.channels_owed[token, account] = 0
    w.move(token, w.config.channels, account, amount, by="channels")
    return amount


def payable(record: Channel, total: int) -> int:
    """What a voucher of `total` adds to what was paid: the deposit covers no more."""
    return min(total, record.deposit) - record.paid


def _channel(w: World, channel: int) -> Channel:
    require(channel in w.channels, "channels: no such channel")
    return w.channels.get(channel, NO_CHANNEL)


def _clients(w: World, msg: Message, channel: int) -> Channel:
    """The sender's channel, before any notice."""
    record = _channel(w, channel)
    require(msg.sender == record.client, "channels: not the client")
    require(record.ends_at == 0, "channels: notice given")
    return record


def _due(w: World, msg: Message, channel: int, total: int, voucher: Voucher) -> int:
    """For the operator's two keys: what a voucher adds. One of what was paid already needs no signature."""
    record = _channel(w, channel)
    operator = w.operator(record.operator)
    require(msg.sender in (operator.owner, operator.hot), "channels: not the operator")
    require(total >= record.paid, "channels: already paid more")
    is_signed = voucher == Voucher(record.signer, channel, total)
    require(total == record.paid or is_signed, "channels: voucher not signed")
    return payable(record, total)


def _pay(w: World, record: Channel, due: int) -> None:
    _send(w, record.token, w.operator(record.operator).owner, due - fee_of(due))
    _send(w, record.token, w.config.treasury, fee_of(due))


def _send(w: World, token: str, to: str, amount: int) -> None:
    """A transfer, or a debt where the token does not deliver."""
    if amount and w.false_tokens.get(token, False):
        w.channels_owed[token, to] = w.channels_owed.get((token, to), 0) + amount
    elif amount:
        w.move(token, w.config.channels, to, amount, by="channels")
