"""Gas, bytes and robustness at scale, for benchmarks/scaling/scale.py: arithmetic on measured figures, nothing is run here."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from fractions import Fraction
from functools import cache
from math import comb
from pathlib import Path

from repops.builder import Builder
from repops.graph import BATCH_ROLE, F32, PARAMETER, STATE_ROLE, BadProgram, Graph
from repops.limits import MAX_TRACE_BYTES
from repops.profile import trace_bytes
from zoo_compute.formats.aggregation import Aggregation, AggregationSpec, OuterOptimizer
from zoo_compute.spec.params import MAX_SLOTS
from zoo_compute.spec.topology import Level, tree
from zoo_compute.training.rounds import aggregation_program

RESULTS = Path(__file__).parents[1] / "results"
MEASURED_GAS = RESULTS / "gas.json"
MARK_RATIO = 218  # of fp32 to packed, where none was measured: what entropy allows for top 64 of 4096 at 2 bits
BLOCK_GAS = 30_000_000  # of a block of a usual chain
LIST_LENGTHS = {"clear": (1, 4), "award": (1, 4), "finalise": (24, 60)}  # list lengths that gas was measured at
PER_TURN = ("commit", "post_checkpoint", "finalise")
ONCE = ("register", "deposit")  # of an operator, whatever jobs it serves

# Parameters.
MODELS: dict[str, int] = {
    "1M GPT (vocabulary 256, width 128)": 10**6,
    "GPT-2 small, 124M": 124_439_808,
    "7B (vocabulary 32,000, width 4,096)": 6_738_415_616,
}
SAMPLE = 2**16  # parameters of the model whose aggregation is built to be measured
NEAREST = Aggregation("trimmed_mean", 1, "nearest")


def measured_gas() -> dict[str, int]:
    return {name: value for name, value in json.loads(MEASURED_GAS.read_text()).items() if isinstance(value, int)}


def packed_ratio() -> tuple[float, str]:
    """fp32 bytes over packed ones, and where that comes from."""
    file = RESULTS / "compression.json"
    if file.exists():
        ratio = json.loads(file.read_text()).get("compression_ratio")
        if ratio:
            return float(ratio), "measured by benchmarks/training/compression.py"
    return float(MARK_RATIO), "the entropy of top 64 of 4096 at 2 bits; not measured"


def cost_of(gas: Mapping[str, int], function: str, size: int) -> Fraction:
    """Gas of one call: as measured; of a list, on the line through the two lengths that were measured."""
    if function not in LIST_LENGTHS:
        return Fraction(gas[function])
    low, high = LIST_LENGTHS[function]
    name = "finalise_{}_claims" if function == "finalise" else f"{function}_{{}}"
    at_low, at_high = gas[name.format(low)], gas[name.format(high)]
    return at_low + Fraction((at_high - at_low) * (size - low), high - low)


def gas_of(calls: Mapping[tuple[str, int], int], functions: Iterable[str] | None = None) -> int:
    gas, wanted = measured_gas(), set(functions) if functions else None
    total = sum(
        count * cost_of(gas, function, size)
        for (function, size), count in calls.items()
        if wanted is None or function in wanted
    )
    return round(total)


def gas_split(calls: Counter[tuple[str, int]]) -> dict[str, int]:
    """Of a job's rounds, of what surrounds them, and of joining the network."""
    rounds, joining = gas_of(calls, PER_TURN), gas_of(calls, ONCE)
    return {"rounds": rounds, "around": gas_of(calls) - rounds - joining, "joining": joining}


def turn_gas(slots_a_seat: int) -> float:
    """Gas per shard of a round, of a seat's own calls: what is left when the checkpoint is shared by many."""
    gas = measured_gas()
    claim = cost_of(gas, "finalise", 60) / 60
    return float((gas["commit"] + claim) / slots_a_seat)


# Bytes ---------------------------------------------------------------------------------------------------------------


