"""`zoo channel`: payment channels, from which an operator is paid for live requests by signed vouchers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from zoo_compute.amounts import format_seconds
from zoo_compute.cli.context import OPERATOR, Group, Number, Settings, pass_settings
from zoo_compute.cli.node.options import token_option
from zoo_compute.cli.output import table
from zoo_compute.cli.sending import Sending
from zoo_compute.errors import UserError

if TYPE_CHECKING:
    from zoo_compute.chain.receipt import Receipt
    from zoo_compute.inference.channels import OpenChannel
    from zoo_compute.serving.vouchers import SignedVoucher

CHANNEL = Number(lambda chain: chain.channels.channel_count())
_number = click.argument("number", type=CHANNEL, metavar="CHANNEL")
_file = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.group("channel", cls=Group)
def channel() -> None:
    """Payment channels: a deposit that signed vouchers spend on one operator."""


@channel.command("open", cls=Sending)
@click.argument("amount", metavar="AMOUNT")
@click.option("--operator", type=OPERATOR, required=True, help="The operator that it pays.")
@click.option(
    "--signer",
    metavar="ADDRESS",
    help="Key that signs the vouchers, and can do nothing else; your account's by default.",
)
@token_option
@pass_settings
def open_(settings: Settings, amount: str, operator: int, signer: str | None, token: str | None) -> None:
    """Open a channel with AMOUNT, whole tokens, for requests to one operator.

    What no voucher pays comes back when the operator closes the channel, or after `zoo channel leave` and `zoo channel refund`.
    """
    from zoo_compute.inference import channels

    money, key = settings.token(token), _signer(settings, signer)
    units, sender = money.parse(amount, what="the deposit"), settings.sender()
    receipt = channels.open_channel(sender, operator, money.address, key, units, settings.say)
    number = int(receipt.event("ChannelOpened").args["channel"])
    settings.emit(
        {"channel": number, "operator": operator, "signer": key, "deposit": str(units), "token": money.to_dict()}
        | _sent(receipt),
        f"channel {number}: {money.format(units)} for requests to operator {operator}; {key} signs its vouchers",
    )


@channel.command("list")
@click.option("--client", metavar="ADDRESS", help="Of this client; of your account by default.")
@click.option("--operator", type=OPERATOR, help="Of this operator, from all clients.")
@pass_settings
def list_(settings: Settings, client: str | None, operator: int | None) -> None:
    """List open channels, oldest first."""
    from zoo_compute.chain.roles import address_of
    from zoo_compute.inference import channels

    if client is not None:
        client = address_of(client, "--client")
    elif operator is None:
        client = settings.address()
    chain = settings.chain()
    records, now = channels.list_channels(chain, client=client, operator=operator), chain.time()
    lines = table([_row(settings, each, now) for each in records], header=HEADER) if records else ["no channel is open"]
    settings.emit({"channels": [each.to_dict() for each in records]}, lines)


@channel.command(cls=Sending)
@_number
@click.argument("amount", metavar="AMOUNT")
@pass_settings
def add(settings: Settings, number: int, amount: str) -> None:
    """Add AMOUNT, whole tokens, to the deposit of your channel."""
    from zoo_compute.inference import channels

    money = settings.token(channels.read_channel(settings.chain(), number).token)
    units = money.parse(amount, what="the deposit")
    receipt = channels.add(settings.sender(), number, units)
    settings.emit(
        {"channel": number, "added": str(units), "token": money.to_dict(), **_sent(receipt)},
        f"channel {number}: {money.format(units)} more",
    )


@channel.command(cls=Sending)
@_number
@pass_settings
def leave(settings: Settings, number: int) -> None:
    """Give notice for your channel. When it is over, `zoo channel refund` gives back what no voucher was shown for."""
    chain = settings.chain()
    receipt = settings.sender().send(chain.channels.leave(number))
    wait_s = chain.params.notice_s
    settings.emit(
        {
            "channel": number,
            "ends_at": receipt.event("NoticeGiven").args["ends_at"],
            "wait_s": wait_s,
            **_sent(receipt),
        },
        f"channel {number}: notice is given; in {format_seconds(wait_s)} run `zoo channel refund {number}`",
    )


@channel.command(cls=Sending)
@_number
@pass_settings
def refund(settings: Settings, number: int) -> None:
    """Take back what is left in a channel whose notice is over. It goes to the client, whoever sends this."""
    from zoo_compute.inference import channels

    record = channels.read_channel(settings.chain(), number)
    receipt = settings.sender().send(settings.chain().channels.refund(number))
    _report_closed(settings, [(record, receipt)])


@channel.command(cls=Sending)
@click.argument("number", type=CHANNEL, required=False, metavar="[CHANNEL]")
@click.option("--book", type=_file, help="Your operator's book, which has the newest voucher of each channel.")
@click.option("--voucher", type=_file, help="A file with one signed voucher, as the client sent it (JSON).")
@click.option("--nothing", is_flag=True, help="Without a voucher: the client has back all that was not paid yet.")
@pass_settings
def close(settings: Settings, number: int | None, book: Path | None, voucher: Path | None, nothing: bool) -> None:
    """Close a channel, as its operator: the newest voucher is paid to the operator's owner, and the rest goes to the client.

    Send it from the operator's owner or hot key. With --book and no CHANNEL: each channel of the book whose client gave notice.
    """
    from zoo_compute.inference import channels

    if [book is not None, voucher is not None, nothing].count(True) != 1:
        raise UserError("say what pays the operator", hint="pass one of --book FILE, --voucher FILE and --nothing")
    if number is None and book is None:
        raise UserError("say which channel to close", hint="give its number; `zoo channel list --operator N` has them")
    chain, sender = settings.chain(), settings.sender()
    if nothing and number is not None:
        record = channels.read_channel(chain, number)
        _report_closed(settings, [(record, channels.close_unpaid(sender, number))])
        return
    vouchers = _of_book(settings, book, number) if book else _of_file(voucher, number)
    closed = []
    for signed in vouchers:
        record = channels.read_channel(chain, signed.voucher.channel)
        closed.append((record, channels.close(sender, signed)))
    _report_closed(settings, closed)


def _of_book(settings: Settings, path: Path, number: int | None) -> list[SignedVoucher]:
    """The newest voucher of a channel, or of all whose client gave notice."""
    from zoo_compute.inference.books import operator_book
    from zoo_compute.inference.channels import read_channel

    chain = settings.chain()
    operator = 0 if number is None else read_channel(chain, number).operator
    book = operator_book(path, chain, operator)
    try:
        numbers = book.left() if number is None else [number]
        vouchers = [book.newest(each) for each in numbers]
    finally:
        book.close()
    if None in vouchers:
        raise UserError(
            f"{path} has no voucher of channel {number}",
            hint="--nothing closes it without one: then the client has back all that was not paid",
        )
    return [each for each in vouchers if each is not None]


def _of_file(path: Path | None, number: int | None) -> list[SignedVoucher]:
    """The voucher in a file, which must be the channel's."""
    from repops.fields import BadField, parse_json
    from zoo_compute.serving.vouchers import SignedVoucher

    assert path is not None
    try:
        signed = SignedVoucher.of_dict(parse_json(path.read_bytes(), "voucher"))
    except (BadField, UnicodeDecodeError) as error:
        raise UserError(
            f"{path}: {error}", hint='a voucher is {"channel": N, "total": "N", "signature": "0x..."}'
        ) from None
    if signed.voucher.channel != number:
        raise UserError(f"{path} has a voucher of channel {signed.voucher.channel}, not {number}")
    return [signed]


