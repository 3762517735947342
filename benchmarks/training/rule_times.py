"""The time of each aggregation rule on one round's rows, next to byzfl's on the same cores. For benchmarks/training/byzantine.py."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from benchmarks.peers import byzfl_rules
from benchmarks.training.attacks import Rule
from repops.backend import Runner, prepare
from repops.builder import Builder
from repops.commitments import Array
from repops.graph import BATCH_ROLE, F32, PARAMETER, STATE_ROLE, Graph
from zoo_compute.formats.aggregation import Aggregation
from zoo_compute.training.robust_rules import aggregate_rows, row_products, weigh_rows

TIMED, LEAST_S = 3, 0.5  # the best of so many or as many as fit, after one that is not counted


def named(name: str, hostile: int) -> Aggregation:
    """`rule` or `rule+mixing`."""
    rule, _, mixing = name.partition("+")
    return Aggregation(rule, 0 if rule == "mean" else hostile, mixing or "none")


def program(rule: Aggregation, slots: int, values: int) -> Graph:
    """The part of `rounds.aggregation_program` between a tensor's rows and the outer optimiser."""
    b = Builder()
    rows = b.input(F32, (slots, values), BATCH_ROLE, 0)
    made = b.input(F32, (values,), STATE_ROLE, 1)
    if rule.is_mean:
        joined = b.map("div", b.reduce("sum_sequential", rows, [0]), float(slots))
    else:
        verdict, _ = weigh_rows(b, row_products(b, [rows], b.scalar(0.0, F32)), rule)
        joined = aggregate_rows(b, rows, verdict, rule)
    return b.finish([("joined", PARAMETER, made, joined)], [("rows", rows)], b.scalar(0.0, F32))


def rule_of(rule: Aggregation, slots: int, values: int) -> Rule:
    """On rows in memory."""
    runner: Runner = prepare(program(rule, slots, values))

    def joined(rows: Array) -> Array:
        runner.step({"rows": rows}, threads=torch.get_num_threads())
        return runner.state["joined"].copy()

    return joined


def best(*calls: Callable[[], Any]) -> list[float]:
    """Seconds of each, interleaved, so that other load on the machine affects all alike."""
    for call in calls:
        call()
    durations: list[list[float]] = [[] for _ in calls]
    while min(sum(took) for took in durations) < LEAST_S or len(durations[0]) < TIMED:
        for call, took in zip(calls, durations, strict=True):
            began = time.perf_counter()
            call()
            took.append(time.perf_counter() - began)
    return [min(took) for took in durations]


def times(names: list[str], slots: int, values: int, hostile: int, byzfl: Any | None) -> dict[str, dict[str, float]]:
    """Seconds of ours and of byzfl's, all rows stacked before in the memory of each."""
    rows = np.random.default_rng(0).standard_normal((slots, values)).astype(np.float32)
    tensor = torch.from_numpy(rows)
    peers = byzfl_rules.rules(byzfl, hostile) if byzfl else {}
    table = {}
    for name in names:
        runner = prepare(program(named(name, hostile), slots, values))
        runner.batch["rows"][...] = rows
        calls: list[Callable[[], Any]] = [lambda: runner.step(runner.batch, threads=torch.get_num_threads())]  # noqa: B023
        if name in peers:
            calls.append(lambda: peers[name](tensor))  # noqa: B023
        took = best(*calls)
        table[name] = dict(zip(("s", "byzfl_s"), took, strict=False))
        if name in peers:
            table[name]["times_faster"] = took[1] / took[0]
    return table
