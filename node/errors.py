"""What a node refuses, and why.

NodeError               .hint says what to do
├── NodeOutOfMemory     the job does not fit this device; names the sizes
├── RankLost         a process of a program that several compute died, hung or failed; all are ended      Retryable
├── BadInputs           fetched content is not what the chain or the manifest committed to
│   ├── Withheld        committed data that nobody serves, or other bytes in its place: it can be demanded on chain   Retryable
│   └── FalseCheckpoint a posted checkpoint that no right aggregation makes      Retryable
└── NoDevice            the device asked for is absent, or not allowed here
"""

from collections.abc import Mapping
from typing import Any

from zoo_compute.errors import NeedsOperator, Retryable, ZooError

TensorChunk = tuple[int, int]  # tensor and group, as Availability numbers them


class NodeError(ZooError):
    """Base of what `node` raises on purpose."""


class NodeOutOfMemory(NodeError, NeedsOperator):
    """The device ran out of memory; the message names what the job needs and what there is."""


class RankLost(NodeError, Retryable):
    """One of the processes that compute a program together is lost; the message says which and how."""


class BadInputs(NodeError, ValueError):
    """A root, a round, a slot or a shape differs from what was committed."""


class Withheld(BadInputs, Retryable):
    """Committed data could not be had. places: by slot (0 of a checkpoint), a place that is missing; None where none is known."""

    def __init__(self, message: str, chunks: Mapping[int, TensorChunk | None], *, checkpoint: bool = False) -> None:
        super().__init__(message)
        self.chunks = dict(chunks)
        self.checkpoint = checkpoint

    def to_dict(self) -> dict[str, Any]:
        return {"checkpoint": self.checkpoint, "places": sorted([slot, place] for slot, place in self.chunks.items())}


class FalseCheckpoint(BadInputs, Retryable):
    """A posted checkpoint does not hold the program's tensors. Its author lied: once it is convicted, the round starts from another."""


class NoDevice(NodeError, NeedsOperator):
    """No such device here, or it may not serve this network."""
