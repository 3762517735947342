"""A second chain that parts from the devnet's at its newest block, and goes on by itself."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import requests

from zoo_compute.devnet import anvil
from zoo_compute.devnet_files import CHAIN_ID
from zoo_compute.subprocesses import free_port, tied_to_parent

READY_S = 30.0


@contextmanager
def forked(rpc: str, log: Path) -> Iterator[str]:
    """Its URL."""
    port = free_port()
    url = f"http://{anvil.HOST}:{port}"
    options = [
        "--host",
        anvil.HOST,
        "--port",
        str(port),
        "--chain-id",
        str(CHAIN_ID),
        "--block-time",
        "1",
        "--mixed-mining",
    ]
    with log.open("ab") as output:
        process = subprocess.Popen(
            [str(anvil.find()), *options, "--fork-url", rpc], stdout=output, stderr=output, preexec_fn=tied_to_parent()
        )
    try:
        question = {"jsonrpc": "2.0", "id": 1, "method": "eth_blockNumber", "params": []}
        until = time.monotonic() + READY_S
        while True:
            try:
                requests.post(url, json=question, timeout=5).json()["result"]
                break
            except (requests.RequestException, KeyError):
                assert time.monotonic() < until, f"the fork did not start; see {log}"
                time.sleep(0.1)
        yield url
    finally:
        process.kill()
        process.wait()
