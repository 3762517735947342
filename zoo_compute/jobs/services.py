"""A service from its file: its programs traced, and they, the weights and the tokenizer put in a store. No torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from repops import encoding
from repops.commitments import Array, canonical, tensor_roots
from repops.fields import BadField, between, nearest, read
from repops.files import state_pieces
from zoo_compute.errors import UserError
from zoo_compute.huggingface import tokens
from zoo_compute.huggingface.places import Place
from zoo_compute.jobs.config_file import read_file
from zoo_compute.jobs.generation import end_of
from zoo_compute.jobs.model_source import ModelSource, read_model
from zoo_compute.jobs.sections import COLDEST, DataSection, read_section
from zoo_compute.jobs.stored_data import tokenizer_place
from zoo_compute.jobs.submission import read_weights
from zoo_compute.jobs.traced_step import Decoding, TracedStep, trace_served
from zoo_compute.serving.service import (
    BYTES,
    COMPLETIONS,
    KINDS,
    MAX_ROWS,
    MAX_SERVICE_BYTES,
    OUTPUTS,
    ServedProgram,
    Service,
)
from zoo_compute.spec.params import MAX_STEPS
from zoo_compute.store.dag import stream_of
from zoo_compute.store.interface import Store

SECTIONS = ("model", "serve", "data", "weights")
BYTE_TOKENS = 256  # of a model that reads bytes


@dataclass(frozen=True)
class ServeSection:
    """`serve:` how the model answers.

    model: the name that requests use. context: positions of a text, its new tokens included. rows: for each number a program, which
    answers so many texts of one request together. vocabulary: the model's tokens, if it does not say. seed: of weights that are drawn.
    """

    kind: str
    model: str
    context: int
    rows: list[int] = field(default_factory=lambda: [1])
    temperature: float = 0.0
    vocabulary: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise BadField(f"serve.kind: expected {' or '.join(KINDS)}, got {self.kind!r}")
        between("serve.context", self.context, 1, MAX_STEPS)
        if not self.rows or self.rows != sorted(set(self.rows)):
            raise BadField(f"serve.rows: expected one or more numbers in ascending order, got {self.rows}")
        for count in self.rows:
            between("serve.rows", count, 1, MAX_ROWS)
        if self.temperature and (self.kind != COMPLETIONS or not COLDEST <= self.temperature <= 100):
            raise BadField(
                f"serve.temperature: expected 0, or of completions {COLDEST} to 100, got {self.temperature:g}"
            )


@dataclass(frozen=True)
class ServiceFile:
    """A service's file, checked. weights: a file that replaces the module's initial tensors. directory: where relative paths start."""

    serve: ServeSection
    model: ModelSource
    data: DataSection
    weights: Path | None
    directory: Path

    @classmethod
    def of(cls, raw: object, directory: Path = Path()) -> ServiceFile:
        """Raises BadField, UserError."""
        if not isinstance(raw, Mapping):
            raise BadField(f"expected the sections {', '.join(SECTIONS)}, got {raw!r}")
        for name in raw:
            if name not in SECTIONS:
                raise BadField(f"unknown section {name!r}; {nearest(str(name), SECTIONS)}")
        for name in ("model", "serve"):
            if not isinstance(raw.get(name), Mapping):
                raise BadField(f"{name}: expected a section with keys, got {raw.get(name)!r}")
        weights = raw.get("weights")
        if weights is not None and not isinstance(weights, str):
            raise BadField(f"weights: expected the path of a safetensors file, got {weights!r}")
        model = read_model(raw["model"], {}, directory, trains=False)
        if model.program:
            raise BadField("model.program: a service takes a model, whose steps it makes itself, and no program file")
        return cls(
            read(ServeSection, raw["serve"], "serve"),
            model,
            read_section("data", raw.get("data") or {}),
            None if weights is None else directory / Path(weights).expanduser(),
            directory,
        )


def publish_service(path: Path, store: Store, say: Callable[[str], None]) -> tuple[str, Service]:
    """Trace a service's programs, and add them with weights, tokenizer and the service's own file to a store. Returns its CID too.

    Raises JobError with the file's line, UserError.
    """
    file = read_file(path.expanduser())
    try:
        service = _published(ServiceFile.of(file.content, file.path.parent), store, say)
    except BadField as error:
        raise file.locate(UserError(str(error))) from error
    except UserError as error:
        raise file.locate(error) from error
    return store.add(service.to_bytes()), service


def _published(file: ServiceFile, store: Store, say: Callable[[str], None]) -> Service:
    serve, model = file.serve, file.model
    most = model.context
    if most is not None and serve.context > most:
        raise BadField(f"serve.context: {serve.context:,} exceeds the model's {most:,} positions")
    place = tokenizer_place(file.data, model, file.directory)
    tokenizer = None if place is None else tokens.load_tokenizer(place)
    vocabulary = _vocabulary(file, place, tokenizer)
    generates = serve.kind == COMPLETIONS
    end = end_of(model, place) if generates else None
    say(f"tracing {len(serve.rows)} program{'s' if len(serve.rows) > 1 else ''}")
    decoding = Decoding(serve.context, serve.temperature, end) if generates else None
    steps = trace_served(model, serve.rows, serve.context, decoding, seed=serve.seed, directory=file.directory)
    for count, step in zip(serve.rows, steps, strict=True):
        _check_outputs(serve, count, step)
    weights = _weights(file, steps[0], say)
    say("storing programs, weights and tokenizer")
    programs = tuple(
        ServedProgram(count, store.add(encoding.encode(step.graph)), step.root.hex())
        for count, step in zip(serve.rows, steps, strict=True)
    )
    service = Service(
        serve.kind,
        serve.model,
        serve.context,
        vocabulary,
        end,
        BYTES if tokenizer is None else store.add(tokenizer.backend_tokenizer.to_str().encode()),
        store.add(stream_of(state_pieces(weights))),
        {name: root.hex() for name, root in tensor_roots(weights).items()},
        programs,
        serve.temperature,
    )
    if len(service.to_bytes()) > MAX_SERVICE_BYTES:
        raise UserError(
            f"the service's file has {len(service.to_bytes()):,} bytes, at most {MAX_SERVICE_BYTES:,}: it names every tensor",
            hint=f"the model has {len(weights):,} of them; join layers' tensors",
        )
    return service


def _vocabulary(file: ServiceFile, place: Place | None, tokenizer: Any) -> int:
    """The tokens that requests may have. Raises BadField for a model whose number is not known."""
    known = file.model.vocabulary
    if tokenizer is not None:
        assert place is not None
        tokens.check_vocabulary(tokenizer, place, known or file.serve.vocabulary)
        return known or file.serve.vocabulary or len(tokenizer)
    vocabulary = known or file.serve.vocabulary
    if vocabulary is None:
        raise BadField(
            f"serve.vocabulary: missing; the number of tokens that the module knows, {BYTE_TOKENS} for bytes"
        )
    if known and file.serve.vocabulary not in (None, known):
        raise BadField(f"serve.vocabulary: the model has {known:,} tokens; leave it out")
    return vocabulary


def _check_outputs(serve: ServeSection, rows: int, step: TracedStep) -> None:
    """That a step answers a row for each text. Raises UserError."""
    shapes = {entry.name: step.graph.nodes[entry.before].shape for entry in step.graph.state}
    shape = shapes.get(OUTPUTS)
    if serve.kind == COMPLETIONS:
        assert shape == (serve.context, rows)
    elif shape is None or len(shape) != 3 or shape[:2] != (1, rows):
        got = "several tensors" if shape is None else f"a tensor of the shape {shape[1:]}"
        raise UserError(
            f"model: of {rows} texts the module returns {got}; embeddings are one tensor (rows, width)",
            hint="pool over the positions in the module",
        )


def _weights(file: ServiceFile, step: TracedStep, say: Callable[[str], None]) -> dict[str, Array]:
    """The module's tensors, or those of the file. Raises UserError for a file of another module's."""
    drawn = step.initial
    assert drawn is not None
    if file.weights is None:
        return {name: canonical(array) for name, array in drawn.items()}
    weights = read_weights(file.weights, say)
    expected = {name: (array.shape, array.dtype) for name, array in drawn.items()}
    if {name: (array.shape, array.dtype) for name, array in weights.items()} != expected:
        other = sorted(expected.keys() ^ weights.keys()) or ["a tensor of another shape"]
        raise UserError(
            f"weights: {file.weights} does not fit the module: {other[0]}", hint="take the module's own weights"
        )
    return weights
