"""Faults of the RPC that the operators use at that time: two others of three are honest."""

from __future__ import annotations

from collections.abc import Callable

import requests

from benchmarks.faults.firing import Firing
from benchmarks.faults.forked_chain import forked
from benchmarks.faults.machine import NAMES
from benchmarks.faults.relays import Relay

LOOK_S = 3.0
ALL = [(name, "keeper") for name in NAMES]


def used(firing: Firing) -> Relay:
    """The RPC that is asked most just now: those that failed a while ago still rest."""
    relays = firing.network.relays
    before = [relay.asked for relay in relays]
    firing.wait(LOOK_S)
    counts = [relay.asked - earlier for relay, earlier in zip(relays, before, strict=True)]
    return relays[counts.index(max(counts))]


def spoiled(fault: str, *modes: str, hold_s: float = 12.0) -> Callable[[Firing, int], None]:
    """The RPC in use answers in these ways, in turn."""

    def fire(firing: Firing, times: int) -> None:
        for turn in range(times):
            relay = used(firing)
            mode = modes[turn % len(modes)]
            firing.lasting(
                fault,
                lambda: setattr(relay, "mode", mode),  # noqa: B023
                lambda: setattr(relay, "mode", "honest"),  # noqa: B023
                hold_s=hold_s,
                suffers=ALL,
                fired=lambda: relay.fired[mode],  # noqa: B023
            )

    return fire


def forks(firing: Firing, times: int) -> None:
    for _ in range(times):
        relay = used(firing)
        with forked(firing.network.devnet.url, firing.network.folder / "fork.log") as url:
            requests.post(url, json={"jsonrpc": "2.0", "id": 1, "method": "evm_mine", "params": []}, timeout=30)
            relay.fork = url
            firing.lasting(
                "RPC shows a fork",
                lambda: setattr(relay, "mode", "forks"),  # noqa: B023
                lambda: setattr(relay, "mode", "honest"),  # noqa: B023
                hold_s=15,
                suffers=ALL,
                fired=lambda: relay.fired["forks"],  # noqa: B023
            )


FAULTS: dict[str, tuple[Callable[[Firing, int], None], int]] = {
    "rpc-lies": (spoiled("RPC lies (time, state, events)", "time", "state", "events"), 3),
    "rpc-hangs": (spoiled("RPC hangs", "hangs", hold_s=25), 3),
    "rpc-drips": (spoiled("RPC drips", "drips", hold_s=25), 3),
    "rpc-lags": (spoiled("RPC lags by 20 blocks", "lags", hold_s=20), 3),
    "rpc-limits": (spoiled("RPC limits the rate", "limits"), 3),
    "rpc-swallows": (spoiled("RPC swallows transactions", "swallows", hold_s=25), 3),
    "rpc-forks": (forks, 3),
}
