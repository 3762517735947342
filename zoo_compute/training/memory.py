"""The memory that a job needs on a node. Nodes use it to refuse a job, clients to warn before posting one."""

from __future__ import annotations

from repops.profile import Profile

WORD = 4  # bytes of a float32
ADAM_WORDS = 2  # a parameter's moments


def needed_bytes(profile: Profile) -> int:
    """The state, a step's activations, the start checkpoint and the update."""
    return profile.state_bytes + profile.activation_bytes + 3 * WORD * profile.parameters


def least_bytes(parameters: int, optimizer: str) -> int:
    """A lower bound for a model that is not traced yet: `needed_bytes` without activations. A step keeps the old and the new state."""
    state = WORD * parameters * (1 + (ADAM_WORDS if optimizer == "adamw" else 0))
    return 2 * state + 3 * WORD * parameters
