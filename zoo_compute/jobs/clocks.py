"""How long a job's clocks run where its file does not say: enough for a slow machine, and no longer.

The work of one slot-round is known exactly once the module is traced. It is timed for a reference machine, so a small job has
short clocks on any network, and a large one long clocks:

    compute_s    1.5 x the slot-round's FLOPs on one core without AVX2 (1.25 GFLOP/s; the portable kernels reach 1.1 to 1.3,
                 AVX2 50 to 75), but no more than an hour: what takes such a core longer is work for GPUs, and counts as
                 1.5 x its FLOPs at 5 TFLOP/s from where that is more. 1.5 is the margin of a keeper's own timing (node/tasks.py).
    transfer_s   the parameters, as float32, at 40 Mbit/s.

    reexecute_s  compute_s of `carry_rounds` slot-rounds: a verifier trains a slot again from where its private state began. It also is what a game's clock gains for the defence, so a keeper
                 that needs longer does not bid (keepers/decisions/bidding.py, `defensible`). The challenge window is three times this.
    slot_s       60 s + transfer_s + 3 compute_s: a worker fetches the checkpoint, trains up to three slots one after another
                 (two or three others may share its cores), and its keeper, killed in the middle, is back in seconds.
    aggregate_s  30 s + transfer_s for every slot: the aggregator fetches all updates, uncompressed at worst.

The floors keep a tiny job alive on a loaded machine of two cores with five operators: there a block, a look of a keeper and a
restarted worker take seconds each. 30 s of `reexecute_s` make a window of 90 s on a devnet, so its jobs are paid within two
minutes; a production network has windows of hours anyway (`min_window_s`).
"""

from __future__ import annotations

from typing import NamedTuple

from repops.profile import Profile
from zoo_compute.spec.params import MAX_SECONDS

CPU_FLOPS = 1_250_000_000  # a second, of one core without AVX2
GPU_FLOPS = 5_000_000_000_000  # a second, of a consumer's card
LINK_BYTES = 5_000_000  # a second
CPU_LONGEST_S = 3_600
SLOTS_PER_WORKER = 3

LEAST_SLOT_S, STARTING_S = 120, 60
LEAST_AGGREGATE_S, JOINING_S = 60, 30
LEAST_REEXECUTE_S = 30


class Clocks(NamedTuple):
    """Most seconds of a slot, of an aggregation, and of training a slot-round again."""

    slot_s: int
    aggregate_s: int
    reexecute_s: int


SHORTEST_CLOCKS = Clocks(LEAST_SLOT_S, LEAST_AGGREGATE_S, LEAST_REEXECUTE_S)


def clocks_of(step: Profile, inner_steps: int, slots: int, carry: int = 1) -> Clocks:
    """Clocks that suit this work. Exact integers: the same job has the same manifest on every machine."""
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
