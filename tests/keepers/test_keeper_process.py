"""What an RPC's error must not end, and what an error must not keep."""

from __future__ import annotations

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from web3.exceptions import Web3RPCError

from keepers.monitoring.lanes import Lanes
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

    def head() -> Any:
        at = next(blocks, None)
        if at is None:
            raise Ended
        if isinstance(at, Exception):
            raise at
        return SimpleNamespace(number=at)

    monkeypatch.setattr(keeper_process.time, "sleep", lambda _: None)
    keeper: Any = SimpleNamespace(
        chain=SimpleNamespace(head=head),
        events=SimpleNamespace(last_block_of=lambda names, head: head.number),
        work=SimpleNamespace(wake=woken.set),
    )
    with pytest.raises(Ended):
        keeper_process.wake_on_claims(keeper, 0.1)
    assert woken.is_set()


def test_looks__follow_the_blocks_and_are_rare_without_any(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, blocks = SimpleNamespace(now=100.0, block=b"1"), keeper_process.Looks()
    monkeypatch.setattr(keeper_process.time, "monotonic", lambda: clock.now)

    def head() -> Any:
        if clock.block is None:
            raise Unreachable("gone")
        return SimpleNamespace(hash=clock.block)

    chain: Any = SimpleNamespace(head=head)
    assert [blocks.is_due(chain) for _ in range(3)] == [True, False, False]
    clock.block = b"2"
    assert [blocks.is_due(chain) for _ in range(3)] == [True, False, False]
    clock.now += keeper_process.QUIET_LOOK_S
    assert [blocks.is_due(chain) for _ in range(3)] == [True, False, False]
    clock.block = None
    assert [blocks.is_due(chain) for _ in range(3)] == [True] * 3, "so that the status says that the chain is gone"


def test_an_error_after_the_lease_was_taken__lets_go_of_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Otherwise the next start of this keeper waits for its own lease to run out."""
    released: list[bool] = []
    lease: Any = SimpleNamespace(release=lambda: released.append(True))
    config: Any = SimpleNamespace(network_path="", operator=0, folder=tmp_path)
    chain: Any = SimpleNamespace(w3=SimpleNamespace(provider=None), follow=lambda: None)
    account: Any = SimpleNamespace(address="0x0")

    def full(*_: Any, **__: Any) -> Any:
        raise OSError("disk full")

    for name, value in {
        "load_network": lambda _: None,
        "connect": lambda _: chain,
        "check_wiring": lambda _: None,
        "use_store": lambda *_: None,
        "open_hot_key": lambda *_: account,
        "await_turn": lambda *_: lease,
        "FencedAccount": lambda *_: None,
        "fee_limits": lambda _: None,
        "Sender": full,
    }.items():
        monkeypatch.setattr(keeper_process, name, value)
    with pytest.raises(OSError, match="disk full"):
        keeper_process.make_keeper(config, app=cast(Any, None), client=cast(Any, None), lanes=Lanes())
    assert released == [True]
