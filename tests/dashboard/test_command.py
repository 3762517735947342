"""`zoo dashboard`: what it needs, and what it says where it cannot run."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from types import SimpleNamespace

import pytest

from zoo_compute.cli import dashboard, main
from zoo_compute.dashboard import process
from zoo_compute.errors import UserError


def test_without_the_extra__it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(dashboard, "find_spec", lambda name: None if name == "starlette" else object())
    assert main.run(["dashboard", "--json"]) == 1
    said = json.loads(capsys.readouterr().out)
    assert "starlette" in said["error"]
    assert said["hint"] == "pip install 'zoo-compute[dashboard]'"


def test_a_home_that_is_no_operators__is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert main.run(["dashboard", "--json", "--home", str(tmp_path)]) == 1
    assert "is not an operator's folder" in json.loads(capsys.readouterr().out)["error"]


def test_a_port_that_is_taken__is_refused_before_anything_is_read(monkeypatch: pytest.MonkeyPatch):
    def taken(port: int) -> socket.socket:
        raise OSError(98, "Address already in use")

    monkeypatch.setattr(process, "listening", taken)
    with pytest.raises(UserError, match="port 8620") as refused:
        process.serve(SimpleNamespace(), 8620, None, None, lambda data, lines: None)  # type: ignore[arg-type]
    assert "--port 0" in refused.value.hint
