"""A step's batch as named arrays: (inputs, targets), each a tensor, or tuples and dicts of tensors; of a scheduled step also `rate`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from repops.commitments import Array
from repops.graph import RATE

INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool)


def named(batch: Any) -> dict[str, Tensor]:
    """`inputs` and `targets`; `inputs.0`, `inputs.mask` and so on where one is a tuple or a dict; a third entry is `rate`. Raises
    ValueError.
    """
    if not isinstance(batch, (tuple, list)) or len(batch) not in (2, 3):
        raise ValueError("batch: expected the pair (inputs, targets), or of a scheduled step (inputs, targets, rate)")
    return dict(
        leaf for name, part in zip(("inputs", "targets", RATE), batch, strict=False) for leaf in leaves(name, part)
    )


def leaves(name: str, value: Any) -> Iterator[tuple[str, Tensor]]:
    """The tensors of a tree by name: `NAME`, `NAME.0`, `NAME.key`. Raises ValueError for anything else."""
    if isinstance(value, Tensor):
        yield name, value
    elif isinstance(value, np.ndarray):
        yield name, torch.from_numpy(value)
    elif isinstance(value, (tuple, list)):
        for at, each in enumerate(value):
            yield from leaves(f"{name}.{at}", each)
    elif isinstance(value, dict):
        for key in sorted(value):
            yield from leaves(f"{name}.{key}", value[key])
    else:
        raise ValueError(f"batch: {name} is {type(value).__name__}; expected a tensor, or tuples and dicts of tensors")


def named_arrays(batch: Any) -> dict[str, Array]:
    """Convert to float32 or int32. Raises ValueError for other dtypes and for integers beyond 32 bits."""
    return {name: word_array(name, tensor) for name, tensor in named(batch).items()}


def word_array(name: str, tensor: Tensor) -> Array:
    tensor = tensor.detach().to("cpu")
    if tensor.dtype == torch.float32:
        return tensor.contiguous().numpy()
    if tensor.dtype not in INTEGERS:
        raise ValueError(f"batch: {name} is {tensor.dtype}; expected float32 or integers (cast it with .float())")
    narrow = tensor.to(torch.int32)
    if tensor.dtype == torch.int64 and not torch.equal(narrow.to(torch.int64), tensor):
        raise ValueError(f"batch: {name} holds an integer beyond 32 bits")
    return narrow.contiguous().numpy()
