"""Every command that sends transactions can print them instead; and no other command gets a signer."""

from __future__ import annotations

import ast
import inspect
import sys
import textwrap
from collections.abc import Iterator
from types import FunctionType
from typing import Any

import click
import pytest

from tests.support.zoo_command import Zoo, zoo_fixture  # noqa: F401
from zoo_compute.cli import main as cli
from zoo_compute.cli import plugins
from zoo_compute.cli.context import Command, Settings, pass_settings
from zoo_compute.cli.sending import Sending
from zoo_compute.errors import UserError

OPTIONS = {"--unsigned", "--safe"}
OURS = ("zoo_compute.cli", "keepers.cli", "node.cli")
# Commands with a key that is not --account's: a devnet's own, or the hot key of an operator's folder.
OTHER_KEYS = {"account fund", "devnet", "node admit", "node start", "keeper", "start"}
# What gives a command the account, unless the call says otherwise.
SIGNERS = {"account": None, "sender": None, "client": "with_account", "operators_of": "signing"}


def leaves(group: click.Group, above: str = "") -> Iterator[tuple[str, click.Command]]:
    for name, command in group.commands.items():
        if isinstance(command, plugins._Deferred):
            command = command.load()
        path = f"{above} {name}".strip()
        if isinstance(command, click.Group):
            yield from leaves(command, path)
        else:
            yield path, command


def asks_for_the_account(function: Any, seen: set[Any]) -> bool:
    """Whether a function of a command, or one of ours that it calls, asks for the account that signs."""
    function = inspect.unwrap(function)
    if function in seen or not getattr(function, "__module__", "").startswith(OURS):
        return False
    seen.add(function)
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    known = vars(sys.modules[function.__module__])
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and gives_the_account(node):
            return True
        called = known.get(node.id) if isinstance(node, ast.Name) and node.id not in SIGNERS else None
        if isinstance(called, FunctionType | type) and called is not Settings and asks_for_the_account(called, seen):
            return True
    return False


def gives_the_account(call: ast.Call) -> bool:
    if isinstance(call.func, ast.Attribute):
        owner = call.func.value
        name = (
            call.func.attr
            if isinstance(owner, ast.Attribute | ast.Name) and ast.unparse(owner).endswith("settings")
            else ""
        )
    else:
        name = call.func.id if isinstance(call.func, ast.Name) and call.func.id == "operators_of" else ""
    if name not in SIGNERS:
        return False
    switch = SIGNERS[name]
    return not any(each.arg == switch and ast.unparse(each.value) == "False" for each in call.keywords)


ALL = dict(leaves(cli.build()))


@pytest.mark.parametrize("path", ALL)
def test_a_command__signs_if_and_only_if_it_can_print_what_it_would_sign(path: str) -> None:
    command = ALL[path]
    if path in OTHER_KEYS:
        return
    signs = asks_for_the_account(command.callback, set())
    options = {name for parameter in command.params for name in parameter.opts}
    assert signs == isinstance(command, Sending), f"zoo {path}: a command that signs is a `Sending`, and no other is"
    assert signs == (options >= OPTIONS)
    assert signs == ({"--from", "--sender"} & options != set())


def test_the_walk__sees_those_that_are_known_to_send() -> None:
    known = "train|job cancel|job audit|node deposit|node register|node audit offer|treasury spend|network beat|verify|defend"
    for path in known.split("|"):
        assert asks_for_the_account(ALL[path].callback, set()), path
    for path in ("job show", "node show", "network check", "dataset list", "quote"):
        assert not asks_for_the_account(ALL[path].callback, set()), path


def test_every_exception__is_a_command() -> None:
    assert set(ALL) >= OTHER_KEYS - {"keeper"}
    assert any(path.startswith("keeper") for path in ALL)


def test_a_command_that_is_no_sending_one__gets_no_signer() -> None:
    """A new command that sends fails on its first run, wherever its author looked."""

    @click.command(cls=Command)
    @pass_settings
    def forgetful(settings: Settings) -> None:
        settings.account()

    with pytest.raises(AssertionError, match="is a Sending"):
        forgetful.main([], standalone_mode=False, obj=Settings())


ADDRESS = "0x" + "11" * 20


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("account", "withdraw", "--from", ADDRESS), "add --unsigned to print the transactions"),
        (("account", "withdraw", "--unsigned", "--from", "0x12"), "is no address, as --from takes"),
        (("account", "withdraw", "--safe", ADDRESS, "--from", "0x" + "22" * 20), "leave --from out"),
        (("node", "admit", "--unsigned"), "cannot print its transactions: the chain measures the time"),
        (("verify", "1", "--challenge", "--safe", ADDRESS), "cannot print its transactions: each answers"),
        (("node", "consent", "--memory", "8GB", "--unsigned"), "it signs a consent and sends nothing"),
    ],
)
def test_options_that_do_not_fit__are_refused_in_words(zoo: Zoo, arguments: tuple[str, ...], said: str) -> None:
    assert said in zoo.refused(*arguments)


def test_the_bucket_of_a_spending__stays_its_own_from(zoo: Zoo) -> None:
    [unsigned] = [each for each in ALL["treasury spend"].params if "--sender" in each.opts]
    assert unsigned.opts == ["--sender"]
    assert [each.name for each in ALL["treasury spend"].params if "--from" in each.opts] == ["bucket"]


def test_an_account_without_a_key__signs_nothing() -> None:
    from zoo_compute.chain.unsigned import UnsignedAccount

    with pytest.raises(UserError, match="is not here"):
        UnsignedAccount(ADDRESS).sign_transaction({})
    assert not hasattr(UnsignedAccount(ADDRESS), "sign_typed_data"), "permits would be asked for"


def test_settings__give_the_address_without_a_key() -> None:
    assert Settings(sent_from=ADDRESS).address() == ADDRESS
    assert Settings(safe=ADDRESS, sent_from=ADDRESS).unsigned_account().address == ADDRESS
