"""Tracing a job's module, to train it or to map it over items, into the program of a step; or reading that from a file.

The submitter's code runs once, on the submitter's machine. The network gets only the program.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from repops import encoding
from repops.commitments import Array
from repops.graph import OPTIMIZER, BadProgram, Graph, Node
from repops.profile import Profile, profile
from zoo_compute.documentation import address
from zoo_compute.errors import UserError
from zoo_compute.huggingface import models as pretrained
from zoo_compute.jobs.model_source import ModelSource, call_model_function, describe_error
from zoo_compute.jobs.torch_schedules import schedule_of
from zoo_compute.models.decoding_inputs import ASKED
from zoo_compute.training.rounds import batch_nodes
from zoo_compute.training.schedules import factors_of

if TYPE_CHECKING:
    from repops.program import Program
    from zoo_compute.jobs.generation import Generation
    from zoo_compute.jobs.sections import TrainingSection
    from zoo_compute.models.asked import Asked

TORCH_MISSING = "pip install 'zoo-compute[node]', or use a program file (model.program) with --weights FILE"


@dataclass(frozen=True)
class TracedStep:
    """A step's program. draw: makes the module's initial tensors; None for a program file. configs: of a model of `transformers`.
    factors: of the learning rate, for each inner step of all rounds; empty without a schedule.
    """

    graph: Graph
    draw: Callable[[], dict[str, Array]] | None
    configs: tuple[Any, ...] = ()
    factors: tuple[float, ...] = ()

    @cached_property
    def initial(self) -> dict[str, Array] | None:
        """The module's tensors before the first round."""
        return self.draw() if self.draw else None

    @cached_property
    def root(self) -> bytes:
        return encoding.root(self.graph)

    @cached_property
    def profile(self) -> Profile:
        return profile(self.graph)

    @property
    def batch(self) -> dict[str, Node]:
        """The inputs of the batch by name."""
        return batch_nodes(self.graph)


@dataclass(frozen=True)
class StepOptions:
    """What `training:` adds to the module's optimiser. rates: factors of the learning rate by inner step; the last one stays.
    steps: of a slot in all rounds. schedule, warmup: of the factors over all of them; empty without one.
    """

    clip_norm: float | None
    rates: tuple[float, ...] | None
    accumulate: int
    steps: int = 0
    schedule: str = ""
    warmup: int = 0

    @classmethod
    def of(cls, training: TrainingSection) -> StepOptions:
        kind = training.lr_scheduler_type if training.is_scheduled else ""
        clip_norm, warmup = training.clip_norm or None, training.warmup_steps
        return cls(clip_norm, training.rates, training.accumulate, training.steps, kind, warmup)


def load_program(path: Path) -> TracedStep:
    """Read a program file. Raises UserError."""
    try:
        return TracedStep(encoding.decode(path.read_bytes()), None)
    except OSError as error:
        raise UserError(f"model.program: {path} cannot be read ({error.strerror})") from error
    except BadProgram as error:
        raise UserError(f"model.program: {path}: {error}", hint="write it with `repops.save(program, path)`") from error


def trace_module(
    source: ModelSource, batch: tuple[Array, Array], rule: StepOptions, *, seed: int, directory: Path
) -> TracedStep:
    """Make the module with initial weights from `seed`, and trace its step on a batch like `batch`. Raises UserError.

    A built-in model is traced without weights; they are drawn when first used. So a quote of any size fits in memory.
    """
    torch, made = _torch(), _Maker(source, directory, seed)
    import repops

    module, loss_fn, optimizer, *scheduler = made.parts()
    factors = schedule_of(scheduler[0], optimizer, rule) if scheduler else ()
    if rule.schedule:
        factors = factors_of(rule.schedule, rule.warmup, rule.steps)
    inputs, targets = (torch.from_numpy(array) for array in batch)
    inputs, targets = (t.long() if t.dtype == torch.int32 else t for t in (inputs, targets))
    rates = None if rule.rates is None else [factor * optimizer.param_groups[0]["lr"] for factor in rule.rates]
    with _tracing():
        program = repops.trace(
            module,
            loss_fn,
            optimizer,
            (inputs, targets),
            clip_norm=rule.clip_norm,
            learning_rates=rates,
            accumulate=rule.accumulate,
            scheduled=bool(factors),
        )
    return made.step(program, module, factors)


def trace_items(
    source: ModelSource,
    items: Array,
    batch_size: int,
    steps: int,
    *,
    seed: int,
    directory: Path,
    generation: Generation | None = None,
) -> TracedStep:
    """Make the module with initial weights from `seed`, in eval mode, and trace its map of a batch of items. Raises UserError.

    Loss and optimizer, which a function for training returns beside the module, are not used. generation: the module is a causal model,
    and its decoding step is traced.
    """
    torch, made = _torch(), _Maker(source, directory, seed, trains=False)
    import repops

    module = made.module("map")
    inputs = torch.from_numpy(np.zeros((batch_size, *items.shape[1:]), items.dtype))
    decoding = None
    if generation is not None:
        decoding = Decoding(generation.steps, generation.section.temperature or 0.0, generation.end)
    with _tracing(), _evaluated(module):
        mapped, fresh = _decoding_step(module, decoding, batch_size)
        inputs = inputs.long() if inputs.dtype == torch.int32 else inputs
        program = repops.trace_map(mapped, inputs, steps, fresh=fresh)
    return made.step(program, module)


