"""Training data: cut into examples, shuffled once, split into training and held-out parts, gathered into batches. numpy only.

Examples are named arrays whose first axis counts them, float32 or int32: `tokens` (E, T+1) for text, or the names of the
program's batch, `inputs` and `targets`; of a scheduled job also `rate` (zoo_compute.training.schedules). Their order is part of the job: `data_root` commits to it, and it decides which slot
trains on which examples.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from repops.commitments import Array
from repops.files import FileRefused, load_state

TOKENS, INPUTS, TARGETS = "tokens", "inputs", "targets"
TEXT = "bytes"  # the array's name where text is stored as arrays: a contributed dataset, or a file
ARRAY_SUFFIXES = (".npz", ".safetensors")
TEXT_SUFFIXES = frozenset({".py", ".txt", ".md", ".rst", ".text", ".json", ".yaml", ".c", ".h"})
SKIPPED = frozenset({"site-packages", "dist-packages", "node_modules", "__pycache__"})
MAX_TEXT_BYTES = 512 * 2**20
MAX_FILE_BYTES = 16 * 2**20


class Rows(Protocol):
    """An array, or what reads its rows when they are asked for (repops.pieces.PiecedTensor)."""

    @property
    def dtype(self) -> np.dtype[Any]: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def ndim(self) -> int: ...
    def __len__(self) -> int: ...
    def __getitem__(self, index: Any) -> Array: ...


Examples = dict[str, Array]
ExampleRows = Mapping[str, Rows]


class Dataset(NamedTuple):
    """Training and held-out examples: same names, dtypes and shapes except for the first axis."""

    examples: Examples
    heldout: Examples


class RepeatedData(UserWarning):
    """The text is shorter than the run: some examples are trained on more than once."""


def prepare_text(
    sources: bytes | str | Path | Iterable[str | Path],
    context: int,
    seed: int,
    *,
    wanted: int | None = None,
    minimum: int = 1,
    heldout: int = 128,
    skip: int = 0,
) -> Dataset:
    """Cut text into windows of context + 1 bytes, shuffle them, and set `heldout` of them aside.

    sources: the bytes themselves, or files and directories. wanted: how many examples the run uses
    (`ComputeJob.examples_wanted`); more text is sampled down to this many, less text emits a RepeatedData warning. skip: how
    many examples earlier runs of the same seed used: they come last.
    Raises ValueError for fewer than `minimum` examples (`ComputeJob.examples_of_a_round`).
    """
    text = sources if isinstance(sources, bytes) else read_text(sources)
    row = np.frombuffer(text, dtype=np.uint8)
    return prepare_tokens(row, context, seed, wanted=wanted, minimum=minimum, heldout=heldout, skip=skip, unit="bytes")


def prepare_tokens(
    row: Array,
    context: int,
    seed: int,
    *,
    wanted: int | None = None,
    minimum: int = 1,
    heldout: int = 128,
    skip: int = 0,
    unit: str = "tokens",
) -> Dataset:
    """Like `prepare_text`, for a text that is tokens already: row (tokens,)."""
    if context < 1 or heldout < 1:
        raise ValueError(f"expected context and heldout of at least 1, got {context} and {heldout}")
    count = len(row) // (context + 1)
    if count < minimum + heldout:
        raise ValueError(
            f"too little text: {len(row):,} {unit} make {max(0, count - heldout):,} examples of {context + 1} {unit} "
            f"beside {heldout:,} held out; one round needs {minimum:,}. Add text (at least "
            f"{(minimum + heldout) * (context + 1):,} {unit}), or lower slots, inner_steps, batch_size or context"
        )
    windows = row[: count * (context + 1)].reshape(count, context + 1)
    return _split({TOKENS: windows}, count, seed, wanted=wanted, heldout=heldout, skip=skip, what="the text makes")


def prepare_arrays(
    arrays: Mapping[str, Array],
    seed: int,
    *,
    wanted: int | None = None,
    minimum: int = 1,
    heldout: int = 128,
    skip: int = 0,
) -> Dataset:
    """Like `prepare_text`, for arrays of examples: `inputs` and `targets`, or `tokens`. Raises ValueError."""
    words = {name: as_words(name, np.asarray(array)) for name, array in arrays.items()}
    if set(words) not in ({TOKENS}, {INPUTS, TARGETS}):
        raise ValueError(
            f"expected the arrays `inputs` and `targets`, or `tokens`, got {', '.join(map(repr, words)) or 'none'}"
        )
    counts = {name: len(array) if array.ndim else 0 for name, array in words.items()}
    count = min(counts.values())
    if len(set(counts.values())) > 1:
        raise ValueError(f"the first axis counts the examples, and differs: {counts}")
    if count < minimum + heldout:
        raise ValueError(
            f"{count:,} examples, of which {heldout:,} are held out; one round needs {minimum:,}. Add examples, or lower "
            "slots, inner_steps, batch_size or heldout"
        )
    return _split(words, count, seed, wanted=wanted, heldout=heldout, skip=skip, what="there are")


def prepare_items(arrays: Mapping[str, Array]) -> Array:
    """The items of a map, in their order: the one array there is. Raises ValueError."""
    if len(arrays) != 1:
        raise ValueError(f"expected one array of items, got {', '.join(map(repr, arrays)) or 'none'}")
    ((name, array),) = arrays.items()
    words = as_words(name, np.asarray(array))
    if not words.ndim or not len(words):
        raise ValueError(f"{name}: expected items along the first axis, got the shape {words.shape}")
    return np.ascontiguousarray(words)


def _split(
    arrays: Mapping[str, Array], count: int, seed: int, *, wanted: int | None, heldout: int, skip: int, what: str
) -> Dataset:
    """Shuffle, set the held-out examples aside, and take as many as the run uses, those of earlier runs last."""
    order = np.random.default_rng(seed).permutation(count)
    rest = order[heldout:]
    chosen = np.roll(rest, -(skip % max(1, len(rest))))[:wanted]
    if wanted is not None and len(chosen) < wanted:
        warnings.warn(
            f"{what} {len(chosen):,} examples, the run uses {wanted:,}: examples will repeat "
            f"({wanted / len(chosen):.1f} times each)",
            RepeatedData,
            stacklevel=3,
        )
    parts = (
        {name: as_words(name, array[index]) for name, array in arrays.items()} for index in (chosen, order[:heldout])
    )
    return Dataset(*parts)


def as_words(name: str, array: Array) -> Array:
    """The array as float32 or int32, the types of a program's batch. Raises ValueError for other types."""
    if array.dtype == np.float32 or array.dtype == np.int32:
        return array
    if array.dtype.kind not in "iub":
        raise ValueError(f"{name}: expected float32 or integers, got {array.dtype.name}")
    if array.size and not -(2**31) <= int(array.min()) <= int(array.max()) < 2**31:
        raise ValueError(f"{name}: contains an integer beyond 32 bits")
    return array.astype(np.int32)


