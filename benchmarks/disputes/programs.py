"""The programs that disputes are measured on, and the shapes of a 7B model that is not built. For benchmarks/disputes/dispute.py."""

from __future__ import annotations

import sysconfig
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from benchmarks.disputes.depth import NONE, Depth, depth
from node.compute.programs import Programs
from node.disputes.computation import SlotRound
from repops.graph import Node, Operand
from repops.parts import part_count
from tests.support.explorations.lying_jobs import ROUND, ROWS, Case, case_of, mlp
from tests.support.explorations.operator_table_jobs import GivenBatch, TableCase, sample
from tests.support.programs import models
from zoo_compute.jobs.config import ComputeJob
from zoo_compute.jobs.config_file import read_file
from zoo_compute.jobs.files import initial_checkpoint
from zoo_compute.spec.exploration import Tree, TreePosition
from zoo_compute.training.examples import RepeatedData, prepare_text

CONFIG = Path(__file__).resolve().parents[2] / "scripts" / "demo" / "demo.yaml"
ALONE: dict[str, Any] = {"slots": 1, "slot": 0}
LENGTH = 6  # tokens of an example
GPT_STEPS = 500
GPT_DISPUTED = (0, 10, 133, 269, 499)  # ends and insides of segments
SEGMENT_STEPS = 25  # of the seven billion


@dataclass(frozen=True)
class Program:
    """case: built on first use. steps: of the lies."""

    name: str
    case: Callable[[], Case]
    steps: tuple[int, ...]

    @property
    def has_data(self) -> bool:
        """Whether its batch is the job's data."""
        return not self.name.startswith("table/")


def slot_round(case: Case, folder: Path) -> SlotRound:
    if isinstance(case, TableCase):
        made: SlotRound = case.step_inputs(GivenBatch, folder=folder)
        return made
    programs = Programs(case.graph)
    return SlotRound(case.manifest, programs, case.checkpoint, case.examples, ROUND, case.slot, folder=folder)


def demo_gpt() -> Case:
    """The demo's model, data and optimiser, with more inner steps and the segments that follow from these."""
    config = read_file(CONFIG).content
    config["training"] = config["training"] | {"inner_steps": GPT_STEPS, "segment_steps": None}
    job = ComputeJob.from_dict(config)
    training = job.training
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RepeatedData)
        data = prepare_text(
            Path(sysconfig.get_path("stdlib")), job.context, training.seed, wanted=GPT_STEPS * training.batch_size
        )
    assert job.traced.initial is not None
    return Case(
        job.traced.graph,
        initial_checkpoint(job.traced.graph, job.traced.initial, job.outline().aggregation_spec),
        data.examples,
        inner_steps=GPT_STEPS,
        segment_steps=job.outline().segment_steps,
        rows=training.batch_size,
        **ALONE,
    )


def of_text(made: Callable[[], nn.Module]) -> Case:
    torch.manual_seed(0)
    return case_of(made(), models.text(0, ROWS, LENGTH), models.next_token, models.VOCABULARY, **ALONE)


def conv() -> Case:
    torch.manual_seed(0)
    return case_of(models.ConvNet(), models.images(0, ROWS), nn.functional.cross_entropy, 10, **ALONE)


SAMPLES = ("elementwise", "reductions", "convolutions", "indexed", "exchange", "regression", "lookup", "convolution")
SMALL = tuple(range(5))
PROGRAMS: dict[str, Program] = {
    each.name: each
    for each in (
        Program("gpt", demo_gpt, GPT_DISPUTED),
        Program("llama", partial(of_text, models.Llama), SMALL),
        Program("conv", conv, SMALL),
        Program("lstm", partial(of_text, models.Recurrent), SMALL),
        Program("mlp", partial(mlp, **ALONE), SMALL),
        *(Program(f"table/{name}", partial(sample, name, **ALONE), (0,)) for name in SAMPLES),
    )
}


def seven_billion() -> Depth:
    """32 layers of width 4,096 and 11,008, 32,000 tokens, 4,096 of them in a batch, 500 steps; 40,000 nodes."""
    width, tall, vocabulary, tokens = 4096, 11008, 32000, 4096
    sizes = [
        (vocabulary * width, _dot(tokens)),  # the gradient of the head
        (tokens * vocabulary, _dot(width)),  # logits
        (32 * tokens * tokens, _dot(width // 32)),  # attention
        (width * tall, _dot(tokens)),
        (1, part_count(Node("sum", "f32", (1,), (vocabulary * width,), (_row(),)))),  # the norm of a gradient
    ]
    return depth(GPT_STEPS, SEGMENT_STEPS, 3 * 300, 40_000, sizes)


def _dot(count: int) -> int:
    """Parts of an element of a matrix product."""
    return part_count(Node("dot", "f32", (1,), (count,), (_row(), _row())))


def _row() -> Operand:
    return Operand(0, 0, (0, 1))


def pairs_of(deep: Depth) -> int:
    """Asks and answers of the longest path that begins at a segment leaf of the bundle, from the heights of the trees alone."""
    trees = (
        (Tree.STEPS, deep.steps),
        (Tree.NODES, deep.nodes),
        (Tree.ELEMENTS, deep.elements),
        (Tree.PARTS, deep.parts),
    )
    return sum(1 + _answers_below(tree, height) for tree, height in trees if height != NONE)


def _answers_below(tree: Tree, height: int) -> int:
    """From the opened root of a tree of this height down to a leaf, which is revealed or leads into the next tree."""
    at, count = TreePosition(tree, height, 0, 2**40), 0
    while not at.shows_words and at.height:
        at = replace(at, height=at.height - at.span)
        count += at.height > 0 or at.shows_words
    return count
