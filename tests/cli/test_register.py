"""`zoo node register` before any chain is asked: what must be there first, what is detected, what a terminal asks."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.zoo_command import Zoo, zoo_fixture  # noqa: F401
from zoo_compute.chain.network import CONTRACTS, load
from zoo_compute.cli import main as cli
from zoo_compute.cli.context import Settings
from zoo_compute.cli.node.register_questions import Choices, Machine, detected_machine
from zoo_compute.gpus import APPLE, CONSUMER, DATACENTER
from zoo_compute.operators import machine
from zoo_compute.operators.machine import Card

RTX = Card("NVIDIA GeForce RTX 4090", 24, "nvidia", "cuda:0")
A100 = Card("NVIDIA A100-SXM4-80GB", 80, "nvidia", "cuda:1")
RADEON = Card("AMD Radeon RX 7900 XTX", 24, "amd", "cuda:0")
M2 = Card("Apple M2 Pro", 32, "apple", "mps")
TINY = Card("NVIDIA GeForce GTX 1650", 4, "nvidia", "cuda:0")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def network_file(folder: Path, preset: str) -> Path:
    """Of a chain that does not answer: nothing here may ask it."""
    contracts = {name: f"0x{number:040x}" for number, name in enumerate(CONTRACTS, 1)}
    path = folder / f"{preset}.json"
    path.write_text(json.dumps({
        "version": 1, "name": preset, "preset": preset, "chain_id": 7, "rpcs": ["http://127.0.0.1:9"], "contracts": contracts,
        "code_hashes": {name: "0x" + "00" * 32 for name in CONTRACTS},
    }))  # fmt: skip
    return path


@pytest.fixture
def has(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Gives this machine some cards."""
    return lambda *cards: monkeypatch.setattr(machine, "_SOURCES", (lambda: list(cards),))


@pytest.fixture
def on(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Any:
    """`detected` with these answers in a terminal (None: there is none); the machine and what was said."""

    def run(preset: str, answers: str | None = None, *, yes: bool = False, **options: str) -> tuple[Machine, str]:
        settings = Settings(network_file=str(network_file(tmp_path, preset)))
        monkeypatch.setattr("sys.stdin", io.StringIO() if answers is None else Terminal(answers))
        machine = detected_machine(settings, Choices(options, settings, yes=yes))
        return machine, capsys.readouterr().err

    return run


# -- first things first


def test_register__without_network_and_account__names_both_commands_and_no_traceback(zoo: Zoo) -> None:
    for command in (("node", "register"), ("register",)):
        err = zoo.refused(*command)
        assert "no network file" in err
        assert "no account in" in err
        assert "zoo devnet" in err
        assert "zoo account create" in err


def test_register__without_an_account_and_a_terminal__says_how_to_make_one(zoo: Zoo, tmp_path: Path) -> None:
    assert "first `zoo account create`; then run this again" in zoo.refused(
        "node", "register", "--network", str(network_file(tmp_path, "devnet"))
    )
    assert not (zoo.home / "keystores").exists()


@pytest.mark.parametrize(("answer", "made"), [("\n", True), ("n\n", False)])
def test_register__without_an_account_in_a_terminal__offers_to_make_one(
    zoo: Zoo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: str, made: bool
) -> None:
    monkeypatch.setattr("sys.stdin", Terminal(answer))
    monkeypatch.setattr(machine, "_SOURCES", ())
    err = zoo.refused("node", "register", "--network", str(network_file(tmp_path, "devnet")))
    assert (zoo.home / "keystores" / "default.json").exists() is made
    assert ("no RPC of the network answers" if made else "zoo account create") in err


def test_register__with_several_accounts__asks_to_choose(zoo: Zoo, tmp_path: Path) -> None:
    zoo.json("account", "create", "one")
    zoo.json("account", "create", "two")
    _, _, err = zoo.run("node", "register", "--network", str(network_file(tmp_path, "devnet")))
    assert "pass --account with one of: one, two" in err


# -- the card


def test_a_card__is_taken_from_the_driver(has: Any, on: Any) -> None:
    has(RTX)
    machine, said = on("devnet")
    assert machine == Machine(CONSUMER, 24)
    assert "card: NVIDIA GeForce RTX 4090, 24 GB" in said
    assert "CPU" not in said


@pytest.mark.parametrize(("card", "maker", "as_class"), [(RADEON, "AMD", CONSUMER), (M2, "Apple", APPLE)])
def test_a_card_without_kernels__is_said_to_compute_on_the_cpu(
    has: Any, on: Any, card: Card, maker: str, as_class: Any
) -> None:
    has(card)
    machine, said = on("production", yes=True)
    assert machine == Machine(as_class, card.memory_gb)
    assert f"no kernels for {maker} GPUs: programs run on this machine's CPU, much slower" in said


def test_several_cards__the_first_without_a_terminal_and_the_chosen_one_in_it(has: Any, on: Any) -> None:
    has(RTX, A100)
    machine, said = on("devnet")
    assert machine == Machine(CONSUMER, 24, "cuda:0")
    assert "this node uses cuda:0" in said
    machine, said = on("production", "1\n\n\n")
    assert machine == Machine(DATACENTER, 80, "cuda:1")
    assert "0: NVIDIA GeForce RTX 4090, 24 GB" in said


def test_in_a_terminal__card_and_memory_are_confirmed_or_corrected(has: Any, on: Any) -> None:
    has(RTX)
    assert on("production", "\n\n")[0] == Machine(CONSUMER, 24)
    assert on("production", "consummer\nprofessional\n16\n")[0].gpu.name == "professional"


def test_without_a_terminal__production_stakes_nothing_for_a_card_that_nobody_confirmed(has: Any, on: Any) -> None:
    has(RTX)
    with pytest.raises(
        cli.ZooError, match=r"no terminal to confirm that you stake 1,000 ZEN for NVIDIA GeForce RTX 4090"
    ) as error:
        on("production")
    assert "--yes" in error.value.hint
    assert "--gpu-type NAME --memory SIZE" in error.value.hint
    assert on("production", yes=True)[0] == Machine(CONSUMER, 24)


def test_without_a_gpu__the_cpu_serves_a_devnet_and_no_other_network(has: Any, on: Any) -> None:
    has()
    machine, said = on("devnet")
    assert machine.gpu == CONSUMER
    assert "using the CPU, which a devnet allows" in said
    with pytest.raises(cli.ZooError, match="has no GPU that a driver lists; on this network") as error:
        on("production", yes=True)
    assert "zoo verify JOB" in error.value.hint
    assert "zoo devnet" in error.value.hint


def test_a_card_too_small_for_every_class__is_named(has: Any, on: Any) -> None:
    has(TINY)
    with pytest.raises(cli.ZooError, match="no class accepts NVIDIA GeForce GTX 1650, 4 GB"):
        on("production", yes=True)
    assert on("devnet")[0].gpu == CONSUMER


def test_a_named_card_without_its_memory__takes_that_of_the_card_here(zoo: Zoo, has: Any) -> None:
    has(RTX)
    _, _, err = zoo.run("node", "register", "--gpu-type", "a100")
    assert "at least 40 GB of memory, not 24 GB" in err
    has()
    _, _, err = zoo.run("node", "register", "--gpu-type", "rtx4090")
    assert "give --memory, such as 24GB" in err


def test_the_network_file_of_these_tests__is_one(tmp_path: Path) -> None:
    assert load(network_file(tmp_path, "production")).preset == "production"
