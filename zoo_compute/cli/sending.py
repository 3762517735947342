"""`--unsigned`, `--safe` and `--from`, of every command that sends transactions: print them for whatever signs elsewhere."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from zoo_compute.cli.context import Command, Settings
from zoo_compute.cli.output import say
from zoo_compute.errors import UserError

if TYPE_CHECKING:
    from zoo_compute.chain.unsigned import UnsignedAccount

NOTHING = "there is nothing to send"


def _options(taken: set[str]) -> list[click.Option]:
    return [
        click.Option(
            ["--unsigned"], is_flag=True, expose_value=False, callback=_remember("unsigned"),
            help="Send nothing: print the transactions as JSON, for a wallet that signs elsewhere.",
        ),
        click.Option(
            ["--safe"], metavar="ADDRESS", expose_value=False, callback=_remember("safe"),
            help="Send nothing: print a batch for the Transaction Builder of the Safe at ADDRESS.",
        ),
        click.Option(
            [each for each in ("--from", "--sender") if each not in taken], metavar="ADDRESS", expose_value=False,
            callback=_remember("sent_from"), help="With --unsigned: who sends; --account's address by default. Needs no key.",
        ),
    ]  # fmt: skip


def _remember(attribute: str) -> Any:
    def callback(ctx: click.Context, parameter: click.Parameter, value: Any) -> None:
        settings = ctx.ensure_object(Settings)
        if value and attribute != "unsigned":
            from zoo_compute.chain.roles import address_of

            value = address_of(value, parameter.opts[0])
        if value:
            setattr(settings, attribute, value)

    return callback


class Sending(Command):
    """A command that sends transactions. Settings give a signer to no other command.

    signs: why its transactions cannot be printed; empty if they can.
    """

    def __init__(self, *args: Any, signs: str = "", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.signs = signs
        taken = {name for parameter in self.params for name in parameter.opts}
        self.params.extend(_options(taken))

    def invoke(self, ctx: click.Context) -> Any:
        """As click; with --unsigned, print what it would send. Raises UserError where that cannot be."""
        settings = ctx.ensure_object(Settings)
        if not settings.prints():
            if settings.sent_from:
                raise UserError(
                    "--from names an account whose key is not here, so nothing can be signed",
                    hint="add --unsigned to print the transactions, or choose a key with --account",
                )
            return super().invoke(ctx)
        if self.signs:
            raise UserError(
                f"`{ctx.command_path}` cannot print its transactions: {self.signs}", hint="choose a key with --account"
            )
        if settings.safe and settings.sent_from not in (None, settings.safe):
            raise UserError(
                f"the Safe {settings.safe} sends its batch, not {settings.sent_from}", hint="leave --from out"
            )
        return self._print(ctx, settings)

    def _print(self, ctx: click.Context, settings: Settings) -> None:
        from zoo_compute.chain.unsigned import NotMinedYet

        account, then = settings.unsigned_account(), ""
        try:
            super().invoke(ctx)
        except NotMinedYet as end:
            then = str(end)
        print_unsigned(settings, account, then)


def print_unsigned(settings: Settings, account: UnsignedAccount, then: str) -> None:
    """The transactions on stdout, and on stderr what each does and what to do after them."""
    from zoo_compute.chain.unsigned_forms import safe_batch, to_json

    if not account.transactions:
        say(NOTHING)
    transactions = [to_json(settings.chain(), each) for each in account.transactions]
    for number, each in enumerate(transactions, 1):
        say(f"{number}. {each['description']}")
    if then:
        say(f"then: {then}")
    if settings.safe:
        click.echo(
            json.dumps(safe_batch(settings.chain(), account, [each["description"] for each in transactions]), indent=2)
        )
    elif settings.as_json:
        click.echo(json.dumps({"from": account.address, "transactions": transactions, "then": then or None}))
    else:
        click.echo(json.dumps(transactions, indent=2))
