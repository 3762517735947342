"""What all commands share: the global options, and the network, account and store that follow from them."""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from zoo_compute import paths
from zoo_compute.cli.output import emit, say

if TYPE_CHECKING:
    from zoo_compute.amounts import Token
    from zoo_compute.chain.broadcasting import Signer
    from zoo_compute.chain.connection import Chain
    from zoo_compute.chain.network import Network
    from zoo_compute.chain.sender import Sender
    from zoo_compute.chain.unsigned import UnsignedAccount
    from zoo_compute.client.client import Client
    from zoo_compute.store import Store


COMPLETED = 50  # the most numbers that a shell proposes


class Number(click.IntRange):
    """The number of a job, an operator or a dataset. A shell completes those of the network, newest first."""

    def __init__(self, count: Callable[[Chain], int]) -> None:
        super().__init__(1, 2**64 - 1)
        self._count = count

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """As of click. Proposes nothing where the network cannot be read: whoever presses Tab waits for no error."""
        from zoo_compute.errors import ZooError

        try:
            count = self._count((ctx.find_object(Settings) or Settings()).chain())
        except (ZooError, OSError):
            return []
        matching = (str(number) for number in range(count, 0, -1) if str(number).startswith(incomplete))
        return [CompletionItem(number) for number in itertools.islice(matching, COMPLETED)]


JOB = Number(lambda chain: chain.tasks.job_count())
OPERATOR = Number(lambda chain: chain.registry.operator_count())
DATASET = Number(lambda chain: chain.datasets.dataset_count())


@dataclass
class Settings:
    """The global options, and what follows from them, made when first used. `ctx.obj` of every command."""

    network_file: str | None = None
    account_name: str | None = None
    as_json: bool = False
    debug: bool = False
    unsigned: bool = False  # these three: zoo_compute/cli/sending.py
    safe: str | None = None
    sent_from: str | None = None
    _cache: dict[str, Any] = field(default_factory=dict, repr=False)

    def network_path(self) -> Path:
        return paths.find_network_file(self.network_file)

    def network(self) -> Network:
        """The network file, read. Raises ConfigError."""
        from zoo_compute.chain import network

        if "network" not in self._cache:
            self._cache["network"] = network.load(self.network_path())
        return self._cache["network"]

    def chain(self) -> Chain:
        """A connection with checked chain id and contracts. Raises Unreachable, WrongChain, WrongDeployment."""
        from zoo_compute.chain.connection import connect

        if "chain" not in self._cache:
            self._cache["chain"] = connect(self.network(), self.api_key())
        return self._cache["chain"]

    def token(self, address: str | None = None) -> Token:
        """The payment token of a --token option, as the chain has it; ZEN by default. Raises UserError."""
        from zoo_compute.chain.tokens import token_at

        return token_at(self.chain(), address)

    def api_key(self) -> str | None:
        """Key for the hosted RPC or signer in the network file. From ZOO_API_KEY only: other users can read command lines."""
        return os.environ.get("ZOO_API_KEY") or None

    def hosted(self) -> bool:
        """Whether a hosted signer signs: the network file names one, ZOO_API_KEY is set, and no account is chosen."""
        chosen = self.account_name or os.environ.get("ZOO_ACCOUNT")
        return bool(self.api_key() and not chosen and self.network().signer)

    def keystore(self) -> Path:
        return paths.find_keystore(self.account_name, paths.known_network_file(self.network_file))

    def prints(self) -> bool:
        """Whether transactions are printed in place of being signed."""
        return self.unsigned or bool(self.safe)

    def keyless(self) -> bool:
        """Whether an option names the account by its address."""
        return bool(self.safe or self.sent_from)

    def address(self) -> str:
        """The account's address. Needs no passphrase."""
        from zoo_compute.chain import keystore

        return self.safe or self.sent_from or keystore.address_of(self.keystore())

    def unsigned_account(self) -> UnsignedAccount:
        """What keeps transactions in place of signing them, with --unsigned or --safe."""
        from zoo_compute.chain.unsigned import UnsignedAccount

        if "account" not in self._cache:
            self._cache["account"] = UnsignedAccount(self.address())
        return self._cache["account"]

    def account(self) -> Signer:
        """The unlocked account; with --unsigned, what keeps its transactions. Asks for its passphrase at most once."""
        from zoo_compute.chain import keystore

        context = click.get_current_context(silent=True)
        assert context is None or getattr(context.command, "signs", None) is not None, (
            "a command that signs is a Sending"
        )
        if self.prints():
            return self.unsigned_account()
        if "account" not in self._cache and self.hosted():
            from zoo_compute.chain.signer import RemoteSigner

            self._cache["account"] = RemoteSigner(self.network(), self.api_key())
        if "account" not in self._cache:
            path = self.keystore()
            self._cache["account"] = keystore.unlock(
                path, read_passphrase(f"the account {path.stem}", file=paths.passphrase_file(path))
            )
        return self._cache["account"]

    def sender(self) -> Sender:
        from zoo_compute.chain.sender import Sender

        return Sender(self.chain(), self.account())

    def client(self, *, store: str | None = None, with_account: bool = True) -> Client:
        """The SDK's client with these settings. Without an account it can only read."""
        from zoo_compute.client.client import Client

        account = self.account() if with_account else None
        return Client(network=self.network(), account=account, store=self.store_location(store), say=self.say)

    def store_location(self, location: str | None = None) -> str:
        return paths.store_location(location, paths.known_network_file(self.network_file))

    def store(self, location: str | None = None) -> Store:
        """The store at `location`, else ZOO_STORE, else the devnet's, else ~/.zoo/store. It asks the network's gateways for missing content."""
        from zoo_compute.errors import ConfigError
        from zoo_compute.store import open_store

        try:
            peers = tuple(self.network().storage)
        except ConfigError:
            if self.network_file:
                raise
            peers = ()
        return open_store(self.store_location(location), peers)

    def emit(self, data: dict[str, Any], lines: list[str] | str = ()) -> None:  # type: ignore[assignment]
        """Print the command's result. With --unsigned nothing has happened that it could report."""
        if not self.prints():
            emit(self.as_json, data, lines)

    def say(self, text: str) -> None:
        say(text)


