"""The source of a job's step, and tracing it to a program: a built-in model, a function in the submitter's file, live
objects, or a program file.

The submitter's code runs once, on the submitter's machine. The network gets only the program.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import logging
import sys
import traceback
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from repops import encoding
from repops.commitments import Array
from repops.fields import BadField, nearest, read
from repops.graph import OPTIMIZER, BadProgram, Graph, Node
from repops.profile import Profile, profile
from zoo_compute.documentation import address
from zoo_compute.errors import UserError
from zoo_compute.huggingface import models as pretrained
from zoo_compute.huggingface.lora import LoraSection
from zoo_compute.huggingface.places import place_of
from zoo_compute.jobs.torch_schedules import schedule_of
from zoo_compute.models import ARCHITECTURES, RuleSection
from zoo_compute.models.presets import preset, sized
from zoo_compute.training.rounds import batch_nodes
from zoo_compute.training.schedules import factors_of

if TYPE_CHECKING:
    from zoo_compute.jobs.sections import TrainingSection

TORCH_MISSING = "pip install 'zoo-compute[node]', or use a program file (model.program) with --weights FILE"
OURS = tuple(Path(__file__).parents[2] / name for name in ("zoo_compute", "repops"))
FORM = "expected (module, loss_fn, optimizer), and perhaps a scheduler of torch: a step minimises loss_fn(module(inputs), targets); loss_fn None: the cross entropy of a Hugging Face model's logits"


@dataclass(frozen=True)
class ModelSource:
    """`model:` of a job, one of: function (`path.py:name` or `package.module:name`) with options, parts (module, loss, optimizer and
    perhaps its schedule), program (a path).

    parameters: of a built-in model, counted without making it; of others None. source: of a model of `transformers`, its Place
    or the model itself.
    """

    function: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    parts: tuple[Any, ...] | None = None
    program: str = ""
    parameters: int | None = None
    source: Any = None

    @property
    def built_in(self) -> bool:
        return self.function.startswith("zoo_compute.models.")

    @property
    def context(self) -> int | None:
        """Tokens per example of text, if the model's options or its configuration set it."""
        if self.source is not None:
            return pretrained.context_of(self.source)
        tokens = self.options.get("context")
        return tokens if isinstance(tokens, int) else None

    def check_context(self, tokens: int | None) -> int | None:
        """`data.context`, or the model's own. Raises UserError for more than a model of `transformers` has positions."""
        most = self.context
        if self.source is not None and most and tokens and tokens > most:
            raise UserError(f"data.context: {tokens:,} exceeds the model's {most:,} positions")
        return tokens or most

    @property
    def vocabulary(self) -> int | None:
        """The number of tokens that the model knows; None for a module or a program of the submitter's."""
        if self.source is not None:
            return pretrained.vocabulary_of(self.source)
        return int(self.options["vocab"]) if self.built_in else None


def read_model(section: Mapping[str, Any], rule: Mapping[str, Any], directory: Path = Path()) -> ModelSource:
    """Read the `model:` section. rule: the optimiser keys that `training:` sets. Raises BadField, UserError."""
    named = [key for key in ("architecture", "module", "program", "transformers") if key in section]
    if len(named) > 1:
        raise BadField(f"model: {' and '.join(named)} exclude each other")
    if "transformers" in section:
        return _pretrained(section, rule, directory)
    if "module" not in section and "program" not in section:
        return _built_in(section, rule)
    if rule:
        key = next(iter(rule))
        raise BadField(
            f"training.{key}: your module brings its own optimizer; set it there, or pass it to the function under `model:`"
        )
    if "program" in section:
        return ModelSource(program=_single_path(section, "program"))
    module = section["module"]
    if isinstance(module, str):
        if ":" not in module:
            raise BadField(f"model.module: expected FILE.py:FUNCTION, got {module!r}")
        return ModelSource(function=module, options={key: value for key, value in section.items() if key != "module"})
    beside = section.keys() - {"module", "scheduler"}
    if beside != {"loss", "optimizer"}:
        raise BadField(
            f"model: a live module needs `loss` and `optimizer` beside it, and perhaps `scheduler`, got {sorted(section)}"
        )
    parts = (module, section["loss"], section["optimizer"])
    return ModelSource(parts=(*parts, section["scheduler"]) if "scheduler" in section else parts)


def _built_in(section: Mapping[str, Any], rule: Mapping[str, Any]) -> ModelSource:
    if "name" in section:
        rule = {"learning_rate": preset(section["name"]).learning_rate, **rule}
    section = sized(section)
    name = section.get("architecture", "gpt")
    if name not in ARCHITECTURES:
        raise BadField(f"model.architecture: unknown {name!r}; {nearest(str(name), ARCHITECTURES)}")
    sizes = read(ARCHITECTURES[name], section, "model")
    options = asdict(sizes) | asdict(read(RuleSection, rule, "training"))
    del options["architecture"]
    return ModelSource(f"zoo_compute.models.{name}:build", options, parameters=sizes.parameters)


def _pretrained(section: Mapping[str, Any], rule: Mapping[str, Any], directory: Path) -> ModelSource:
    model = section["transformers"]
    strange = sorted(section.keys() - {"transformers", "lora"})
    if strange:
        raise BadField(f"model: unknown key {strange[0]!r} beside transformers, which allows `lora` alone")
    if isinstance(model, (str, Path)):
        model = place_of(str(model), directory, pretrained.KEY)
    elif not hasattr(model, "save_pretrained"):
        raise BadField(f"{pretrained.KEY}: expected a folder, a name of the hub or a model, got {type(model).__name__}")
    options = asdict(read(RuleSection, rule, "training"))
    if "lora" in section:
        options["lora"] = read(LoraSection, section["lora"] or {}, "model.lora")
    return ModelSource("zoo_compute.huggingface.models:build", {"source": model, **options}, source=model)


