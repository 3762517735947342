"""`zoo` run in this process, in a home of its own, without a network."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from zoo_compute.chain import keystore
from zoo_compute.cli import main as cli

CONFIG = """
model: {layers: 2, heads: 2, width: 64, context: 64}
training: {learning_rate: 0.001, batch_size: 8, inner_steps: 10, rounds: 4, slots: 6}
market: {reserve: 1, max_price: 2, aggregator_max_price: 1}
"""


class Zoo:
    """Runs `zoo` in this process; `run` answers exit code, stdout, stderr."""

    def __init__(self, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.home = home
        self._capsys = capsys

    def run(self, *arguments: str) -> tuple[int, str, str]:
        self._capsys.readouterr()
        code = cli.run(arguments)
        out, err = self._capsys.readouterr()
        assert "Traceback" not in err
        return code, out, err

    def refused(self, *arguments: str) -> str:
        """What it says on stderr where it exits 1."""
        code, _, err = self.run(*arguments)
        assert code == 1, err
        return err

    def json(self, *arguments: str) -> dict[str, Any]:
        code, out, err = self.run(*arguments, "--json")
        assert code == 0, err
        return json.loads(out)


@pytest.fixture(name="zoo")
def zoo_fixture(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Zoo:
    for name in ("ZOO_NETWORK", "ZOO_ACCOUNT", "ZOO_STORE", "ZOO_PASSPHRASE_FILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ZOO_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("ZOO_PASSPHRASE", "correct horse")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(keystore, "STANDARD_WORK", keystore.DEVNET_WORK)
    monkeypatch.setattr(keystore.create, "__kwdefaults__", {"private_key": None, "work": keystore.DEVNET_WORK})
    return Zoo(tmp_path / "home", capsys)
