"""How often a causal model puts the right token first: the module of the record, with a checkpoint's tensors, in torch."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from repops.commitments import Array
from zoo_compute.huggingface import library
from zoo_compute.huggingface.folder import filled_model
from zoo_compute.huggingface.places import Place

AT_ONCE = 8  # sequences


def accuracy_of(folder: Path, tensors: Mapping[str, Array], tokens: Array) -> float | None:
    """The share of tokens that are the likeliest after those before them. folder: of the model's configuration; None without one.

    tokens: (examples, T + 1). Without dropout. Raises UserError where the tensors are another model's.
    """
    if not (folder / "config.json").is_file():
        return None
    torch = library("torch", "accuracy")
    model = filled_model(Place(str(folder), str(folder)), tensors).eval()
    right = 0
    with torch.no_grad():
        for first in range(0, len(tokens), AT_ONCE):
            chosen = torch.from_numpy(np.ascontiguousarray(tokens[first : first + AT_ONCE])).long()
            right += int((model(chosen[:, :-1]).logits.argmax(-1) == chosen[:, 1:]).sum())
    return right / max(1, tokens[:, 1:].size)
