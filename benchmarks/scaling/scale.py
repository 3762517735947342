"""How far does it go? Networks up to 10,000 nodes and 65,536 shards: schedule, bytes of each level of a tree, gas of a shard. Models
of 7 and 70 billion parameters: a round's bytes, memory, times and gas (`large_models.py` beside this file).

    python benchmarks/scale.py [--json] [--seeds N] [--small]

Nodes are made up from a seed (benchmarks/scaling/network.py says how); everything done with them is the product's own: the schedule
(`zoo_compute.spec.schedule`, `topology`), and the auction, the rounds and the payments as the specification plays them, call by call.
Gas is what receipts said (benchmarks/results/gas.json) times the calls that were made. Bytes are arithmetic on the packed size.
Peers in the same run: a queue that all workers of an operator share, and equal shares.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, TypeVar

from benchmarks.scaling import large_models, model, network
from zoo_compute.spec import schedule, topology

PARAMETERS = 124_439_808  # of the model whose updates are sent: GPT-2 small's
ROUNDS = 12  # turns that one call pays, as benchmarks/chain/gas.py pays them
FAN_IN = 256
STANDBYS = 2
T = TypeVar("T")


@dataclass(frozen=True)
class Point:
    """operators: alike in size. jobs: that the shards are split into; 0: as few as the contracts allow."""

    nodes: int
    operators: int
    shards: int
    jobs: int = 0


FARMS = (Point(100, 20, 640), Point(1_000, 40, 6_400), Point(10_000, 160, 65_536))
HOMES = Point(10_000, 10_000, 65_536, jobs=256)  # one GPU each: a bid is for a 64th of a lot, so lots are small


def timed(work: Callable[[], T]) -> tuple[T, float]:
    began = time.perf_counter()
    result = work()
    return result, time.perf_counter() - began


def measure(point: Point, seed: int, update_bytes: int) -> dict[str, Any]:
    """One network, from its auction to its last payment."""
    chunks = -(-point.shards // network.SLOTS_A_CHUNK)
    workers = network.nodes(point.nodes, point.operators, chunks, random.Random(seed))
    played, play_s = timed(lambda: network.play(workers, point.shards, ROUNDS, update_bytes, parts=point.jobs or None))
    owned = network.by_operator(workers)
    mine = {job: network.of(owned, slots) for job, slots in played.slots.items()}
    won = {job: {operator: len(s) for operator, s in slots.items()} for job, slots in played.slots.items()}

    def decide() -> None:
        for job, work in played.works.items():
            schedule.schedule(work, played.slots[job], mine[job])
            domains = {operator: owned[operator][0].domain for operator in won[job]}
            for operator in won[job]:
                others = {other: domain for other, domain in domains.items() if other != operator}
                topology.spread(STANDBYS, others, [domains[operator]])
        topology.groups(workers, FAN_IN)

    _, schedule_s = timed(decide)
    peers = {"shared queue": network.queued_ms, "equal shares": network.equal_ms}
    makespan = {"schedule": [made.finish_ms[o] for job, made in played.schedules.items() for o in won[job]]} | {
        name: [peer(work, won[job][o], owned[o]) for job, work in played.works.items() for o in won[job]]
        for name, peer in peers.items()
    }
    gas = model.gas_split(played.market.calls)
    shard_rounds = point.shards * ROUNDS
    seated = sum(network.local(played.works[job], made.slots, mine[job]) for job, made in played.schedules.items())
    return {
        "schedule_s": schedule_s,
        "play_s": play_s,
        "calls": sum(played.market.calls.values()),
        "jobs": len(played.works),
        "seats": played.seats,
        "barred_operators": played.barred,
        "round_s": {name: max(times) / 1_000 for name, times in makespan.items()},
        "mean_finish_s": {name: statistics.mean(times) / 1_000 for name, times in makespan.items()},
        "local_share": seated / point.shards,
        "gas_per_shard": gas["rounds"] / shard_rounds,
        "gas_around_per_seat": gas["around"] / played.seats,
        "gas_joining_per_operator": gas["joining"] / point.operators,
        "blocks_a_round": gas["rounds"] / ROUNDS / model.BLOCK_GAS,
    }


def summary(runs: list[Any]) -> Any:
    """The median of every figure over the seeds."""
    first = runs[0]
    if isinstance(first, dict):
        return {key: summary([run[key] for run in runs]) for key in first}
    return statistics.median(runs)


def bytes_of(leaves: int, ratio: float) -> dict[str, Any]:
    """Levels of each tree, and dense leaves beside them: what the tree was invented for."""
    made = {"packed": ratio, "dense": 1.0}
    return {
        leaf: {
            name: [{**asdict(level), "total": level.total} for level in levels]
            for name, levels in model.trees(leaves, PARAMETERS, value, (16, 64, FAN_IN)).items()
        }
        for leaf, value in made.items()
    }


def run(seeds: int, points: tuple[Point, ...], cases: tuple[large_models.Case, ...] = ()) -> dict[str, Any]:
    ratio, source = model.packed_ratio()
    update_bytes = round(4 * PARAMETERS / ratio)
    rows = []
    for point in points:
        runs = [measure(point, seed, update_bytes) for seed in range(1, seeds + 1)]
        worst = max(each["schedule_s"] for each in runs)
        rows.append({**asdict(point), **summary(runs), "schedule_s_worst": worst})
    largest = max(points, key=lambda point: (point.shards, -point.operators))
    best = next(each for each in rows if each["shards"] == largest.shards and each["operators"] == largest.operators)
    return {
        "parameters": {
            "seeds": seeds,
            "rounds": ROUNDS,
            "model_parameters": PARAMETERS,
            "inner_steps": network.INNER_STEPS,
            "step_flops": network.STEP_FLOPS,
            "slot_s": network.SLOT_S,
            "ratio": ratio,
            "ratio_from": source,
            "standbys": STANDBYS,
            "block_gas": model.BLOCK_GAS,
        },
        "schedule_s": best["schedule_s"],
        "gas_per_shard": best["gas_per_shard"],
        "points": rows,
        "tree": bytes_of(largest.shards, ratio),
        **({"models": large_models.run(cases)} if cases else {}),
    }


def show(result: dict[str, Any]) -> None:
    print("parameters:", json.dumps(result["parameters"]))
    print(f"{'nodes':>7} {'operators':>9} {'shards':>7} {'jobs':>5} {'seats':>6} {'barred':>7} {'schedule s':>11} "
          f"{'round s':>8} {'queue':>7} {'equal':>7} {'local':>6} {'gas/shard':>10} {'blocks':>7}")  # fmt: skip
    for each in result["points"]:
        rounds = each["round_s"]
        print(f"{each['nodes']:7,} {each['operators']:9,} {each['shards']:7,} {each['jobs']:5.0f} {each['seats']:6,.0f} "
              f"{each['barred_operators']:7,.0f} {each['schedule_s']:11.3f} {rounds['schedule']:8.1f} {rounds['shared queue']:7.1f} "
              f"{rounds['equal shares']:7.1f} {each['local_share']:6.1%} {each['gas_per_shard']:10,.0f} "
              f"{each['blocks_a_round']:7.2f}")  # fmt: skip
    for leaf, shapes in result["tree"].items():
        for name, levels in shapes.items():
            totals = ", ".join(
                f"{level['senders']:,} to {level['receivers']:,}: {level['total']:,} B" for level in levels
            )
            print(f"{leaf:>6} leaves, fan-in {name:>4}: {totals}")
    for name, case in result.get("models", {}).get("cases", {}).items():
        print(f"{name}: {case['slots']} slots of {case['nodes_a_slot']} nodes, {case['aggregators']} aggregators")
        print(
            f"  update {case['update_bytes']:,} B, checkpoint {case['checkpoint_bytes']:,} B, gas a round {case['gas_a_round']['all']:,}"
        )
        for who, count in case["into"].items():
            print(f"  into each {who}: {count:,} B a round")
        for mbit, link in case["links"].items():
            print(f"  at {mbit} Mbit/s: " + ", ".join(f"{key} {value:,.3f}" for key, value in link.items()))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--json", action="store_true", help="one object, nothing else")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--small", action="store_true", help="the smallest network alone, and no model")
    arguments = parser.parse_args()
    if arguments.small:
        result = run(arguments.seeds, FARMS[:1])
    else:
        result = run(arguments.seeds, (*FARMS, HOMES), large_models.CASES)
    if arguments.json:
        print(json.dumps(result, indent=2))
    else:
        show(result)
    return 0


if __name__ == "__main__":
    sys.exit(main())
