"""Errors of a node.

NodeError               .hint says what to do
├── NodeOutOfMemory     the job does not fit this device; names the sizes
├── MeasurementFailed   a program could not be measured here before a bid
│   ├── OverLimit       it exceeded its time, memory or disk
│   └── ChildDied       the process that measures it was ended by a signal, or failed
├── Interrupted         this process is ending; the work is done again   Retryable
├── BackendFailed       kernels failed; others of this machine may do   Retryable
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


class MeasurementFailed(NodeError):
    """A program could not be measured here; the message says what it did, as a predicate."""


class OverLimit(MeasurementFailed):
    """limit: time, memory, disk, processes or output. again_at: when it may be measured again, in seconds since 1970."""

    def __init__(self, limit: str, message: str, again_at: float = 0.0) -> None:
        super().__init__(message)
        self.limit = limit
        self.again_at = again_at


class ChildDied(MeasurementFailed):
    """code: as subprocess has it, negative for a signal."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class Interrupted(NodeError, Retryable):
    """The process that does the work is ending."""


class BackendFailed(NodeError, Retryable):
    """Kernels failed on a program. kernels: their name; cause: the error; out_of_memory: the program was too large for them."""

    def __init__(self, kernels: str, cause: Exception, *, out_of_memory: bool = False) -> None:
        super().__init__(f"{kernels}: {type(cause).__name__}: {cause}")
        self.kernels, self.cause, self.out_of_memory = kernels, cause, out_of_memory


class RankLost(NodeError, Retryable):
    """One of the processes that compute a program together is lost; the message says which and how."""


class BadInputs(NodeError, ValueError):
    """A root, a round, a slot or a shape differs from what was committed."""


class Withheld(BadInputs, Retryable):
    """Committed data could not be downloaded. chunks: by slot (0 for a checkpoint), a missing chunk; None if not known. share: of a
    checkpoint, of which aggregator.
    """

    def __init__(
        self, message: str, chunks: Mapping[int, TensorChunk | None], *, checkpoint: bool = False, share: int = 0
    ) -> None:
        super().__init__(message)
        self.chunks = dict(chunks)
        self.checkpoint = checkpoint
        self.share = share

    def to_dict(self) -> dict[str, Any]:
        places = sorted([slot, place] for slot, place in self.chunks.items())
        return {"checkpoint": self.checkpoint, "share": self.share, "places": places}


class FalseCheckpoint(BadInputs, Retryable):
    """A posted checkpoint does not have the program's tensors. Once its author is convicted, the round starts from another one."""


class NoDevice(NodeError, NeedsOperator):
    """No such device here, or it may not serve this network."""
