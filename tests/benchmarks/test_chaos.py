"""The chaos benchmark counts what it fires: a fault that does nothing is an error, and each step of a process is one at which it dies."""

from __future__ import annotations

import json
import re
import signal
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import Any

import pytest
import requests
from eth_account import Account

from benchmarks.faults.chaos import EMPTY, FAULTS, STOPPED_FIRST, merged, table
from benchmarks.faults.crashing import step_name
from benchmarks.faults.firing import Firing, NotFired
from benchmarks.faults.geth_node import GethNode
from benchmarks.faults.record import Row
from benchmarks.faults.relays import LIES, Relay

ROOT = Path(__file__).resolve().parents[2]
GWEI = 10**9

LIFE = """
import os, sys
from zoo_compute.atomic import write_atomically
from pathlib import Path
home = Path(sys.argv[1])
for number in (1, 2):
    write_atomically(home / f"state-{number}.json", b"x", mode=0o600)
import sqlite3
with sqlite3.connect(home / "db") as db:
    db.execute("CREATE TABLE IF NOT EXISTS t (n)")
(home / "done").write_text("")
"""


# --- steps


def lives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lives_s: str) -> Iterator[int]:
    """Exit statuses of the same process, started until it lives."""
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{ROOT}")
    (tmp_path / "a_life.py").write_text(LIFE)
    (tmp_path / "control" / "alpha").mkdir(parents=True)
    (tmp_path / "control" / "alpha" / "on").touch()
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("ZOO_CHAOS_LIVES_S", lives_s)
    command = [sys.executable, "-m", "benchmarks.faults.crashing", str(tmp_path / "control" / "alpha"), "gateway"]
    while True:
        status = subprocess.run([*command, str(tmp_path / "home"), "a_life", str(tmp_path / "home")], check=False)
        yield status.returncode
        if status.returncode == 0:
            return


def test_a_process__dies_once_at_each_of_its_steps_and_lives_in_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    statuses = list(lives(tmp_path, monkeypatch, "inf"))
    fired = [line.split("\t")[0] for line in (tmp_path / "control" / "fired.gateway").read_text().splitlines()]
    seen = set((tmp_path / "control" / "seen.gateway").read_text().splitlines())
    assert statuses == [-signal.SIGKILL] * len(fired) + [0]
    assert set(fired) == seen
    assert len(fired) == len(seen)
    assert {
        "open /.state-N.json.TMP",
        "rename /state-N.json",
        "before commit of SQLite",
        "after commit of SQLite",
    } <= seen
    assert (tmp_path / "home" / "done").exists()
    with sqlite3.connect(tmp_path / "home" / "db") as db:
        assert db.execute("SELECT COUNT(*) FROM t").fetchone() == (0,)


def test_a_process__dies_at_most_once_more_at_a_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    statuses = list(lives(tmp_path, monkeypatch, "0"))
    fired = Counter(line.split("\t")[0] for line in (tmp_path / "control" / "fired.gateway").read_text().splitlines())
    assert len(statuses) - 1 == fired.total()
    assert set(fired) == set((tmp_path / "control" / "seen.gateway").read_text().splitlines())
    assert set(fired.values()) <= {1, 2}


@pytest.mark.parametrize(
    ("this", "other"),
    [
        ("rename /outbox-31337-0x5fbdb2315678afecb367f032d93f642f64180aa3.json", "rename /outbox-1-0x00000000000000000000.json"),
        ("open /.status.json.a1b2c3d4", "open /.status.json.zz_9zz9z"),
        ("rename /store/tags/job-7-round-1/bafkreigh2akiscaildcqabsyg3dfr6chu3fgpregiymsck7e7aqa4s52zy",
         "rename /store/tags/job-12-round-0/bafkreibm6jg3ux5qumhcn2b3flc3tyu6dmlb4xa7u5bf44yegnrjhc4yeq"),
    ],
)  # fmt: skip
def test_a_step__has_the_same_name_each_time(this: str, other: str) -> None:
    assert step_name(this) == step_name(other)
    assert step_name(this) != step_name("rename /status.json")


# --- what did nothing


def firing(tmp_path: Path) -> Firing:
    network: Any = SimpleNamespace(
        wait=lambda seconds: None, is_useful=lambda *_: True, looks={"alpha": [1.0, 1e10, 2e10]}
    )
    rows: dict[str, Row] = {}
    record: Any = SimpleNamespace(row=lambda fault: rows.setdefault(fault, Row(fault)))
    return Firing(network, record, lambda line: None)


def test_a_fault_that_did_nothing__is_an_error(tmp_path: Path) -> None:
    with pytest.raises(NotFired, match="Redis emptied did nothing"):
        firing(tmp_path).lasting(
            "Redis emptied", lambda: None, lambda: None, hold_s=0, suffers=[("alpha", "keeper")], fired=lambda: 0
        )


def test_a_fault__is_ended_also_where_it_goes_wrong(tmp_path: Path) -> None:
    done: list[str] = []
    fires = firing(tmp_path)
    fires.network.wait = lambda seconds: 1 / 0  # type: ignore[method-assign]
    with pytest.raises(ZeroDivisionError):
        fires.lasting("x", lambda: done.append("on"), lambda: done.append("off"), hold_s=1, suffers=[], fired=lambda: 1)
    assert done == ["on", "off"]


# --- geth's pool


class Chain:
    """Mines what it gets."""

    def __init__(self) -> None:
        self.mined: list[str] = []

    def __call__(self, question: dict[str, Any]) -> dict[str, Any]:
        if question["method"] == "eth_sendRawTransaction":
            self.mined.append(question["params"][0])
        return {"id": 1, "result": hex(len(self.mined))}


