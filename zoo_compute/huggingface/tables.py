"""The texts of a column: JSONL, Parquet and CSV files, folders of them, and datasets of the hub, through `datasets`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from zoo_compute.errors import UserError
from zoo_compute.huggingface import library
from zoo_compute.huggingface.places import Place
from zoo_compute.training.examples import TEXT_SUFFIXES

READERS = {".jsonl": "json", ".json": "json", ".parquet": "parquet", ".csv": "csv"}
SUFFIXES = frozenset({".jsonl", ".parquet", ".csv"})  # without a `column` too; .json is text unless it has one
COLUMN = "text"
TEXTS = ("string", "large_string")
BESIDE = frozenset({".json", ".md", ".yaml"})  # what a folder of tables has beside them


def is_folder_of_tables(path: Path) -> bool:
    """Whether a folder has tables, and no text but what describes them."""
    suffixes = {each.suffix for each in path.rglob("*")} if path.is_dir() else set()
    return bool(suffixes & SUFFIXES) and not suffixes & (TEXT_SUFFIXES - BESIDE)


def texts_of(source: Place | Sequence[Path], split: str, subset: str, column: str) -> list[str]:
    """Every text of the column that is not empty, in order. column: empty for `text`, or the only column of text.

    Raises UserError, with the splits or columns that there are.
    """
    table = _load(source, split or "train", subset)
    texts = table[_column(table, column)]
    return [text for text in texts if text]


def _load(source: Place | Sequence[Path], split: str, subset: str) -> Any:
    datasets = library("datasets", "data")
    datasets.disable_progress_bars()
    try:
        if isinstance(source, Place):
            return datasets.load_dataset(source.location, subset or None, split=split, **source.pinned)
        if len(source) == 1 and source[0].is_dir():
            return datasets.load_dataset(str(source[0]), subset or None, split=split)
        return datasets.load_dataset(_reader(source), data_files=[str(path) for path in source], split=split)
    except StopIteration as error:  # what an empty file gives
        raise UserError("data: there are no rows") from error
    except FileNotFoundError as error:
        raise UserError(f"data: {error}") from error
    except ValueError as error:
        raise UserError(f"data.{_key(error)}: {error}") from error
    except (OSError, datasets.exceptions.DatasetGenerationError) as error:
        raise UserError(f"data: cannot be read: {error.__cause__ or error}") from error


def _key(error: ValueError) -> str:
    """The key that a refusal of `load_dataset` is about."""
    text = str(error)
    if "split" in text.lower() or "instruction" in text:
        return "split"
    return "subset" if "config" in text.lower() else "path"


def _reader(paths: Sequence[Path]) -> str:
    for path in paths:
        if not path.exists():
            raise UserError(f"data: there is no {path}")
    readers = {READERS.get(path.suffix, "") for path in paths}
    if len(readers) > 1 or "" in readers:
        names = ", ".join(path.name for path in paths)
        raise UserError(
            f"data: {names}: expected files of one kind", hint=f"give {', '.join(READERS)} files, or a folder"
        )
    return readers.pop()


def _column(table: Any, column: str) -> str:
    names = list(table.column_names)
    textual = [name for name in names if getattr(table.features[name], "dtype", "") in TEXTS]
    column = column or (COLUMN if COLUMN in textual else textual[0] if len(textual) == 1 else "")
    if not column:
        there = f"columns of text are {', '.join(textual)}" if textual else f"none of {', '.join(names)} has text"
        raise UserError(f"data.column: missing; {there}")
    if column not in names:
        raise UserError(f"data.column: there is no column {column!r}; columns are {', '.join(names)}")
    if column not in textual:
        raise UserError(f"data.column: {column!r} has no text; columns of text are {', '.join(textual) or 'missing'}")
    return column
