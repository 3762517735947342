"""The parents of a job that starts from merged branches (docs/protocol/merged-branches.md).

A network partition leaves two or more branches: jobs, or later rounds of a job, that started from the same tensors. The
manifest of the merged job names every branch, so that anyone can recompute its start.
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
    """A job's checkpoint `round`, trained by the rounds from `since` on. All branches had the same tensors at `since`.

    chain: the chain's id; tasks: the address of its TaskRegistry. root: the checkpoint's state root on chain.
    examples: how many examples those rounds trained on, counted from claims (`zoo_compute.training.merge.count_examples`).
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
        """The stated chain, TaskRegistry and job. Two development chains can have equal addresses."""
        return self.chain, self.tasks, self.job

    @property
    def sort_key(self) -> tuple[int, str, int, str]:
        """Branches are summed in this order."""
        return *self.job_address, self.root


@dataclass(frozen=True)
class Parents:
    """base: the state root of the module's tensors from which every branch started."""

    base: str
    branches: tuple[Branch, ...]

    def __post_init__(self) -> None:
        if not _ROOT.fullmatch(self.base):
            raise BadField(f"parents.base: expected 64 lower-case hex digits, got {self.base!r}")
        between("parents.branches", len(self.branches), 2, MAX_BRANCHES)
        orders = [branch.sort_key for branch in self.branches]
        if orders != sorted(set(orders)):
            raise BadField("parents.branches: expected to ascend by chain, tasks, job and root, each once")