KEY = Account.create()


def signed(nonce: int, gwei: int = 2) -> str:
    fees = {"maxFeePerGas": gwei * GWEI, "maxPriorityFeePerGas": gwei * GWEI}
    transaction = {"type": 2, "chainId": 1, "nonce": nonce, "to": KEY.address, "value": 0, "gas": 21_000, **fees}
    return "0x" + bytes(KEY.sign_transaction(transaction).raw_transaction).hex()


def ask(node: GethNode, chain: Chain, method: str, *params: Any) -> Any:
    answer = node.answer({"id": 1, "method": method, "params": list(params)}, chain)
    assert answer is not None
    return answer.get("result", answer.get("error"))


def test_a_stuck_transaction__blocks_later_ones_until_it_is_replaced_for_a_tenth_more() -> None:
    node, chain = GethNode(stick=1), Chain()
    for nonce in (0, 1):
        ask(node, chain, "eth_sendRawTransaction", signed(nonce))
    assert chain.mined == []
    assert ask(node, chain, "eth_getTransactionCount", KEY.address, "pending") == "0x2"
    cheap = ask(node, chain, "eth_sendRawTransaction", signed(0))
    assert cheap["message"] == "already known"
    ask(node, chain, "eth_sendRawTransaction", signed(0, gwei=3))
    assert chain.mined == [signed(0, gwei=3), signed(1)]
    assert node.fired == {"stuck": 1, "replaced": 1}
    assert ask(node, chain, "eth_sendRawTransaction", signed(0, gwei=9))["message"] == "nonce too low"


def test_a_dropped_transaction__is_taken_and_forgotten() -> None:
    node, chain = GethNode(drop=1), Chain()
    digest = ask(node, chain, "eth_sendRawTransaction", signed(0))
    assert (chain.mined, node.is_empty, node.fired["dropped"]) == ([], True, 1)
    assert node.answer({"id": 1, "method": "eth_getTransactionByHash", "params": [digest]}, chain) is None
    ask(node, chain, "eth_sendRawTransaction", signed(0))
    assert chain.mined == [signed(0)]


# --- relays


@pytest.fixture
def chain_rpc() -> Iterator[str]:
    results: dict[str, Any] = {
        "eth_getBlockByNumber": {"timestamp": "0x10"},
        "eth_call": "0x" + "11" * 32 * 5,
        "eth_getLogs": [1, 2],
        "eth_blockNumber": "0x20",
    }

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            said = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            content = json.dumps({"id": said["id"], "result": results[said["method"]]}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


ASKED: dict[str, Callable[[], dict[str, Any]]] = {
    "time": lambda: {"method": "eth_getBlockByNumber", "params": ["latest", False]},
    "state": lambda: {"method": "eth_call", "params": [{}, "latest"]},
    "events": lambda: {"method": "eth_getLogs", "params": [{}]},
    "lags": lambda: {"method": "eth_blockNumber", "params": []},
}


@pytest.mark.parametrize("mode", [*LIES, "lags", "limits"])
def test_a_relay__spoils_and_counts_only_in_its_mode(mode: str, chain_rpc: str) -> None:
    relay = Relay(chain_rpc, GethNode())
    try:
        question = {"jsonrpc": "2.0", "id": 1, **ASKED.get(mode, ASKED["lags"])()}
        true = requests.post(relay.url, json=question, timeout=60)
        assert relay.fired == {}
        relay.mode = mode
        spoiled = requests.post(relay.url, json=question, timeout=60)
        assert relay.fired == {mode: 1}
        assert (spoiled.status_code, spoiled.content) != (true.status_code, true.content)
    finally:
        relay.stop()


# --- the table


def named_after(words: str, guide: str) -> set[str]:
    """The faults that a paragraph names after these words."""
    return set(re.findall(r"`([a-z-]+)`", guide.partition(words)[2].partition(".")[0]))


def a_report(*only: str, troubles: dict[str, str] | None = None) -> dict[str, Any]:
    troubles = troubles or {}
    faults = [{"only": name, "of": " ".join(only)} for name in only if name not in troubles]
    return {"runs": [{"only": list(only)}], "troubles": troubles, "faults": faults}


def test_a_later_run__replaces_what_it_tried_and_keeps_the_rest() -> None:
    first = merged(EMPTY, a_report("steps", "clock", "reorgs"))
    troubles = {"clock": "NotFired: the clock did nothing", "steps": STOPPED_FIRST}
    later = merged(first, a_report("disk-full", "clock", "steps", troubles=troubles))
    assert [(row["only"], row["of"]) for row in later["faults"]] == [
        ("steps", "steps clock reorgs"),
        ("disk-full", "disk-full clock steps"),
        ("reorgs", "steps clock reorgs"),
    ]
    assert later["troubles"] == troubles
    assert len(later["runs"]) == 2, "the first one has rows that stand"
    assert merged(later, a_report(*FAULTS)) == a_report(*FAULTS)


def test_the_guides_table__is_the_result_and_the_page_says_what_lost_something_and_what_is_not_measured() -> None:
    result = json.loads((ROOT / "benchmarks" / "results" / "chaos.json").read_text())
    guide = (ROOT / "docs" / "guides" / "chaos.md").read_text()
    assert table(result) in guide
    assert all(row["fired"] > 0 for row in result["faults"])
    losses = ("deadlines_missed", "payments_lost_or_doubled", "honest_slashes")
    lost = {row["only"] for row in result["faults"] if any(row[name] for name in losses)}
    missing = set(FAULTS) - {row["only"] for row in result["faults"]} | set(result["troubles"])
    assert named_after("Lost something:", guide) == lost
    assert named_after("Not measured yet:", guide) == missing
