"""`zoo complete`, `zoo proxy` and `zoo serving check` against a real seat's server on a real chain."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest
import requests

from keepers.config import OperatorConfig
from tests.integration.cli_network import CliNetwork, Zoo, zoo_fixture  # noqa: F401
from tests.integration.test_cli_serving import (  # noqa: F401
    OPERATOR,
    Server,
    as_operator,
    config_fixture,
    service_fixture,
)
from tests.support.waiting import HANG_S
from zoo_compute.inference.client import home_of
from zoo_compute.inference.doubts import Doubts
from zoo_compute.inference.market import Place
from zoo_compute.spec.params import ZEN
from zoo_compute.store import open_store

pytestmark = pytest.mark.integration

TERMS = ("--max-price", "0.5", "--check", "0.5", "--deposit", "1")
COST = (2 + 4) * ZEN // 2 // 1_000


@dataclass
class Served:
    service: str
    seat: int


@pytest.fixture
def served(zoo: Zoo, place: CliNetwork, config: OperatorConfig, service: str) -> Iterator[Served]:
    """A seat whose server runs."""
    options = ("--lock", "5", "--price", "0.5", "--url", "http://127.0.0.1:1", "--operator", str(OPERATOR))
    number = int(zoo.json("serving", "take", service, *options, "--home", config.folder, *as_operator(place))["seat"])
    server = Server(config, number)
    try:
        zoo.json("serving", "offer", str(number), "--url", server.url, *as_operator(place))
        yield Served(service, number)
    finally:
        server.stop()


def test_a_served_model__is_asked_paid_by_one_channel_and_checked(zoo: Zoo, place: CliNetwork, served: Served) -> None:
    first = zoo.json("complete", served.service, "ab", "--max-tokens", "4", *TERMS)
    assert (first["seat"], first["operator"], first["cost"], first["paid"]) == (
        served.seat,
        OPERATOR,
        str(COST),
        str(COST),
    )
    code, out, err = zoo.run("complete", served.service, "ab", "--max-tokens", "4", "--stream", *TERMS)
    assert (code, out) == (0, first["texts"][0] + "\n"), err
    (channel,) = [each for each in zoo.json("channel", "list")["channels"] if each["operator"] == OPERATOR]
    assert (channel["deposit"], channel["paid"]) == (str(ZEN), "0")
    checked = zoo.json("serving", "check", "--all")
    assert checked["false"] == []
    assert zoo.json("serving", "check", "--all") == {"checked": 0, "false": []}
    assert "service of completions" in zoo.refused("embed", served.service, "ab", *TERMS)
    assert "no seat answered" in zoo.refused("complete", served.service, "ab", "--max-price", "0.1")
    assert "--stream prints one text" in zoo.refused("complete", served.service, "a", "b", "--stream", *TERMS)
    assert "cannot print its transactions" in zoo.refused(
        "complete", served.service, "a", *TERMS, "--unsigned", "--from", channel["client"]
    )


def test_a_false_receipt__is_named_and_the_command_fails(
    zoo: Zoo, place: CliNetwork, served: Served, tmp_path: Path
) -> None:
    chain = place.devnet.chain
    with closing(Doubts(Place.of(chain), chain.time, open_store(place.store), home_of(chain.network))) as doubts:
        while not (kept := doubts.unchecked()):  # half of the answers are computed again at once
            zoo.json("complete", served.service, "ab", *TERMS)
    assert "say which answers" in zoo.refused("serving", "check")
    file = tmp_path / "receipt.json"
    file.write_bytes(kept[0].to_bytes())
    assert zoo.json("serving", "check", file) == {"checked": 1, "false": []}
    raw = json.loads(file.read_bytes())
    raw["receipt"]["end"] = "ee" * 32
    file.write_text(json.dumps(raw))
    code, out, _ = zoo.run("serving", "check", file, "--json")
    (evidence,) = json.loads(out)["false"]
    assert (code, Path(evidence).parent) == (3, home_of(chain.network) / "receipts")


def test_the_proxy__is_asked_by_whoever_knows_no_vouchers(zoo: Zoo, served: Served) -> None:
    command = [sys.executable, "-m", "zoo_compute.cli.main", "proxy", served.service, "--port", "0", "--json", *TERMS]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, process.communicate(timeout=HANG_S)[1]
        url = json.loads(line)["url"]
        assert requests.get(f"{url}/models", timeout=HANG_S).json()["data"][0]["id"] == "tiny"
        body = {"model": "tiny", "prompt": "ab", "max_tokens": 4}
        answer = requests.post(f"{url}/completions", json=body, timeout=HANG_S).json()
        assert answer["zoo"]["cost"] == str(COST)
        assert (
            answer["choices"][0]["text"]
            == zoo.json("complete", served.service, "ab", "--max-tokens", "4", *TERMS)["texts"][0]
        )
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=HANG_S)
