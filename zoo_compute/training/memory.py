"""The memory that a job needs on a node. Nodes use it to refuse a job, clients to warn before posting one."""

from __future__ import annotations

import math
from dataclasses import dataclass

from repops.graph import Graph
from repops.plan.build import SOURCES
from repops.plan.fit import Fitting
from repops.profile import Profile
from zoo_compute.formats.aggregation import AggregationSpec
from zoo_compute.training.rounds import aggregation_parts, aggregation_shares, checkpoint_nodes, file_bytes

WORD = 4  # bytes of a float32
ADAM_WORDS = 2  # a parameter's moments


def needed_bytes(profile: Profile) -> int:
    """The state, a step's activations, the update, and the tensor that it is made of at a time with its program's values.

    The last two are at most three times the parameters: a tensor's program has its start, its end and their difference.
    """
    return profile.state_bytes + profile.activation_bytes + 3 * WORD * profile.parameters


def kept_bytes(graph: Graph, profile: Profile) -> int:
    """What is there beside a step's values: state, batch, constants, the update, and what makes it of the largest tensor."""
    inputs = {entry.before for entry in graph.state}
    others = sum(node.elements for at, node in enumerate(graph.nodes) if node.op in SOURCES and at not in inputs)
    sent = [graph.nodes[entry.before].elements for entry in graph.state if entry.name in graph.exchanged]
    return profile.state_bytes + WORD * (others + sum(sent) + 3 * max(sent, default=0))


@dataclass(frozen=True)
class MemoryNeeds:
    """Bytes of a worker's memory: plain, and with as many values computed again as pays, which makes a step slower by a share.

    in_files: with that, and the state in files.
    """

    plain: int
    recomputed: int
    in_files: int
    slower: float


def memory_needs(graph: Graph, profile: Profile) -> MemoryNeeds:
    """What the job needs of a worker, by the worker's choice. Plans the program, which takes seconds if it is large."""
    plain, least = needed_bytes(profile), Fitting(graph).least
    recomputed = kept_bytes(graph, profile) + least.size
    return MemoryNeeds(plain, min(plain, recomputed), recomputed - profile.state_bytes, least.extra)


def least_bytes(parameters: int, optimizer: str) -> int:
    """A lower bound for a model that is not traced yet: `needed_bytes` without activations. A step keeps the old and the new state."""
    state = WORD * parameters * (1 + (ADAM_WORDS if optimizer == "adamw" else 0))
    return 2 * state + 3 * WORD * parameters


def aggregation_bytes(step: Graph, spec: AggregationSpec, *, streamed: bool = False) -> int:
    """Of a round of full slots, and of several aggregators' largest share: the old and the new checkpoint, every slot's update, and
    twice all slots' rows of the largest part.

    streamed: of every slot's update the largest tensor alone.
    """
    return max(_share_bytes(step, spec, share, streamed) for share in aggregation_shares(spec))


def _share_bytes(step: Graph, spec: AggregationSpec, share: int | None, streamed: bool) -> int:
    nodes, parts = checkpoint_nodes(step, spec, share), aggregation_parts(step, spec, share)
    sizes = [nodes[name].elements for name in {part.name for part in parts}]
    largest = max((math.prod(part.shape(nodes[part.name].shape)) for part in parts), default=0)
    rows = spec.slots * ((max(sizes, default=0) if streamed else sum(sizes)) + 2 * largest)
    products = 0 if spec.rule.is_mean else 3 * spec.slots**2
    return 2 * file_bytes(nodes) + WORD * (rows + products)


def aggregation_flops(step: Graph, spec: AggregationSpec) -> int:
    """The least that combining a round of full slots takes, of several aggregators' largest share: a sum of all rows, and where the rule
    compares slots, all their products.
    """
    nodes, names = checkpoint_nodes(step, spec), set(step.exchanged)
    shares = (checkpoint_nodes(step, spec, share) for share in aggregation_shares(spec))
    elements = max(sum(nodes[name].elements for name in names & share.keys()) for share in shares)
    return elements * spec.slots * (2 if spec.rule.is_mean else 2 + spec.slots)
