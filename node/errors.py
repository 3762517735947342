"""Errors of a node.

NodeError               .hint says what to do
├── NodeOutOfMemory     the job does not fit this device; names the sizes
├── RankLost            one of several processes that compute a program died, hung or failed; all are ended   Retryable
├── BadInputs           fetched content is not what the chain or the manifest committed to
│   ├── Withheld        nobody serves committed data, or its bytes are wrong: it can be demanded on chain   Retryable
│   └── FalseCheckpoint a posted checkpoint does not have the program's tensors   Retryable
└── NoDevice            the device asked for is absent, or not allowed here
"""

from collections.abc import Mapping
from typing import Any

from zoo_compute.errors import NeedsOperator, Retryable, ZooError

TensorChunk = tuple[int, int]  # tensor and group, as Availability numbers them


class NodeError(ZooError):
    """Base of the errors that `node` raises on purpose."""


class NodeOutOfMemory(NodeError, NeedsOperator):
    """The device ran out of memory; the message names what the job needs and what there is."""


class RankLost(NodeError, Retryable):
    """One of the processes that compute a program together is lost; the message says which and how."""


class BadInputs(NodeError, ValueError):
    """A root, a round, a slot or a shape differs from what was committed."""


class Withheld(BadInputs, Retryable):
    """Committed data could not be downloaded. chunks: by slot (0 for a checkpoint), a missing chunk; None if not known."""

    def __init__(self, message: str, chunks: Mapping[int, TensorChunk | None], *, checkpoint: bool = False) -> None:
        super().__init__(message)
        self.chunks = dict(chunks)
        self.checkpoint = checkpoint

    def to_dict(self) -> dict[str, Any]:
        return {"checkpoint": self.checkpoint, "places": sorted([slot, place] for slot, place in self.chunks.items())}


class FalseCheckpoint(BadInputs, Retryable):
    """A posted checkpoint does not have the program's tensors. Once its author is convicted, the round starts from another one."""


class NoDevice(NodeError, NeedsOperator):
    """No such device here, or it may not serve this network."""
