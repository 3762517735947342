"""What a job's program must satisfy beside being valid, so that an operator who computed it can also defend it."""

from __future__ import annotations

from repops.graph import I32, OPTIMIZER, SEED, BadProgram, Graph, needed
from repops.operators import TABLE, terms
from repops.profile import trace_bytes

# A program's nodes: benchmarks/disputes/programs.py allows 40,000 for a step of a 7B Llama; its compressed update has
# about 50,000, by those that a small Llama has for each tensor.
MAX_PROGRAM_NODES = 1 << 17
# Terms of one element: the norm of the largest tensor of an 8B model sums 525 M. An opening computes all of its parts, in
# seconds with the kernels; a stride of 0 would otherwise ask for 2^31 terms of a single word.
MAX_TERMS = 1 << 29
# Bytes hashed for one step's trace, and so four for each word of all its values: two hours of one core at 1.2 GB/s. A
# training step of a Llama of 70B hashes 6.4 TB with AdamW, one of 7B under 2 TB; 7B hashes 3.8 TB where it aggregates 16 updates by
# trimmed means. Who would take too long for a job's clocks measures that before a bid.
MAX_TRACE_BYTES = 1 << 43


def check_program(graph: Graph) -> None:
    """Raises BadProgram where a trace or an opening of a step could cost out of all proportion to the step.

    Every node is needed by the state or the loss; inputs are there without being computed. One value has at most
    MAX_ELEMENTS words, by `check`.
    """
    nodes = graph.nodes
    if len(nodes) > MAX_PROGRAM_NODES:
        raise BadProgram(f"program: {len(nodes):,} nodes; at most {MAX_PROGRAM_NODES:,}")
    wanted = needed(nodes, (graph.loss, *(entry.after for entry in graph.state)))
    for at, node in enumerate(nodes):
        if not wanted[at] and node.op != "input":
            raise BadProgram(f"program: node {at} ({node.op}): neither the state nor the loss needs it; drop it")
        if TABLE[node.op].reduces and node.op != "take" and terms(node) > MAX_TERMS:
            raise BadProgram(f"program: node {at} ({node.op}): {terms(node):,} terms; at most {MAX_TERMS:,}")
    if (size := trace_bytes(graph)) > MAX_TRACE_BYTES:
        raise BadProgram(f"program: a trace of a step hashes {size:,} bytes; at most {MAX_TRACE_BYTES:,}")
    for entry in graph.state:
        # The contract knows what an int32 seed begins as, and no other.
        if entry.name == SEED and entry.kind == OPTIMIZER and nodes[entry.before].dtype != I32:
            raise BadProgram(f"program: the optimizer's {SEED!r} is {nodes[entry.before].dtype}; expected {I32}")