def trace_served(
    source: ModelSource, rows: Sequence[int], context: int, decoding: Decoding | None, *, seed: int, directory: Path
) -> list[TracedStep]:
    """The module, in eval mode, as the step that a service runs on what its state was asked: for each number of rows. Raises UserError.

    decoding: of a causal model; else the module maps tokens (rows, context) to vectors (rows, width).
    """
    torch, made = _torch(), _Maker(source, directory, seed, trains=False)
    import repops
    from zoo_compute.models.asked import STEP, Asked

    module, steps = made.module("serve"), []
    for count in rows:
        shape = (context, count) if decoding else (1, count, context)

        def asked(module: Any, shape: tuple[int, ...] = shape) -> Asked:
            return Asked(module, shape).eval()

        with _tracing(), _evaluated(module):
            answering, fresh = _decoding_step(module, decoding, count)
            zeros = torch.zeros(shape[1:], dtype=torch.int64)
            program = repops.trace_map(asked(answering), zeros, shape[0], fresh=(*fresh, STEP))
        steps.append(made.step(program, module, asked=asked))
    return steps


@contextmanager
def _evaluated(module: Any) -> Iterator[None]:
    """In eval mode meanwhile: a live module is the caller's."""
    modes = {each: each.training for each in module.modules()}
    module.eval()
    try:
        yield
    finally:
        for each, training in modes.items():
            each.training = training


@dataclass(frozen=True)
class Decoding:
    """How a causal model goes on. positions: of its cache; end: the end-of-text token; None: no such token."""

    positions: int
    temperature: float
    end: int | None


def _decoding_step(module: Any, decoding: Decoding | None, batch_size: int) -> tuple[Any, tuple[str, ...]]:
    """What is traced, and the names of its buffers that begin at zero. Raises UserError."""
    if decoding is None:
        return module, ()
    from zoo_compute.huggingface.generation import decoding_of as pretrained_decoding
    from zoo_compute.huggingface.generation import is_pretrained
    from zoo_compute.models.generation import Generator, decoding_of
    from zoo_compute.models.sampling import Sampling

    parts_of = pretrained_decoding if is_pretrained(module) else decoding_of
    sampling = Sampling(decoding.temperature)
    generator = Generator(module, *parts_of(module, decoding.positions), batch_size, sampling, decoding.end).eval()
    return generator, generator.fresh


def _torch() -> Any:
    """The package. Raises UserError."""
    try:
        import torch
    except ImportError as error:
        raise UserError("tracing a module needs torch, which is not installed", hint=TORCH_MISSING) from error
    return torch


@contextmanager
def _tracing() -> Iterator[None]:
    """Turn what tracing raises into a UserError."""
    from repops.tracing import TraceRefused

    # It prints a traceback of its own before it raises.
    logging.getLogger("torch._subclasses").setLevel(logging.CRITICAL)
    try:
        yield
    except TraceRefused as refused:
        where = f"{refused.site}: " if refused.site else ""
        instead = f"instead: {refused.hint}; " if refused.hint else ""
        hint = f"{instead}{address('guides/tracing')} says what can be traced"
        raise UserError(f"the module cannot be traced: {where}{refused.what}", hint=hint) from refused
    except UserError:
        raise
    except Exception as error:
        raise UserError(f"the module does not run on a batch: {describe_error(error)}") from error


@dataclass(frozen=True)
class _Maker:
    """Makes a source's module with weights from a seed. trains: else loss function and optimizer may be missing."""

    source: ModelSource
    directory: Path
    seed: int
    trains: bool = True

    def parts(self, device: str = "") -> tuple[Any, ...]:
        """Module, loss function, optimizer, and perhaps a schedule; of a map perhaps the module alone. A built-in one without weights."""
        torch, source = _torch(), self.source
        with torch.random.fork_rng(devices=[]), torch.device(device or ("meta" if source.built_in else "cpu")):
            torch.manual_seed(self.seed)
            return source.parts or call_model_function(source, self.directory, trains=self.trains)

    def module(self, purpose: str) -> Any:
        """The module alone. Raises UserError for anything else."""
        module = self.parts()[0]
        if not isinstance(module, _torch().nn.Module):
            raise UserError(f"model.module: expected a module of torch to {purpose}, got {type(module).__name__}")
        return module

    def step(
        self,
        program: Program,
        module: Any,
        factors: tuple[float, ...] = (),
        *,
        asked: Callable[[Any], Asked] | None = None,
    ) -> TracedStep:
        """The traced step, with what draws the module's tensors. asked: adds what a service is asked, which is no tensor of the module."""
        kept = [
            entry.name
            for entry in program.graph.state
            if entry.kind != OPTIMIZER and not (asked and entry.name == ASKED)
        ]

        def drawn(module: Any) -> dict[str, Array]:
            state = program.initial_state(asked(module) if asked else module)
            return {name: np.array(state[name].numpy()) for name in kept}

        if self.source.built_in:
            return TracedStep(program.graph, lambda: drawn(self.parts("cpu")[0]), factors=factors)
        initial = drawn(module)
        return TracedStep(program.graph, lambda: initial, pretrained.configs_of(module), factors)
