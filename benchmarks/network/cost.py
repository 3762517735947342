"""What does a PFLOP-day cost at the protocol's reference prices and the nodes' real training rate?

No GPU is measured here. Measured is the share of its own peak that this machine reaches in a step of the network's program, and the
utilisation; a GPU's rate is its data sheet's float32 peak (the programs use no tensor cores) times both. Prices are those of
zoo_compute.spec.params.TIERS; a ZEN is taken at what seed 000 sold it for: 21,000 ZEN for about 42,000 dollars.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from node.compute.programs import Programs
from zoo_compute.jobs.config import ComputeJob
from zoo_compute.spec.params import TIERS, ZEN

PEAK_TFLOPS = {
    1: ("A100-40", 19.5),
    2: ("A100-80", 19.5),
    3: ("H100-80", 66.9),
}  # float32 outside tensor cores, by tier
DOLLARS_A_ZEN = 2.0
# Claims of the project's seed documents, for comparison with the measured figures.
CLAIMED = {
    "utilisation_seed_004": 0.85,
    "utilisation_seed_000": 0.89,
    "utilisation_seed_000_embedding": 0.94,
    "utilisation_best_published": 0.945,
    "dollars_a_pflop_day_seed_004": 15,
    "dollars_a_pflop_day_centralised_seed_004": 100,
}


def core_peak() -> float:
    """Floating-point operations a second of this machine's product of matrices, as many threads as numpy takes."""
    size = 768
    a = np.ones((size, size), np.float32)
    taken = []
    for _ in range(5):
        began = time.perf_counter()
        a @ a
        taken.append(time.perf_counter() - began)
    return 2 * size**3 / min(taken)


def share_of_peak(job: ComputeJob) -> float:
    """Of what this machine's product of matrices reaches, the part that a training step of the job does. Both their best time."""
    programs = Programs(job.traced.graph)
    batch = {name: np.zeros_like(array) for name, array in programs.step.batch.items()}
    taken = []
    for _ in range(4):
        began = time.perf_counter()
        programs.advance(batch)
        taken.append(time.perf_counter() - began)
    return min(1.0, programs.profile.flops / min(taken) / core_peak())


def costs(share: float, utilisation: float) -> dict[str, Any]:
    """By GPU: what a PFLOP-day costs. share: of its peak that a GPU reaches in a step."""
    table = {}
    for tier, (gpu, peak) in PEAK_TFLOPS.items():
        pflops = peak / 1_000 * share * utilisation
        zen = TIERS[tier].reference_price / ZEN * 24 / pflops
        table[gpu] = {"zen": zen, "dollars": zen * DOLLARS_A_ZEN, "tflops": pflops * 1_000}
    return table
