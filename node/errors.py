"""What a node refuses, and why.

NodeError               .hint says what to do
├── NodeOutOfMemory     the job does not fit this device; names the sizes
├── BadInputs           fetched content is not what the chain or the manifest committed to
└── NoDevice            the device asked for is absent, or not allowed here
"""

from zoo_compute.errors import NeedsOperator, ZooError


class NodeError(ZooError):
    """Base of what `node` raises on purpose."""


class NodeOutOfMemory(NodeError, NeedsOperator):
    """The device ran out of memory; the message names what the job needs and what there is."""


class BadInputs(NodeError, ValueError):
    """A root, a round, a slot or a shape differs from what was committed."""


class NoDevice(NodeError, NeedsOperator):
    """No such device here, or it may not serve this network."""
