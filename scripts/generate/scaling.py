"""Writes the numbers and plots of docs/design/scaling.md: tables between its marks, and docs/figures/scaling/*.svg.

    python -m scripts.generate scaling [--check]

Simulated figures come from benchmarks/results/scale.json, gas from gas.json beside it; limits, bytes and chances are computed here
from the constants of the specification. `--check` exits 1 when a table is stale; plots are only looked for, since fonts differ.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.scaling import model
from scripts.generate.computed_pages import COLOURS, axes, build, percent, save, table
from zoo_compute.formats.aggregation import Aggregation
from zoo_compute.spec import params, pricing

ROOT = Path(__file__).resolve().parents[2]

PAGE = ROOT / "docs" / "design" / "scaling.md"
RESULTS = ROOT / "benchmarks" / "results" / "scale.json"
LINK = 10**9 // 8  # bytes a second of an aggregator's link: 1 Gbit/s
ROUND_S = 600
SHAPES = ((17, 17), (32, 32))
SHARES = (0.05, 0.10, 0.15, 0.20, 4 / 17)


def results() -> Any:
    return json.loads(RESULTS.read_text())


def size(count: float) -> str:
    for unit, scale in (("TB", 10**12), ("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= scale:
            return f"{count / scale:.3g} {unit}"
    return f"{count:.0f} B"


# --- tables -----------------------------------------------------------------------------------------------------------


def network_table() -> str:
    rows = []
    for each in results()["points"]:
        took = each["round_s"]
        rows.append(
            [
                f"{each['nodes']:,}",
                f"{each['operators']:,}",
                f"{each['shards']:,}",
                f"{each['jobs']:.0f}",
                f"{each['seats']:,.0f}",
                f"{each['barred_operators']:,.0f}",
                f"{each['schedule_s']:.2f} s",
                f"{took['schedule']:.0f} s",
                f"{took['shared queue']:.0f} s",
                f"{took['equal shares']:,.0f} s",
                percent(each["local_share"]),
                f"{each['gas_per_shard']:,.0f}",
                f"{each['blocks_a_round']:.2f}",
            ]
        )
    head = [
        "nodes",
        "operators",
        "shards",
        "jobs",
        "seats",
        "barred",
        "schedule",
        "round",
        "with a queue",
        "with equal shares",
    ]
    return table([*head, "local", "gas a shard", "blocks a round"], rows)


def limit_table() -> str:
    rows = [
        [
            name,
            *(f"{model.most_slots(parameters, rule):,}" for rule in (Aggregation(), model.NEAREST)),
            f"{model.most_slots(-(-parameters // params.MAX_AGGREGATORS), Aggregation()):,}",
            size(4 * parameters),
        ]
        for name, parameters in model.MODELS.items()
    ]
    head = [
        "model",
        "most slots, mean",
        "most slots, trimmed mean",
        "mean, 16 aggregators with equal shares",
        "checkpoint",
    ]
    return table(head, rows)


def seat_table() -> str:
    rows = []
    for count in (1, 4, 16, 64, 256, 1_024):
        slots = count * params.MAX_WINNERS
        least = pricing.least_capacity(slots) if slots <= params.MAX_SLOTS else 0
        bars = f"{least:,}" if least else "no such job: beyond 16,384 slots"
        rows.append([f"{count:,}", f"{model.turn_gas(count):,.0f}", f"{slots:,}", bars])
    return table(
        ["slots a seat", "gas a shard and round", "slots of a job with 64 such winners", "least bid, in slots"], rows
    )


def tree_table() -> str:
    rows = []
    for leaf, shapes in results()["tree"].items():
        for name, levels in shapes.items():
            total, busiest = sum(each["total"] for each in levels), max(each["ingress"] for each in levels)
            steps = " + ".join(size(each["total"]) for each in levels)
            serial = sum(each["ingress"] for each in levels) / LINK
            rows.append([leaf, name, steps, size(total), size(busiest), f"{serial:,.0f} s"])
    head = ["leaves", "fan-in", "up, level by level", "in all", "into the busiest", "at 1 Gbit/s, level after level"]
    return table(head, rows)


def capture_table() -> str:
    rows = []
    for region, regions in SHAPES:
        leaves = region * regions
        for share in SHARES:
            hostile = int(leaves * share)
            flat = "holds" if hostile <= model.tolerated(leaves) else "falls"
            one = model.tree_captured(region, regions, hostile, 1)
            whole = model.tree_captured(region, regions, hostile)
            worst = "falls" if hostile >= model.least_to_capture(region, regions) else "holds"
            rows.append(
                [
                    f"{leaves:,} = {regions} x {region}",
                    f"{hostile} ({percent(hostile / leaves)})",
                    flat,
                    worst,
                    *(
                        model.format_chance(chance)
                        for chance in (model.region_captured(leaves, region, hostile), one, whole)
                    ),
                ]
            )
    head = ["leaves", "hostile", "flat rule", "tree, places chosen", "a given region falls", "any region falls"]
    return table([*head, "the tree falls, places drawn"], rows)


def large_rows(case: Any) -> dict[str, str]:
    """What a case has in each row of its table."""
    rows = {
        "slots, aggregators": f"{case['slots']}, {case['aggregators']}",
        "an update": size(case["update_bytes"]),
        "a checkpoint, with the outer optimizer's state": size(case["checkpoint_bytes"]),
        "into one aggregator, if it were alone": size(case["one_aggregator_bytes"]),
    }
    rows |= {f"into each {who}": size(count) for who, count in case["into"].items()}
    rows["training of a round"] = f"{case['train_s']:,.0f} s"
    rows |= {f"decoding by each {who}": f"{seconds:,.0f} s" for who, seconds in case["decode_s"].items()}
    for mbit, link in case["links"].items():
        for name, key in (("whole", ""), ("hidden", "_hidden")):
            trained = percent(link[f"utilisation{key}"])
            rows[f"a round at {int(mbit):,} Mbit/s, {name}"] = f"{link[f'round{key}_s']:,.0f} s ({trained} trained)"
    rows |= {f"memory: {who}": size(count) for who, count in case["memory_bytes"].items()}
    rows |= {f"of the longest trace allowed: {kind}": percent(share) for kind, share in case["trace"].items()}
    return rows | {"gas of a round": f"{case['gas_a_round']['all']:,}"}


def large_table() -> str:
    cases = results()["models"]["cases"]
    columns = [large_rows(case) for case in cases.values()]
    head = ["", *(f"{name}, {case['nodes']:,} nodes" for name, case in cases.items())]
    return table(head, [[row, *(column[row] for column in columns)] for row in columns[0]])


TABLES: dict[str, Callable[[], str]] = {
    "networks": network_table,
    "models": limit_table,
    "seats": seat_table,
    "large": large_table,
    "trees": tree_table,
    "capture": capture_table,
}


# --- plots ------------------------------------------------------------------------------------------------------------


def plot_gas(path: Path) -> None:
    """Gas of a shard and round against slots a seat, with the simulated networks on it."""
    figure, drawn = axes()
    counts = [2**i for i in range(13)]
    drawn.loglog(counts, [model.turn_gas(n) for n in counts], color=COLOURS[0], lw=1.8, label="a seat's own calls")
    for each in results()["points"]:
        at = each["shards"] / each["seats"]
        drawn.plot([at], [each["gas_per_shard"]], "o", color=COLOURS[1])
        label = f"{each['operators']:,} operators, {each['shards']:,} shards"
        drawn.annotate(label, (at, each["gas_per_shard"]), xytext=(7, 5), textcoords="offset points", color="dimgrey")
    drawn.plot([], [], "o", color=COLOURS[1], label="simulated, checkpoints included")
    drawn.set(
        xlabel="slots a seat", ylabel="gas a shard and round", title="Gas follows seats, not slots", xlim=(1, 10**4.6)
    )
    drawn.legend(frameon=False, loc="lower left")
    save(figure, path)


def plot_bytes(path: Path) -> None:
    """What the busiest receiver takes in a round, against the leaves, for each fan-in."""
    figure, drawn = axes()
    parameters = results()["parameters"]
    leaves = [2**i for i in range(4, 17)]
    for (name, fan_ins), colour in zip((("flat", ()), ("16", (16,)), ("256", (256,))), COLOURS, strict=False):
        for ratio, style in ((parameters["ratio"], "-"), (1.0, "--")):
            busiest = [
                max(level.ingress for level in model.trees(n, parameters["model_parameters"], ratio, fan_ins)[name])
                for n in leaves
            ]
            label = ("flat" if name == "flat" else f"fan-in {name}") + (
                ", packed leaves" if ratio > 1 else ", dense leaves"
            )
            drawn.loglog(leaves, busiest, style, color=colour, lw=1.8, label=label)
    drawn.axhline(LINK * ROUND_S, color="grey", lw=0.8, ls=":")
    drawn.annotate(
        "1 Gbit/s for ten minutes", (17, LINK * ROUND_S), xytext=(0, 4), textcoords="offset points", color="dimgrey"
    )
    drawn.set(
        xlabel="leaves",
        ylabel="bytes into the busiest receiver",
        title="Aggregating a 124M model: what one node must take in",
    )
    drawn.legend(frameon=False, fontsize=8)
    save(figure, path)


def plot_capture(path: Path) -> None:
    """Chance that hostile leaves decide, against their share: any region, and the whole tree."""
    figure, drawn = axes()
    for (region, regions), colour in zip(SHAPES, COLOURS, strict=False):
        leaves = region * regions
        counts = range(1, leaves // 2, max(1, leaves // 96))
        shares = [100 * n / leaves for n in counts]
        for least, style, what in ((1, "--", "a region"), (None, "-", "the tree")):
            chances = [float(model.tree_captured(region, regions, n, least)) for n in counts]
            drawn.plot(shares, chances, style, color=colour, lw=1.8, label=f"{what}, {regions} regions of {region}")
        worst = 100 * model.least_to_capture(region, regions) / leaves
        drawn.axvline(worst, color=colour, lw=0.8, ls=":")
    drawn.axvline(100 * 4 / 17, color="black", lw=0.8)
    drawn.annotate("the flat rule holds\nup to here", (100 * 4 / 17, 0.6), xytext=(4, 0), textcoords="offset points")
    drawn.annotate("dotted: the tree falls\nwhere places are chosen", (24.4, 0.3), color="dimgrey")
    drawn.set(
        xlabel="hostile leaves, percent",
        ylabel="chance that it falls",
        xlim=(0, 35),
        title="What a tree costs in robustness",
    )
    drawn.legend(frameon=False, loc="center left", fontsize=8)
    save(figure, path)


def plot_time(path: Path) -> None:
    """Time of the schedule, and of the round it makes against its peers."""
    figure, drawn = axes()
    farms = [each for each in results()["points"] if each["operators"] < each["nodes"]]
    nodes = [each["nodes"] for each in farms]
    drawn.loglog(nodes, [each["schedule_s"] for each in farms], "o-", color=COLOURS[0], label="deciding the schedule")
    for name, colour in zip(("schedule", "shared queue", "equal shares"), COLOURS[1:], strict=True):
        drawn.loglog(nodes, [each["round_s"][name] for each in farms], "o-", color=colour, label=f"a round, {name}")
    drawn.set(xlabel="nodes", ylabel="seconds", title="Scheduling takes no part of a round")
    drawn.legend(frameon=False, fontsize=8)
    save(figure, path)


PLOTS = {
    "gas-by-seat": plot_gas,
    "bytes-by-leaves": plot_bytes,
    "capture-by-share": plot_capture,
    "time-by-nodes": plot_time,
}


if __name__ == "__main__":
    sys.exit(build(PAGE, TABLES, PLOTS, __doc__))
