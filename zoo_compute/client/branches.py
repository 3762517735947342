"""Branches of a network partition: read them from their chains and stores, merge them, and check a merge."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from repops import encoding, files
from repops.commitments import Array, state_root
from repops.graph import BadProgram, Graph
from zoo_compute.client.results import TIMEOUT_S, load_checkpoint, manifest_of, module_tensors
from zoo_compute.errors import UserError
from zoo_compute.formats.lineage import Branch, Parents
from zoo_compute.formats.manifest import Manifest, ProgramFile
from zoo_compute.jobs.files import initial_checkpoint
from zoo_compute.store import ContentTampered, Store
from zoo_compute.training.merge import Merge, count_examples, merge_tensors
from zoo_compute.training.shapes import shape_mismatch

if TYPE_CHECKING:
    from zoo_compute.chain.network import Network
    from zoo_compute.chain.views import JobView


@dataclass(frozen=True)
class LoadedBranch:
    """A branch with its tensors, verified against the chain's roots.

    base, end: the module's tensors at its first and last checkpoint. roots: of all checkpoints of its job.
    """

    branch: Branch
    program: ProgramFile
    step: Graph
    base: dict[str, Array]
    end: dict[str, Array]
    roots: frozenset[str]

    @property
    def base_root(self) -> str:
        return state_root(self.base).hex()

    def __str__(self) -> str:
        return f"job {self.branch.job} of chain {self.branch.chain}"


@dataclass(frozen=True)
class LineageReport:
    """start: the root that the job must start from, None if a branch cannot be read. differences: empty if all agrees."""

    start: str | None
    differences: tuple[str, ...]

    @property
    def matches(self) -> bool:
        return not self.differences


def load_branch(
    network: Network, view: JobView, store: Store, since: int = 0, round_: int | None = None
) -> LoadedBranch:
    """Read a job's rounds from checkpoint `since` to `round_`, by default the newest final one, as a branch.

    Raises UserError if the rounds are not a branch, ContentTampered; the store's errors pass.
    """
    end, final = view.final_rounds if round_ is None else round_, view.final_rounds
    if not since < end <= final:
        wanted = (
            f"no final checkpoint after {since}" if round_ is None else f"no rounds from {since} to {end}, all final"
        )
        raise UserError(
            f"job {view.job} has {wanted}: {view.completed_rounds} exist, {final} are final",
            hint="a checkpoint is final when the challenge windows of its claims are over: `zoo job watch JOB --settled`",
        )
    manifest = manifest_of(view, store)
    if manifest.is_map:
        raise UserError(f"job {view.job} maps a module over items: it has no branch to merge")
    examples = count_examples(view.slot_rounds(since, end), manifest)
    if examples == 0:
        raise UserError(f"job {view.job}: no training since checkpoint {since} counts")
    step = _step(store, manifest)
    first, last = (_branch_tensors(view, store, number, manifest, step) for number in (since, end))
    tasks, root = network.contracts["tasks"], view.checkpoint_roots[end].hex()
    branch = Branch(network.chain_id, tasks, view.job, since, end, root, examples)
    roots = frozenset(root.hex() for root in view.checkpoint_roots.values())
    return LoadedBranch(branch, manifest.program, step, first, last, roots)


def merge_branches(branches: Sequence[LoadedBranch], path: str | Path | None = None) -> tuple[Merge, dict[str, Array]]:
    """The merged start of these branches, and the module's tensors there; written to `path` as safetensors.

    Raises UserError for branches with different programs or bases.
    """
    ordered = sorted(branches, key=lambda each: each.branch.sort_key)
    if len(ordered) < 2:
        raise UserError("a merge needs two or more branches")
    for one, other in itertools.combinations(ordered, 2):
        if (
            one.branch.job_address == other.branch.job_address
            and {one.branch.root, other.branch.root} & one.roots & other.roots
        ):
            raise UserError(f"two of the branches are {one}: its examples would count twice")
    first = ordered[0]
    for other in ordered[1:]:
        if other.program.root != first.program.root:
            raise UserError(f"{other} runs another program than {first}: their tensors cannot be merged")
        if other.base_root != first.base_root:
            raise UserError(
                f"checkpoint {other.branch.since} of {other} differs from checkpoint {first.branch.since} of {first}: "
                "they are not branches of one training",
                hint="JOB:ROUND names the checkpoint where a job split off; the default is its initial state",
            )
    tensors = merge_tensors(
        first.base, [each.end for each in ordered], [each.branch.examples for each in ordered], first.step.exchanged
    )
    parents = Parents(first.base_root, tuple(each.branch for each in ordered))
    if path is not None:
        files.save_state(path, tensors)
    return Merge(state_root(tensors).hex(), parents), tensors


def check_lineage(manifest: Manifest, initial_root: bytes, load: Callable[[Branch], LoadedBranch]) -> LineageReport:
    """Whether a job starts from the merge of its parents, recomputed from the branches.

    initial_root: of its initial state, on chain. load: reads a branch from its network. Its UserError is a difference; the store's errors pass.
    """
    if manifest.parents is None:
        raise UserError("the job has no parents in its manifest")
    parents, loaded, differences = manifest.parents, list[LoadedBranch](), list[str]()
    if initial_root != manifest.state_root:
        differences.append(f"the job starts at {initial_root.hex()} on chain, at {manifest.state.root} in its manifest")
    for branch in parents.branches:
        try:
            loaded.append(load(branch))
        except UserError as error:
            differences.append(f"job {branch.job} of chain {branch.chain}: {error}")
            continue
        differences += _differences(parents, branch, loaded[-1], manifest)
    if len(loaded) < len(parents.branches) or len({(each.program.root, each.base_root) for each in loaded}) > 1:
        return LineageReport(None, tuple(differences))
    try:
        made, tensors = merge_branches(loaded)
    except UserError as error:
        return LineageReport(None, (*differences, str(error)))
    start = state_root(initial_checkpoint(loaded[0].step, tensors, manifest.aggregation_spec)).hex()
    if start != manifest.state.root:
        differences.append(f"the job starts at {manifest.state.root}; its branches merge to {start}")
    assert made.parents == parents or differences, "each difference is reported"
    return LineageReport(start, tuple(differences))


def _differences(parents: Parents, branch: Branch, loaded: LoadedBranch, manifest: Manifest) -> list[str]:
    """How a branch differs from the manifest."""
    pairs = (
        ("checkpoint root", branch.root, loaded.branch.root),
        ("examples", branch.examples, loaded.branch.examples),
        ("base", parents.base, loaded.base_root),
        ("program", manifest.program.root, loaded.program.root),
    )
    return [f"{loaded}: {what} is {has}, the manifest says {says}" for what, says, has in pairs if says != has]


def _step(store: Store, manifest: Manifest) -> Graph:
    cid = manifest.program.cid
    try:
        step = encoding.decode(store.read(cid, max_bytes=encoding.MAX_BYTES, timeout_s=TIMEOUT_S))
    except BadProgram as error:
        raise ContentTampered(f"the program {cid} is invalid: {error}") from error
    if encoding.root(step) != manifest.program_root:
        raise ContentTampered(f"the program {cid} has another root than the manifest says")
    return step


def _branch_tensors(view: JobView, store: Store, round_: int, manifest: Manifest, step: Graph) -> dict[str, Array]:
    state = load_checkpoint(view, store, round_)
    mismatch = shape_mismatch(state, step, manifest.aggregation_spec)
    if mismatch:
        raise ContentTampered(f"checkpoint {round_} of job {view.job} does not fit its program: {mismatch}")
    return module_tensors(state)
