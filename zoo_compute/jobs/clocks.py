"""Default clocks of a job: long enough for a slow machine, and no longer.

Tracing gives the exact work of one slot-round. The clocks follow from it and a reference machine, so small jobs have short
clocks on any network, and large jobs long ones:

    compute_s    1.5 x the slot-round's FLOPs on one core without AVX2 (1.25 GFLOP/s; the portable kernels reach 1.1 to 1.3,
                 AVX2 50 to 75), at most an hour. Longer work is for GPUs: then 1.5 x its FLOPs at 5 TFLOP/s, if that is
                 more than an hour. 1.5 is the margin of a keeper's own timing (node/tasks.py).
    transfer_s   the parameters, as float32, at 40 Mbit/s.

    reexecute_s  compute_s of `carry_rounds` slot-rounds: a verifier retrains a slot from where its private state began. A
                 dispute's clock adds the same time for a heavy ask, so a keeper that needs longer does not bid
                 (keepers/decisions/bidding.py). The challenge window is three times this.
    slot_s       60 s + transfer_s + 3 compute_s: a worker fetches the checkpoint, trains up to three slots one after another
                 (two or three others may share its cores), and its keeper, killed in the middle, is back in seconds.
    aggregate_s  30 s + transfer_s for every slot: the aggregator fetches all updates, uncompressed at worst.

The minimums suit a tiny job on a loaded two-core machine with five operators, where a block, a keeper's tick and a worker's
restart take seconds each. 30 s of `reexecute_s` make a window of 90 s on a devnet, so jobs are paid within two minutes; a
production network has windows of hours anyway (`min_window_s`).
"""

from __future__ import annotations

from typing import NamedTuple

from repops.profile import Profile
from zoo_compute.spec.params import MAX_SECONDS
from zoo_compute.training.held_bytes import LINK_BYTES

CPU_FLOPS = 1_250_000_000  # a second, of one core without AVX2
GPU_FLOPS = 5_000_000_000_000  # a second, of a consumer's card
CPU_LONGEST_S = 3_600
SLOTS_PER_WORKER = 3

LEAST_SLOT_S, STARTING_S = 120, 60
LEAST_AGGREGATE_S, JOINING_S = 60, 30
LEAST_REEXECUTE_S = 30


class Clocks(NamedTuple):
    """Maximum seconds of a slot, an aggregation, and a re-execution of a slot-round."""

    slot_s: int
    aggregate_s: int
    reexecute_s: int


SHORTEST_CLOCKS = Clocks(LEAST_SLOT_S, LEAST_AGGREGATE_S, LEAST_REEXECUTE_S)


def clocks_of(step: Profile, inner_steps: int, slots: int, carry: int = 1) -> Clocks:
    """Clocks for this work. Exact integers: the same job has the same manifest on every machine."""
    flops = step.flops * inner_steps
    transfer_s = _seconds(4 * step.parameters, LINK_BYTES)
    wanted = Clocks(
        STARTING_S + transfer_s + SLOTS_PER_WORKER * _compute_s(flops),
        JOINING_S + transfer_s * slots,
        _compute_s(flops * carry),
    )
    return Clocks(*(min(max(least, each), MAX_SECONDS) for least, each in zip(SHORTEST_CLOCKS, wanted, strict=True)))


def _compute_s(flops: int) -> int:
    return max(min(_seconds(3 * flops, 2 * CPU_FLOPS), CPU_LONGEST_S), _seconds(3 * flops, 2 * GPU_FLOPS))


def _seconds(work: int, a_second: int) -> int:
    return -(-work // a_second)
