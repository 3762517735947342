"""A devnet with a funded account and a served store, and `zoo` run against it in this process."""

from __future__ import annotations

import dataclasses
import json
import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support.devnet_driver import DevnetOperator
from zoo_compute.cli import main as cli
from zoo_compute.devnet.devnet import Devnet
from zoo_compute.spec.params import ZEN
from zoo_compute.store import BlockStore, Gateway

CONFIG: dict[str, Any] = {
    "model": {"layers": 1, "heads": 2, "width": 16, "context": 16},
    "training": {"learning_rate": 0.01, "batch_size": 4, "inner_steps": 4, "rounds": 2, "slots": 3},
    "market": {"reserve": 1, "max_price": 2, "aggregator_max_price": 1},
    "limits": {"slot_s": 40, "aggregate_s": 30, "reexecute_s": 2},
    "data": {"heldout": 4},
}
ESCROW = (2 * 3 + 1) * 2 * ZEN


@dataclasses.dataclass
class CliNetwork:
    """The devnet, its store's gateway, a home, and texts."""

    devnet: Devnet
    gateway: Gateway
    folder: Path

    @property
    def store(self) -> str:
        return str(self.folder / "chain" / "store")

    def account(self, name: str, zen: int = 5_000 * ZEN, coin: int = 100 * 10**18) -> Path:
        """A funded key file."""
        self.devnet.account(name, zen=zen, coin=coin)
        return self.devnet.key_file(name)

    def config(self, model: dict[str, Any] | None = None, **training: Any) -> Path:
        """A job file of its own: a new seed makes a new job. model: in place of the built-in one, which alone has a rate here."""
        rule = CONFIG["training"] | {"seed": random.getrandbits(40)} | training
        if model is not None:
            del rule["learning_rate"]
        sections = CONFIG | {"model": model or CONFIG["model"], "training": rule}
        path = self.folder / f"job-{sections['training']['seed']}.json"
        path.write_text(json.dumps(sections))
        return path

    @property
    def text(self) -> Path:
        path = self.folder / "text.txt"
        if not path.exists():
            path.write_text("the quick brown fox jumps over the lazy dog. " * 400)
        return path


@contextmanager
def cli_network(folder: Path, preset: str = "devnet") -> Iterator[CliNetwork]:
    with Devnet(folder / "chain", preset=preset) as devnet:
        gateway = Gateway(BlockStore(folder / "chain" / "store"))
        gateway.start()
        try:
            dataclasses.replace(devnet.network, storage=(gateway.url,)).save(devnet.network_file)
            DevnetOperator(devnet, "somebody", price=1)  # a network without operators takes no job
            yield CliNetwork(devnet, gateway, folder)
        finally:
            gateway.stop()


class Zoo:
    """Runs `zoo`; answers exit code, stdout, stderr."""

    def __init__(self, place: CliNetwork, capsys: pytest.CaptureFixture[str]) -> None:
        self.place = place
        self._capsys = capsys

    def run(self, *arguments: str | Path) -> tuple[int, str, str]:
        self._capsys.readouterr()
        code = cli.run([str(argument) for argument in arguments])
        out, err = self._capsys.readouterr()
        assert "Traceback" not in err, err
        return code, out, err

    def json(self, *arguments: str | Path) -> dict[str, Any]:
        code, out, err = self.run(*arguments, "--json")
        assert code == 0, err
        return json.loads(out)

    def refused(self, *arguments: str | Path) -> str:
        """What a refused command tells: exit code 1, the message and the hint."""
        code, out, err = self.run(*arguments, "--json")
        assert code == 1, (out, err)
        answer = json.loads(out)
        assert answer["error"] in err
        return f"{answer['error']} | {answer['hint']}"


@pytest.fixture(name="zoo")
def zoo_fixture(
    place: CliNetwork, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Zoo:
    monkeypatch.setenv("ZOO_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("ZOO_NETWORK", str(place.devnet.network_file))
    monkeypatch.setenv("ZOO_ACCOUNT", str(place.account("me")))
    monkeypatch.setenv("ZOO_PASSPHRASE_FILE", str(place.devnet.passphrase_file))
    monkeypatch.setenv("ZOO_STORE", place.store)
    monkeypatch.chdir(tmp_path)
    return Zoo(place, capsys)


def jobs(place: CliNetwork) -> int:
    return place.devnet.chain.tasks.job_count()
