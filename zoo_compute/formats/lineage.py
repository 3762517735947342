"""What a merged job's manifest says of where it begins (docs/protocol.md, 'Merged branches').

A partition leaves two or more branches: jobs, or the later rounds of a job, that began at the same tensors. Who merges
them names every branch here, so that anybody can compute the start again.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from repops.fields import BadField, between

MAX_BRANCHES = 16
MAX_EXAMPLES = 2**96 - 1
_ROOT = re.compile(r"[0-9a-f]{64}")
_ADDRESS = re.compile(r"0x[0-9a-fA-F]{40}")


@dataclass(frozen=True)
class Branch:
    """A job's checkpoint `round`, which its rounds from `since` on made of what all branches began with.

    chain: the id of its chain; tasks: the address of the TaskRegistry there. root: of the checkpoint, as on chain.
    examples: that those rounds trained on, as the chain's claims tell (`zoo_compute.training.merge.examples_of`).
    """

    chain: int
    tasks: str
    job: int
    since: int
    round: int
    root: str
    examples: int

    def __post_init__(self) -> None:
        between("branch.chain", self.chain, 1, 2**64 - 1)
        between("branch.job", self.job, 1, 2**64 - 1)
        between("branch.since", self.since, 0, 2**32)
        between("branch.round", self.round, self.since + 1, 2**32)
        between("branch.examples", self.examples, 1, MAX_EXAMPLES)
        if not _ADDRESS.fullmatch(self.tasks):
            raise BadField(f"branch.tasks: expected an address, got {self.tasks!r}")
        if not _ROOT.fullmatch(self.root):
            raise BadField(f"branch.root: expected 64 lower-case hex digits, got {self.root!r}")

    @property
    def job_address(self) -> tuple[int, str, int]:
        """Where it is said to be: two development chains have equal addresses."""
        return self.chain, self.tasks, self.job

    @property
    def sort_key(self) -> tuple[int, str, int, str]:
        """Branches are added up in this order."""
        return *self.job_address, self.root


@dataclass(frozen=True)
class Parents:
    """base: the state root of the module's tensors that every branch began with."""

    base: str
    branches: tuple[Branch, ...]

    def __post_init__(self) -> None:
        if not _ROOT.fullmatch(self.base):
            raise BadField(f"parents.base: expected 64 lower-case hex digits, got {self.base!r}")
        between("parents.branches", len(self.branches), 2, MAX_BRANCHES)
        orders = [branch.sort_key for branch in self.branches]
        if orders != sorted(set(orders)):
            raise BadField("parents.branches: expected to ascend by chain, tasks, job and root, each once")
