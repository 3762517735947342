"""How much memory training a job takes on a node: said by the node that refuses one, and by the client that posts one."""

from __future__ import annotations

from repops.profile import Profile

WORD = 4  # bytes of a float32
ADAM_WORDS = 2  # a parameter's moments


def needed_bytes(profile: Profile) -> int:
    """The state, what a step makes beside it, the checkpoint it started from and the update."""
    return profile.state_bytes + profile.activation_bytes + 3 * WORD * profile.parameters


def least_bytes(parameters: int, optimizer: str) -> int:
    """Of a model that is not traced yet: `needed_bytes` without activations. A step makes the new state beside the old one."""
    state = WORD * parameters * (1 + (ADAM_WORDS if optimizer == "adamw" else 0))
    return 2 * state + 3 * WORD * parameters