def trees(leaves: int, parameters: int, ratio: float, fan_ins: Iterable[int]) -> dict[str, list[Level]]:
    """Fan-in -> levels, for packed leaves and dense results above them; `flat` has one level."""
    dense = 4 * parameters
    packed = round(dense / ratio)
    table = {"flat": tree(leaves, leaves, packed, dense)}
    return table | {str(fan_in): tree(leaves, fan_in, packed, dense) for fan_in in fan_ins}


def most_slots(parameters: int, rule: Aggregation) -> int:
    """Slots of a job that an aggregation's program can combine: its trace is what ends first, which grows with the parameters."""
    low, high = 0, MAX_SLOTS
    while low < high:
        slots = (low + high + 1) // 2
        fits = trace_bytes(_aggregation(slots, rule)) * parameters <= MAX_TRACE_BYTES * SAMPLE
        low, high = (slots, high) if fits else (low, slots - 1)
    return low


def _aggregation(slots: int, rule: Aggregation) -> Graph:
    """Of a model of SAMPLE parameters, all in one tensor."""
    b = Builder()
    before, data = b.input(F32, (SAMPLE,), STATE_ROLE, 0), b.input(F32, (1,), BATCH_ROLE, 0)
    step = b.finish([("w", PARAMETER, before, b.map("mul", before, 0.5))], [("inputs", data)], b.sum(data, [0]))
    rule = replace(rule, hostile=min(rule.hostile, (slots - 1) // 2))
    try:
        return aggregation_program(step, AggregationSpec(slots, OuterOptimizer(0.7, 0.9), rule))
    except BadProgram as error:
        raise AssertionError(f"{slots} slots of {SAMPLE:,} parameters") from error


# Robustness ----------------------------------------------------------------------------------------------------------


def tolerated(members: int) -> int:
    """Hostile leaves that a rule set for 4 of 17 tolerates: in proportion, rounded down."""
    return members * 4 // 17


def least_to_capture(region: int, regions: int) -> int:
    """Hostile leaves that decide a tree's result if they may choose their places."""
    return (tolerated(region) + 1) * (tolerated(regions) + 1)


def region_captured(leaves: int, region: int, hostile: int) -> Fraction:
    """Chance that one region of a drawn partition has more hostile leaves than its rule tolerates: hypergeometric, exact."""
    ways = sum(
        comb(hostile, k) * comb(leaves - hostile, region - k)
        for k in range(tolerated(region) + 1, min(hostile, region) + 1)
    )
    return Fraction(ways, comb(leaves, region))


def tree_captured(region: int, regions: int, hostile: int, least: int | None = None) -> Fraction:
    """Chance that at least `least` regions of a drawn partition are captured; by default one more than the root tolerates."""
    least = tolerated(regions) + 1 if least is None else least
    leaves = region * regions
    ways = falling(region, regions, least) >> (leaves + 1) * hostile & (1 << leaves + 1) - 1
    return Fraction(ways, comb(leaves, hostile))


@cache
def falling(region: int, regions: int, least: int) -> int:
    """For every number of hostile leaves the ways to place them with at least `least` regions captured.

    They are the coefficients of the sum over j >= least of C(regions, j) A^(regions - j) B^j, where A and B count a region's ways to
    stay and to fall. A polynomial is encoded as one integer, a coefficient per digit: none exceeds 2^leaves.
    """
    digit, cut = region * regions + 1, tolerated(region)
    stays = sum(comb(region, k) << digit * k for k in range(cut + 1))
    falls = sum(comb(region, k) << digit * k for k in range(cut + 1, region + 1))
    total = 0
    for j in range(least, regions + 1):
        total += comb(regions, j) * falls**j * stays ** (regions - j)
    return total


def format_chance(chance: Fraction) -> str:
    """A chance as text for a table."""
    if chance in (0, 1):
        return str(int(chance))
    if chance > Fraction(99, 100):
        return "above 0.99"
    text = f"{float(chance):.2g}" if chance > Fraction(1, 10**300) else "below 1e-300"
    return re.sub(r"e-0?", "e-", text)
