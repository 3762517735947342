"""Training text: cut into examples, shuffled once, a part held out. numpy only.

The order is part of the job: it is committed (`data_root`), and which slot trains on which examples follows from it.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

TEXT_SUFFIXES = frozenset({".py", ".txt", ".md", ".rst", ".text", ".json", ".yaml", ".c", ".h"})
SKIPPED = frozenset({"site-packages", "dist-packages", "node_modules", "__pycache__"})
MAX_TEXT_BYTES = 512 * 2**20
MAX_FILE_BYTES = 16 * 2**20


class Dataset(NamedTuple):
    """examples (E, T+1) and heldout (N, T+1), both u8."""

    examples: np.ndarray
    heldout: np.ndarray


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
) -> Dataset:
    """Cut text into windows of context + 1 bytes, shuffle them, and hold `heldout` of them out.

    sources: the bytes themselves, or files and directories. wanted: as many examples as the run uses once
    (`ComputeJob.examples_wanted`); with more text this many are drawn from all of it, with less a RepeatedData
    warning is given.
    Raises ValueError for less than `minimum` examples (`ComputeJob.examples_of_a_round`).
    """
    if context < 1 or heldout < 1:
        raise ValueError(f"expected context and heldout of at least 1, got {context} and {heldout}")
    text = sources if isinstance(sources, bytes) else read_text(sources)
    count = len(text) // (context + 1)
    if count < minimum + heldout:
        raise ValueError(
            f"too little text: {len(text):,} bytes make {max(0, count - heldout):,} examples of {context + 1} bytes "
            f"beside {heldout:,} held out; one round needs {minimum:,}. Add text (at least "
            f"{(minimum + heldout) * (context + 1):,} bytes), or lower slots, inner_steps, batch_size or context"
        )
    windows = np.frombuffer(text, dtype=np.uint8)[: count * (context + 1)].reshape(count, context + 1)
    order = np.random.default_rng(seed).permutation(count)
    chosen = order[heldout:] if wanted is None else order[heldout : heldout + wanted]
    if wanted is not None and len(chosen) < wanted:
        warnings.warn(
            f"the text makes {len(chosen):,} examples, the run uses {wanted:,}: examples will repeat "
            f"({wanted / len(chosen):.1f} times each)",
            RepeatedData,
            stacklevel=2,
        )
    return Dataset(windows[chosen], windows[order[:heldout]])


def read_text(sources: str | Path | Iterable[str | Path]) -> bytes:
    """The concatenated bytes of text files; directories are walked in order of their paths."""
    given = [sources] if isinstance(sources, (str, Path)) else list(sources)
    parts, total = [], 0
    for source in given:
        for path in _files(Path(source)):
            size = path.stat().st_size
            if total + size > MAX_TEXT_BYTES:
                raise ValueError(f"{path}: the text exceeds {MAX_TEXT_BYTES:,} bytes; name fewer files")
            parts.append(path.read_bytes())
            total += size
    if not total:
        names = ", ".join(str(source) for source in given) or "nothing"
        raise ValueError(f"no text found in {names}; expected files ending in {', '.join(sorted(TEXT_SUFFIXES))}")
    return b"\n".join(parts)


def _wanted(path: Path, source: Path) -> bool:
    """Not in a hidden directory, nor among installed packages."""
    parents = path.relative_to(source).parts[:-1]
    return not any(part.startswith(".") or part in SKIPPED for part in parents)


def _files(source: Path) -> Iterator[Path]:
    if source.is_dir():
        found = sorted(path for path in source.rglob("*") if path.suffix in TEXT_SUFFIXES and _wanted(path, source))
        yield from (path for path in found if path.is_file() and path.stat().st_size <= MAX_FILE_BYTES)
    elif source.is_file():
        yield source
    else:
        raise ValueError(f"{source}: no such file or directory")
