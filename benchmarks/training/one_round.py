"""How well does one round's mean update survive a compression that remembers nothing? A screening, in plain numpy.

The slots of benchmarks/training/compression.py train one round of the starting weights. Each compression then decodes every slot's
change; the mean of the decoded changes, times each of MULTIPLES of the factor that fits it best to the mean of the changes, moves
the weights. Reported: the least held-out loss, its multiple, the squared cosine of the two means, and an estimate of the bytes:
places and values at their entropy where all are as likely. benchmarks/training/restart.py runs whole trainings, exactly.

Shape legend: S slots, C chunks, W words of a chunk.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable
from math import lgamma, log
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.lab.run_parameters import parameters_of
from benchmarks.training import compression
from node.compute.programs import State
from node.compute.training import heldout_loss, train_shard
from node.hardware import use_threads
from node.inputs.job_files import fetch_job
from repops.commitments import Array
from zoo_compute.jobs.files import publish_files
from zoo_compute.store import BlockStore

CHUNK, SIDE = 4096, 64
MULTIPLES = (0.7, 1.0, 1.4, 2.0)
Compressed = tuple[Array, float]  # the decoded changes (S, ...), and bits of one slot's
Compress = Callable[[Array], Compressed]


def chunks(x: Array) -> Array:
    """(S, C, W), the last chunk padded with zeros."""
    flat = x.reshape(len(x), -1)
    count = -(-flat.shape[1] // CHUNK)
    words = -(-flat.shape[1] // count)
    return np.pad(flat, ((0, 0), (0, count * words - flat.shape[1]))).reshape(len(x), count, words)


def like(decoded_SCW: Array, x: Array) -> Array:
    return decoded_SCW.reshape(len(x), -1)[:, : x[0].size].reshape(x.shape)


def largest(keep: int, levels: int) -> Compress:
    """The largest `keep` of a chunk, in so many magnitudes; of one level, their mean."""

    def compress(x: Array) -> Compressed:
        x_SCW = chunks(x)
        size, words = np.abs(x_SCW), x_SCW.shape[2]
        count = max(1, round(keep * words / CHUNK))
        least = np.partition(size, words - count, axis=2)[..., words - count : words - count + 1]
        kept = size >= least
        width = (size.max(axis=2, keepdims=True) - least) / levels
        level = np.minimum(np.floor((size - least) / np.maximum(width, 1e-30)), levels - 1)
        magnitude = least + (level + 0.5) * width if levels > 1 else _mean(size, kept)
        places = (lgamma(words + 1) - lgamma(count + 1) - lgamma(words - count + 1)) / log(2)
        bits = x_SCW.shape[1] * (places + count * (1 + np.log2(levels)) + 16 * min(levels, 2))
        return like(np.where(kept, np.sign(x_SCW) * magnitude, 0), x), float(bits)

    return compress


def signs(fraction: float, places: str) -> Compress:
    """Signs of a random part of the elements. places: of each slot its own, `even` over the slots, or the `same`."""

    def compress(x: Array) -> Compressed:
        x_SCW = chunks(x)
        draw = np.random.default_rng([7, x.size])
        shape = x_SCW.shape[1:]
        common = draw.random(shape)
        decoded = np.zeros_like(x_SCW)
        for slot, change in enumerate(x_SCW):
            drawn = {"own": draw.random(shape), "even": (common + slot * fraction) % 1, "same": common}[places]
            sent = drawn < fraction
            decoded[slot] = np.where(sent, np.sign(change) * _mean(np.abs(change), sent), 0)
        return like(decoded, x), x_SCW[0].size * fraction + 16 * shape[0]

    return compress


def integers(bits: int) -> Compress:
    def compress(x: Array) -> Compressed:
        x_SCW = chunks(x)
        step = np.maximum(np.abs(x_SCW).max(axis=2, keepdims=True) / (2 ** (bits - 1) - 1), 1e-30)
        return like(np.rint(x_SCW / step) * step, x), float(x_SCW[0].size * bits)

    return compress


def low_rank(iterations: int) -> Compress:
    """Rank 1 from a shared random start, 10 bits a number; vectors as the signs of their largest elements."""

    def compress(x: Array) -> Compressed:
        if x.ndim < 3:
            return largest(188, 1)(x)
        m = x.reshape(len(x), x.shape[1], -1)
        right = np.broadcast_to(np.random.default_rng(3).standard_normal((m.shape[2], 1)), (len(x), m.shape[2], 1))
        for _ in range(iterations):
            left = np.linalg.qr(m @ right)[0]
            right = m.transpose(0, 2, 1) @ left
        return (left @ right.transpose(0, 2, 1)).reshape(x.shape), 10.0 * (m.shape[1] + m.shape[2])

    return compress


def transformed(basis: Array, inner: Compress) -> Compress:
    """`inner` of the matrices' SIDE x SIDE blocks in an orthonormal basis; of other tensors as they are."""

    def compress(x: Array) -> Compressed:
        if x.ndim != 3 or x.shape[1] % SIDE or x.shape[2] % SIDE:
            return inner(x)
        blocks = x.reshape(len(x), x.shape[1] // SIDE, SIDE, x.shape[2] // SIDE, SIDE).transpose(0, 1, 3, 2, 4)
        turned = basis @ blocks @ basis.T
        decoded, bits = inner(turned.reshape(len(x), -1))
        back = basis.T @ decoded.reshape(turned.shape) @ basis
        return back.transpose(0, 1, 3, 2, 4).reshape(x.shape), bits

    return compress


def cosines() -> Array:
    """The orthonormal DCT-II."""
    at = np.arange(SIDE)
    basis: Array = np.sqrt(2 / SIDE) * np.cos(np.pi * (2 * at[None] + 1) * at[:, None] / (2 * SIDE))
    basis[0] /= np.sqrt(2)
    return basis


def hadamard() -> Array:
    basis = np.ones((1, 1))
    while len(basis) < SIDE:
        basis = np.block([[basis, basis], [basis, -basis]])
    return basis / np.sqrt(SIDE)


def _mean(size: Array, of: Array) -> Array:
    mean: Array = (size * of).sum(axis=-1, keepdims=True) / np.maximum(of.sum(axis=-1, keepdims=True), 1)
    return mean


COMPRESSIONS: dict[str, Compress] = {
    "dense": lambda x: (x, 32.0 * x[0].size),
    "int4": integers(4),
    "largest 64, 2 bits": largest(64, 2),
    "largest 160, 2 bits": largest(160, 2),
    "largest 188, signs": largest(188, 1),
    "DCT, largest 188, signs": transformed(cosines(), largest(188, 1)),
    "Hadamard, largest 188, signs": transformed(hadamard(), largest(188, 1)),
    "rank 1, two power iterations": low_rank(2),
    "signs of 31 %, the same places": signs(0.3125, "same"),
    "Hadamard, signs of 31 %, even places": transformed(hadamard(), signs(0.3125, "even")),
    "signs of 31 %, random places": signs(0.3125, "own"),
    "signs of 31 %, even places": signs(0.3125, "even"),
    "signs of 12.5 %, even places": signs(0.125, "even"),
}


def screened(options: argparse.Namespace) -> dict[str, Any]:
    job = compression.job_of(options, options.seed, compression.KINDS["dense"])
    data = compression.data_of(job, options.data)
    weights = compression.pretrained(options, options.seed, data)
    with tempfile.TemporaryDirectory() as folder:
        store = BlockStore(Path(folder))
        manifest = publish_files(job, data, store)
        files = fetch_job(store, manifest)
    begun: State = {**files.checkpoint, **weights}
    updates = [
        train_shard(manifest, files.programs, begun, files.examples, 0, slot).update for slot in range(manifest.slots)
    ]
    changes = {name: np.stack([update[name] for update in updates]) for name in files.programs.graph.exchanged}
    mean = {name: change.mean(axis=0) for name, change in changes.items()}
    figures = {}
    for name, compress in COMPRESSIONS.items():
        made = {each: compress(change) for each, change in changes.items()}
        step = {each: decoded.mean(axis=0) for each, (decoded, _) in made.items()}
        product, norm = (sum(float((step[each] * other[each]).sum()) for each in step) for other in (mean, step))
        losses = {}
        for multiple in MULTIPLES:
            rate = multiple * product / norm
            moved = {each: (begun[each] - rate * step[each]).astype(np.float32) for each in step}
            losses[multiple] = heldout_loss(manifest, files.programs, begun | moved, files.heldout)
        best = min(losses, key=losses.__getitem__)
        elements = sum(change[0].size for change in changes.values())
        figures[name] = {
            "ratio": 32 * elements / sum(bits for _, bits in made.values()),
            "cosine_squared": product**2 / norm / sum(float((each**2).sum()) for each in mean.values()),
            "loss": losses[best],
            "multiple": best,
        }
        print(f"{name}: {figures[name]}", file=sys.stderr, flush=True)
    return {"compressions": figures, "parameters": parameters_of(options, leave_out=("data",))}


def main() -> int:
    parser = compression.parser_of("One round's mean update through compressions without memory")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    use_threads(1)
    result = screened(options)
    if options.json:
        print(json.dumps(result))
        return 0
    for name, row in result["compressions"].items():
        print(
            f"{name:<38} 1/{row['ratio']:<5.0f} loss {row['loss']:.4f} at {row['multiple']}, cos2 {row['cosine_squared']:.3f}"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
