"""The source of a job's module: a built-in model, a function in the submitter's file, live objects, or a program file."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
import traceback
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from repops.fields import BadField, nearest, read
from zoo_compute.errors import UserError
from zoo_compute.huggingface import models as pretrained
from zoo_compute.huggingface.lora import LoraSection
from zoo_compute.huggingface.places import place_of
from zoo_compute.models import ARCHITECTURES, RuleSection
from zoo_compute.models.presets import preset, sized

if TYPE_CHECKING:
    pass

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


def read_model(
    section: Mapping[str, Any], rule: Mapping[str, Any], directory: Path = Path(), *, trains: bool = True
) -> ModelSource:
    """Read the `model:` section. rule: the optimiser keys that `training:` sets. trains: else a live module may be alone. Raises BadField,
    UserError.
    """
    if not trains and not section.keys() & {"module", "program"}:
        rule = {"learning_rate": 1.0, **rule}  # which a map does not use
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
    if not trains and section.keys() == {"module"}:
        return ModelSource(parts=(module,))
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


def call_model_function(source: ModelSource, directory: Path, *, trains: bool = True) -> tuple[Any, ...]:
    """Call the function that `source` names; return module, loss function, optimiser, and perhaps a schedule. Raises UserError.

    trains: else the module is first, perhaps alone.
    """
    function = load_function(source.function, directory)
    _check_options(source, function)
    try:
        parts = function(**source.options)
    except UserError:
        raise
    except Exception as error:
        raise UserError(f"model.module: {source.function}: {describe_error(error)}") from error
    if not trains and not isinstance(parts, tuple):
        return (parts,)
    if not isinstance(parts, tuple) or (trains and len(parts) not in (3, 4)):
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
            run_file(directory / Path(where).expanduser()) if where.endswith(".py") else importlib.import_module(where)
        )
    except FileNotFoundError as error:
        raise UserError(f"model.module: there is no file {error.filename}", hint="give FILE.py:FUNCTION") from error
    except Exception as error:
        raise UserError(f"model.module: {where}: {describe_error(error)}") from error
    function = getattr(module, name, None)
    if not callable(function):
        there = [key for key, value in vars(module).items() if callable(value) and not key.startswith("_")]
        raise UserError(f"model.module: {where} has no function {name!r}; {nearest(name, there)}")
    return function


def run_file(path: Path) -> ModuleType:
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


def describe_error(error: Exception) -> str:
    """The error, with file and line where it was raised."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename != __file__]
    frames = [frame for frame in frames if _is_the_users(frame.filename)] or frames
    at = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {error}{at}"
