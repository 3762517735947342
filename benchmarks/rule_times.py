"""Each rule alone on a round's rows, and the time it takes beside byzfl's on the same cores: benchmarks/byzantine.py."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from benchmarks import byzfl_peer
from benchmarks.attacks import Rule
from repops.backend import Runner, prepare
from repops.builder import Builder
from repops.commitments import Array
from repops.graph import BATCH_ROLE, F32, PARAMETER, STATE_ROLE, Graph
from zoo_compute.manifest import Aggregation
from zoo_compute.rules import join, judge, products

TIMED = 3  # the best of so many, after one that is not counted


def named(name: str, hostile: int) -> Aggregation:
    """`rule` or `rule+mixing`."""
    rule, _, mixing = name.partition("+")
    return Aggregation(rule, 0 if rule == "mean" else hostile, mixing or "none")


def program(rule: Aggregation, slots: int, values: int) -> Graph:
    """What `rounds.aggregation_program` writes for a tensor between its rows and the outer optimiser."""
    b = Builder()
    rows = b.input(F32, (slots, values), BATCH_ROLE, 0)
    made = b.input(F32, (values,), STATE_ROLE, 1)
    if rule.is_mean:
        joined = b.map("div", b.reduce("sum_sequential", rows, [0]), float(slots))
    else:
        verdict, _ = judge(b, products(b, [rows], b.scalar(0.0, F32)), rule)
        joined = join(b, rows, verdict, rule)
    return b.finish([("joined", PARAMETER, made, joined)], [("rows", rows)], b.scalar(0.0, F32))


def rule_of(rule: Aggregation, slots: int, values: int) -> Rule:
    """On rows at hand."""
    runner: Runner = prepare(program(rule, slots, values))

    def joined(rows: Array) -> Array:
        runner.step({"rows": rows}, threads=torch.get_num_threads())
        return runner.state["joined"].copy()

    return joined


def best(call: Callable[[], Any]) -> float:
    call()
    found = []
    for _ in range(TIMED):
        began = time.perf_counter()
        call()
        found.append(time.perf_counter() - began)
    return min(found)


def times(names: list[str], slots: int, values: int, hostile: int, byzfl: Any | None) -> dict[str, dict[str, float]]:
    """Seconds of ours and of byzfl's, all rows stacked before in the memory of each."""
    rows = np.random.default_rng(0).standard_normal((slots, values)).astype(np.float32)
    tensor = torch.from_numpy(rows)
    peers = byzfl_peer.rules(byzfl, hostile) if byzfl else {}
    found = {}
    for name in names:
        runner = prepare(program(named(name, hostile), slots, values))
        runner.batch["rows"][...] = rows
        ours = best(lambda: runner.step(runner.batch, threads=torch.get_num_threads()))  # noqa: B023
        found[name] = {"s": ours}
        if name in peers:
            theirs = best(lambda: peers[name](tensor))  # noqa: B023
            found[name] |= {"byzfl_s": theirs, "times_faster": theirs / ours}
    return found
