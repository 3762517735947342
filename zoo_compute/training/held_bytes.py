"""How many bytes a custodian holds of one round: every slot's update, with what its author does not send to others, and the
checkpoint that they make.
"""

from __future__ import annotations

import math

from repops.graph import Graph
from zoo_compute.formats.manifest import Manifest
from zoo_compute.training.compression import packed_bits
from zoo_compute.training.rounds import checkpoint_bytes

LINK_BYTES = 5_000_000  # a second, over the slowest link that a job's clocks have time for


def update_bytes(step: Graph, manifest: Manifest) -> int:
    """Estimated, of one slot."""
    sent = [step.nodes[entry.before].elements for entry in step.state if entry.name in step.exchanged]
    return math.ceil(sum(packed_bits(elements, manifest.compression) for elements in sent) / 8)


def residual_bytes(step: Graph, manifest: Manifest) -> int:
    """Of one slot: what its author does not send, a word for every element."""
    kept = [step.nodes[entry.before].elements for entry in step.state if entry.name in step.exchanged]
    return 4 * sum(kept) if manifest.keeps_residuals else 0


def round_bytes(step: Graph, manifest: Manifest) -> int:
    of_slot = update_bytes(step, manifest) + residual_bytes(step, manifest)
    return manifest.slots * of_slot + checkpoint_bytes(step, manifest.aggregation_spec)