def read_passphrase(what: str, *, confirm: bool = False, file: Path | None = None) -> str:
    """Read it from ZOO_PASSPHRASE_FILE, ZOO_PASSPHRASE or the terminal, which asks twice for a new one. Raises NoPassphrase."""
    from zoo_compute.chain import keystore

    def ask(_prompt: str) -> str:
        return str(click.prompt(f"Passphrase for {what}", hide_input=True, confirmation_prompt=confirm, err=True))

    return keystore.find_passphrase(what, os.environ, file=file, ask=ask if sys.stdin.isatty() else None)


def _remember(attribute: str) -> Any:
    def callback(ctx: click.Context, _: click.Parameter, value: Any) -> None:
        if value:
            setattr(ctx.ensure_object(Settings), attribute, value)

    return callback


def _common(*, hidden: bool) -> list[click.Option]:
    """The global options. Every command takes them too, so you can write them anywhere on the line."""

    def option(names: list[str], attribute: str, **kwargs: Any) -> click.Option:
        return click.Option(names, expose_value=False, callback=_remember(attribute), **kwargs)

    return [
        option(
            ["--network"],
            "network_file",
            metavar="FILE",
            hidden=hidden,
            help="Network file. [env ZOO_NETWORK; ./network.json]",
        ),
        option(
            ["--account"],
            "account_name",
            metavar="NAME|FILE",
            hidden=hidden,
            help="Keystore to sign with. [env ZOO_ACCOUNT]",
        ),
        option(["--json"], "as_json", is_flag=True, help="Print one JSON object on stdout."),
        option(["--debug"], "debug", is_flag=True, hidden=hidden, help="Show the traceback of an error."),
    ]


class Command(click.Command):
    """A command that also takes the global options."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        taken = {name for parameter in self.params for name in parameter.opts}
        self.params.extend(option for option in _common(hidden=True) if option.opts[0] not in taken)


class Group(click.Group):
    """A group whose commands take the global options."""

    command_class = Command
    group_class = type

    def __init__(self, *args: Any, hide_common: bool = True, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.params.extend(_common(hidden=hide_common))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click, and suggest the nearest name for a mistyped one."""
        import difflib

        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            near = difflib.get_close_matches(args[0], self.list_commands(ctx), 1) if args else []
            if near:
                raise click.UsageError(f"{error.message} Did you mean {near[0]!r}?", ctx) from error
            raise


pass_settings = click.make_pass_decorator(Settings, ensure=True)
