"""Where the data of a job's file is: its paths, and the arrays of a file of arrays."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from repops.commitments import Array
from repops.fields import BadField
from zoo_compute.errors import UserError
from zoo_compute.huggingface import tokens as tokenizers
from zoo_compute.huggingface.places import Place, place_of
from zoo_compute.jobs.model_source import ModelSource
from zoo_compute.jobs.sections import DataSection
from zoo_compute.training.examples import (
    ARRAY_SUFFIXES,
    Examples,
    prepare_arrays,
    prepare_items,
    read_arrays,
    read_documents,
)


def data_paths(data: DataSection, directory: Path) -> list[Path]:
    """The files and directories of `data:`. directory: the configuration's, where relative paths start."""
    paths = [*([data.path] if data.path else []), *data.paths]
    return [directory / Path(path).expanduser() for path in paths]


def stored_arrays(data: DataSection, directory: Path) -> Examples | None:
    """The data's arrays; None if it is text, or there is none. Raises BadField."""
    if data.arrays is not None:
        return {name: np.asarray(array) for name, array in data.arrays.items()}
    paths = data_paths(data, directory)
    of_arrays = [path for path in paths if path.suffix in ARRAY_SUFFIXES]
    if not of_arrays:
        return None
    if len(paths) > 1:
        raise BadField(f"data: {of_arrays[0].name} is a file of arrays; give it as the only path")
    with _of_data():
        return read_arrays(paths[0])


def tokenizer_place(data: DataSection, model: ModelSource, directory: Path) -> Place | None:
    """Where the tokenizer is: `data.tokenizer`, or the place of the model; None: text is bytes. Raises UserError."""
    if data.tokenizer:
        return place_of(data.tokenizer, directory, tokenizers.KEY)
    if model.source is None:
        return None
    if not isinstance(model.source, Place):
        raise UserError(f"{tokenizers.KEY}: missing", hint="name the folder of the model's tokenizer")
    return model.source


def examples_of(stored: Examples) -> Examples:
    """The examples to train on, in some order. Raises BadField."""
    with _of_data():
        return prepare_arrays(stored, 0, heldout=1).examples


def lines_of(data: DataSection, directory: Path) -> list[str]:
    """The items of a map that are text: the lines that are not empty. Raises BadField."""
    if data.dataset is not None or data.split or data.subset or data.column:
        raise BadField(
            "data: a map takes one array or lines of text; write the column or dataset that you mean to a file"
        )
    paths = data_paths(data, directory)
    if not paths:
        raise BadField("data: missing; give --data, or set `path`")
    with _of_data():
        lines = b"\n".join(read_documents(paths)).decode().splitlines()
    items = [line for line in lines if line.strip()]
    if not items:
        raise BadField(f"data: no line of {', '.join(path.name for path in paths)} has text")
    return items


def rows_of(tokens: Sequence[Sequence[int]], context: int) -> Array:
    """(items, context) int32: each one's first tokens, filled up with 0."""
    rows = np.zeros((len(tokens), context), np.int32)
    for row, each in zip(rows, tokens, strict=True):
        row[: len(each)] = list(each[:context])
    return rows


def array_of_items(stored: Examples) -> Array:
    """The items of a map that are arrays. Raises BadField."""
    with _of_data():
        return prepare_items(stored)


@contextmanager
def _of_data() -> Iterator[None]:
    """Turn a ValueError into a BadField that names the section."""
    try:
        yield
    except ValueError as error:
        raise BadField(f"data: {error}") from error