def read_arrays(path: Path) -> Examples:
    """The arrays of an .npz file (numpy.savez) or a canonical safetensors file. Raises ValueError."""
    try:
        if path.suffix == ".npz":
            with np.load(path, allow_pickle=False) as archive:
                return {name: archive[name] for name in archive.files}
        return load_state(path)
    except FileNotFoundError as error:
        raise ValueError(f"{path}: no such file; it would be {path.absolute()}") from error
    except (FileRefused, OSError, ValueError) as error:
        raise ValueError(f"{path}: cannot be read as arrays ({error})") from error


def batch_of(examples: ExampleRows, index: Array, accumulate: int = 1) -> Examples:
    """The batch of a step: these examples, with `tokens` split into `inputs` (all but the last) and `targets` (all but the first).

    accumulate: if above 1, a new leading axis of this many parts, each of consecutive examples.
    """
    rows = {name: array[index] for name, array in examples.items()}
    if TOKENS in rows:
        tokens = rows.pop(TOKENS)
        rows |= {INPUTS: tokens[:, :-1], TARGETS: tokens[:, 1:]}
    parts = (accumulate, len(index) // accumulate) if accumulate > 1 else (len(index),)
    return {name: np.ascontiguousarray(array).reshape(*parts, *array.shape[1:]) for name, array in rows.items()}


def read_text(sources: str | Path | Iterable[str | Path]) -> bytes:
    """The concatenated bytes of text files."""
    return b"\n".join(read_documents(sources))


def read_documents(sources: str | Path | Iterable[str | Path]) -> list[bytes]:
    """The bytes of each text file; directories are walked in order of their paths. Raises ValueError."""
    locations = [sources] if isinstance(sources, (str, Path)) else list(sources)
    parts, total = [], 0
    for source in locations:
        for path in _files(Path(source)):
            size = path.stat().st_size
            if total + size > MAX_TEXT_BYTES:
                raise ValueError(f"{path}: the text exceeds {MAX_TEXT_BYTES:,} bytes; name fewer files")
            parts.append(path.read_bytes())
            total += size
    if not total:
        names = ", ".join(str(source) for source in locations) or "nothing"
        raise ValueError(f"no text found in {names}; expected files ending in {', '.join(sorted(TEXT_SUFFIXES))}")
    return parts


def _wanted(path: Path, source: Path) -> bool:
    """Whether the file is neither in a hidden directory nor in an installed package."""
    parents = path.relative_to(source).parts[:-1]
    return not any(part.startswith(".") or part in SKIPPED for part in parents)


def _files(source: Path) -> Iterator[Path]:
    if source.is_dir():
        files = sorted(path for path in source.rglob("*") if path.suffix in TEXT_SUFFIXES and _wanted(path, source))
        yield from (path for path in files if path.is_file() and path.stat().st_size <= MAX_FILE_BYTES)
    elif source.is_file():
        yield source
    else:
        raise ValueError(f"{source}: no such file or directory; it would be {source.absolute()}")