def _single_path(section: Mapping[str, Any], key: str) -> str:
    if len(section) > 1 or not isinstance(section[key], (str, Path)):
        raise BadField(f"model: {key} names a file and allows no other key, got {sorted(section)}")
    return str(section[key])


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
    try:
        import torch
    except ImportError as error:
        raise UserError("tracing a module needs torch, which is not installed", hint=TORCH_MISSING) from error
    import repops
    from repops.tracing import TraceRefused

    def make(device: str) -> tuple[Any, ...]:
        with torch.random.fork_rng(devices=[]), torch.device(device):
            torch.manual_seed(seed)
            return source.parts or call_model_function(source, directory)

    module, loss_fn, optimizer, *scheduler = make("meta" if source.built_in else "cpu")
    factors = schedule_of(scheduler[0], optimizer, rule) if scheduler else ()
    if rule.schedule:
        factors = factors_of(rule.schedule, rule.warmup, rule.steps)
    inputs, targets = (torch.from_numpy(array) for array in batch)
    inputs, targets = (t.long() if t.dtype == torch.int32 else t for t in (inputs, targets))
    rates = None if rule.rates is None else [factor * optimizer.param_groups[0]["lr"] for factor in rule.rates]
    # It prints a traceback of its own before it raises.
    logging.getLogger("torch._subclasses").setLevel(logging.CRITICAL)
    try:
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
    except TraceRefused as refused:
        where = f"{refused.site}: " if refused.site else ""
        instead = f"instead: {refused.hint}; " if refused.hint else ""
        hint = f"{instead}{address('guides/tracing')} says what can be traced"
        raise UserError(f"the module cannot be traced: {where}{refused.what}", hint=hint) from refused
    except Exception as error:
        raise UserError(f"the module does not run on a batch: {_describe_error(error)}") from error
    kept = [entry.name for entry in program.graph.state if entry.kind != OPTIMIZER]

    def drawn(module: Any) -> dict[str, Array]:
        state = program.initial_state(module)
        return {name: np.array(state[name].numpy()) for name in kept}

    if source.built_in:
        return TracedStep(program.graph, lambda: drawn(make("cpu")[0]), factors=factors)
    initial = drawn(module)
    return TracedStep(program.graph, lambda: initial, pretrained.configs_of(module), factors)


def call_model_function(source: ModelSource, directory: Path) -> tuple[Any, ...]:
    """Call the function that `source` names; return module, loss function, optimiser, and perhaps a schedule. Raises UserError."""
    function = load_function(source.function, directory)
    _check_options(source, function)
    try:
        parts = function(**source.options)
    except UserError:
        raise
    except Exception as error:
        raise UserError(f"model.module: {source.function}: {_describe_error(error)}") from error
    if not isinstance(parts, tuple) or len(parts) not in (3, 4):
        raise UserError(f"model.module: {source.function} returned {type(parts).__name__}", hint=FORM)
    return parts


def _check_options(source: ModelSource, function: Callable[..., Any]) -> None:
    """That the function takes the options by these names. Raises UserError."""
    try:
        taken = inspect.signature(function).parameters
    except (TypeError, ValueError):  # of what has no signature
        return
    if any(each.kind == each.VAR_KEYWORD for each in taken.values()):
        return
    for name in source.options.keys() - taken.keys():
        raise UserError(f"model.{name}: {source.function} takes no such argument; {nearest(name, taken)}")


def load_function(reference: str, directory: Path) -> Callable[..., Any]:
    """Load the function `path.py:name` (relative to `directory`) or `package.module:name`. Runs its file. Raises UserError."""
    where, _, name = reference.rpartition(":")
    try:
        module = (
            _run_file(directory / Path(where).expanduser()) if where.endswith(".py") else importlib.import_module(where)
        )
    except FileNotFoundError as error:
        raise UserError(f"model.module: there is no file {error.filename}", hint="give FILE.py:FUNCTION") from error
    except Exception as error:
        raise UserError(f"model.module: {where}: {_describe_error(error)}") from error
    function = getattr(module, name, None)
    if not callable(function):
        there = [key for key, value in vars(module).items() if callable(value) and not key.startswith("_")]
        raise UserError(f"model.module: {where} has no function {name!r}; {nearest(name, there)}")
    return function


def _run_file(path: Path) -> ModuleType:
    """Import a file by its path. It can import its neighbours."""
    if not path.is_file():
        raise FileNotFoundError(2, "no such file", str(path))
    spec = importlib.util.spec_from_file_location(f"_zoo_job_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look up their module
    sys.path.insert(0, str(path.parent))
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(path.parent))
    return module


def _is_the_users(file: str) -> bool:
    """Whether a frame is in neither our packages, nor installed ones, nor Python's own loader."""
    parts = Path(file).parts
    return (
        not file.startswith("<")
        and "site-packages" not in parts
        and not any(Path(file).is_relative_to(each) for each in OURS)
    )


def _describe_error(error: Exception) -> str:
    """The error, with file and line where it was raised."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename != __file__]
    frames = [frame for frame in frames if _is_the_users(frame.filename)] or frames
    at = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {error}{at}"
