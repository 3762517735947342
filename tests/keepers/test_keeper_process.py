"""What an RPC's error must not end: the thread that wakes the keeper when somebody commits."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest
from web3.exceptions import Web3RPCError

from keepers.processes import keeper_process
from zoo_compute.errors import Unreachable


class Ended(BaseException):
    """The test has seen enough."""


@pytest.mark.parametrize(
    "error", [Web3RPCError('{"code": -32005, "message": "rate limited"}'), Unreachable("gone"), KeyError("result")]
)
def test_the_glance__outlives_every_error_of_an_rpc(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    """p_glance: one rate-limit answer ended it for good."""
    blocks: Any = iter([7, error, error, 8])
    woken = threading.Event()

    class Eth:
        @property
        def block_number(self) -> int:
            at = next(blocks, None)
            if at is None:
                raise Ended
            if isinstance(at, Exception):
                raise at
            return at

    monkeypatch.setattr(keeper_process.time, "sleep", lambda _: None)
    monkeypatch.setattr(keeper_process, "scan", lambda *_, **__: iter([object()]))
    keeper: Any = SimpleNamespace(
        chain=SimpleNamespace(w3=SimpleNamespace(eth=Eth())), work=SimpleNamespace(wake=woken.set)
    )
    with pytest.raises(Ended):
        keeper_process.wake_on_claims(keeper, 0.1)
    assert woken.is_set()