def _signer(settings: Settings, signer: str | None) -> str:
    """Whose vouchers count: an account that can sign them, or the one that is named."""
    from zoo_compute.chain.roles import address_of

    if signer is not None:
        return address_of(signer, "--signer")
    if settings.prints() or settings.hosted():
        raise UserError(
            "this account cannot sign vouchers",
            hint="pass --signer ADDRESS of a key that can: `zoo account create NAME`",
        )
    return settings.address()


HEADER = ("channel", "operator", "client", "deposit", "paid", "notice")


def _row(settings: Settings, each: OpenChannel, now: int) -> tuple[str, ...]:
    money = settings.token(each.token)
    if each.ends_at is None:
        notice = "-"
    else:
        notice = "over" if now > each.ends_at else f"ends in {format_seconds(each.ends_at - now + 1)}"
    return (
        str(each.number),
        str(each.operator),
        each.client,
        money.format(each.deposit),
        money.format(each.paid),
        notice,
    )


def _report_closed(settings: Settings, closed: list[tuple[OpenChannel, Receipt]]) -> None:
    """What each channel paid at its end, and to whom."""
    answers, lines = [], []
    for record, receipt in closed:
        money = settings.token(record.token)
        refunded = int(receipt.event("ChannelClosed").args["refunded"])
        due = record.deposit - record.paid - refunded
        amounts = {"paid": str(due), "refunded": str(refunded)}
        answers.append({"channel": record.number, **amounts, "token": money.to_dict(), **_sent(receipt)})
        lines.append(
            f"channel {record.number} is closed: {money.format(due)} to operator {record.operator} and the treasury, "
            f"{money.format(refunded)} back to {record.client}"
        )
    settings.emit({"closed": answers}, lines or "no channel is to be closed")


def _sent(receipt: Receipt) -> dict[str, Any]:
    return {"transaction": receipt.transaction_hash}
