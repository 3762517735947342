"""How many bytes a custodian holds of one round: every slot's update, and the checkpoint that they make."""

from __future__ import annotations

import math

from repops.graph import Graph
from zoo_compute.formats.manifest import Manifest
from zoo_compute.training.compression import packed_bits
from zoo_compute.training.rounds import checkpoint_bytes


def update_bytes(step: Graph, manifest: Manifest) -> int:
    """Estimated, of one slot."""
    sent = [step.nodes[entry.before].elements for entry in step.state if entry.name in step.exchanged]
    return math.ceil(sum(packed_bits(elements, manifest.compression) for elements in sent) / 8)


def round_bytes(step: Graph, manifest: Manifest) -> int:
    return manifest.slots * update_bytes(step, manifest) + checkpoint_bytes(step, manifest.aggregation_spec)
