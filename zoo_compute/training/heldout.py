"""The held-out examples in batches."""

from __future__ import annotations

import numpy as np

from repops.commitments import Array
from zoo_compute.formats.manifest import Manifest
from zoo_compute.training.examples import Examples


def heldout_batches(manifest: Manifest, heldout: Examples) -> Array:
    """Indices (batches, batch_size) of the held-out examples; what is left over is left out."""
    size = manifest.batch_size
    count = len(next(iter(heldout.values()))) // size
    return np.arange(count * size).reshape(count, size)
