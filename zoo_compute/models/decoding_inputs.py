"""What a decoding step is given for each text: a token, or a word that says where the step gets one. No torch."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from repops.commitments import Array

ASKED = "asked"  # the tensor of a state that holds the inputs of all steps, where no batch does
OWN = -1  # go on with the token that the step before gave


def beginning(token: int) -> int:
    """Begin a new text with a token, whatever the row had before."""
    return -2 - token


def inputs_of(prompts: Sequence[Sequence[int]], steps: int) -> Array:
    """(steps, prompts) int32: each prompt's tokens, then `OWN`. A prompt has 1 to `steps` tokens."""
    rows = np.full((steps, len(prompts)), OWN, np.int32)
    for row, prompt in zip(rows.T, prompts, strict=True):
        row[: len(prompt)] = list(prompt)
        row[0] = beginning(prompt[0])
    return rows
