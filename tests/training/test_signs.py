"""Updates of the signs of random elements: by an oracle, in equal bits everywhere, and through their file and back."""

from __future__ import annotations

import io
import zlib
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from node.compute.training import root_of, train_shard
from node.inputs.updates import put_update
from repops.commitments import Array
from tests.support.small_job import MODEL, TRAINING
from tests.training.test_compression import SHAPES, files_of, hard, nearest, one, same_bits, update_of
from zoo_compute import codec
from zoo_compute.codec import BadUpdateFile, files, signs
from zoo_compute.codec.files import UpdateLayout
from zoo_compute.formats.manifest import Compression
from zoo_compute.jobs.config import ComputeJob, JobError
from zoo_compute.store import BlockStore
from zoo_compute.training.compression import chunk_shape, packed_bits, random_bound

HALF = Compression(chunk=64, keep=32, bits=1)
HOWS = [HALF, Compression(chunk=16, keep=1, bits=1), Compression(chunk=24, keep=17, bits=1), Compression(bits=1)]


def philox(index: int, counter: int, key: int) -> int:
    """Philox2x32-10, from the paper."""
    for _ in range(10):
        product = index * 0xD256D193
        index, counter = (product >> 32) ^ key ^ counter, product & 0xFFFFFFFF
        key = (key + 0x9E3779B9) & 0xFFFFFFFF
    return index


def expected(how: Compression, x: Array) -> Array:
    """Chunk by chunk in exact arithmetic. x: small integers, whose sums are exact in any order."""
    out, keep = np.zeros(x.size, np.float32), how.keep or how.chunk
    count = -(-x.size // how.chunk)
    words = -(-x.size // count)
    for at in range(count):
        chunk = x[at * words : (at + 1) * words]
        sizes = [Fraction(abs(float(each))) for each in chunk if each]
        if not sizes:
            continue
        share = Fraction(float(nearest(len(sizes) * Fraction(float(np.float32(keep / how.chunk))))))
        s = nearest(sum(sizes) / share)
        for place, value in enumerate(chunk):
            word = philox(place, at, int(s.view(np.uint32)))
            if value and (word ^ 1 << 31) < min(round(keep / how.chunk * 2**32), 2**32 - 1):
                out[at * words + place] = np.copysign(s, value)
    return out


@pytest.mark.parametrize("how", HOWS, ids=lambda how: f"{how.keep} of {how.chunk}")
def test_update__of_signs__is_what_exact_arithmetic_gives(how: Compression) -> None:
    rng, sent = np.random.default_rng(how.chunk), 0
    for size in (1, 7, 64, 65, 1000):
        x = rng.integers(-9, 10, size).astype(np.float32)
        made = one(how, x)
        assert same_bits(made, expected(how, x)), size
        sent += np.count_nonzero(made)
    assert sent > 50


@pytest.mark.parametrize("using", ["native", "numba", "reference"])
def test_update__of_signs__has_equal_finite_bits_in_every_runner(using: str) -> None:
    rng = np.random.default_rng(8)
    for how in HOWS[:3]:
        change = {name: hard(rng, shape) for name, shape in SHAPES.items()}
        made = update_of(how, change, using=using)
        assert root_of(made) == root_of(update_of(how, change))
        assert all(np.isfinite(array).all() for array in made.values())


def test_updates_of_many_slots__have_the_change_as_their_mean() -> None:
    rng = np.random.default_rng(9)
    change = np.where(np.arange(4096) % 2, 1, -1) * np.float32(0.01)
    rows = [one(Compression(keep=1024, bits=1), change * np.float32(1 + rng.random() / 100)) for _ in range(64)]
    assert len({np.flatnonzero(row).tobytes() for row in rows}) == 64
    assert all(abs(np.count_nonzero(row) - 1024) < 200 for row in rows)
    mean = np.mean(rows, axis=0)
    assert abs(float(mean @ change) / float(change @ change) - 1) < 0.05
    assert float(np.abs(mean - change).mean()) < 0.005  # a quarter of the elements, 64 times


def with_zeros(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    x = rng.standard_normal(shape).astype(np.float32)
    if x.ndim > 1:
        x[len(x) // 3 : len(x) // 2] = 0
    return x


def test_file__of_signs__comes_back_and_takes_a_bit_for_each() -> None:
    rng, how = np.random.default_rng(10), Compression(keep=1230, bits=1)
    shapes = SHAPES | {"large": (100, 700), "zeros": (5000,)}
    change = {name: with_zeros(rng, shape) for name, shape in shapes.items()} | {"zeros": np.zeros(5000, np.float32)}
    sent = update_of(how, change)
    data = codec.encode(sent, how=how)
    _, back = codec.unpack(io.BytesIO(data), shapes, 0, how)
    assert all(back[name].tobytes() == sent[name].tobytes() for name in shapes)
    assert len(data) < sum(4 * array.size for array in sent.values()) / 100
    assert 8 * len(data) < 1.02 * sum(packed_bits(array.size, how) for array in sent.values()) + 8 * 100


def test_file__of_a_tensor_that_no_signs_decode_to__comes_back_too() -> None:
    rng = np.random.default_rng(11)
    sent = one(HALF, with_zeros(rng, (10, 64)).reshape(-1))
    for at, word in (
        (int(np.flatnonzero(sent)[0]), 1),
        (int(np.flatnonzero(sent == 0)[0]), int(sent.view(np.uint32).max())),
    ):
        lie = sent.copy()
        lie.view(np.uint32)[at] = word
        data = codec.encode({"x": lie}, how=HALF)
        assert codec.unpack(io.BytesIO(data), {"x": lie.shape}, 0, HALF)[1]["x"].tobytes() == lie.tobytes()


def test_file__of_signs__that_is_cut_anywhere__is_refused() -> None:
    sent = one(HALF, with_zeros(np.random.default_rng(12), (10, 64)).reshape(-1))
    data = codec.encode({"x": sent}, how=HALF)
    for end in range(len(data)):
        with pytest.raises(BadUpdateFile):
            codec.unpack(io.BytesIO(data[:end]), {"x": sent.shape}, 0, HALF)


def test_file__whose_zeros_inflate_to_more_than_the_tensor__is_refused() -> None:
    bomb = zlib.compress(bytes(10**6))
    body = (0x80000000 | 0x3F800000).to_bytes(4, "little") + len(bomb).to_bytes(4, "little") + bomb
    head = codec.FileHeader().to_bytes()
    length = len(body) + 1
    coded = bytes([length & 0x7F | 0x80, length >> 7]) if length >> 7 else bytes([length])
    with pytest.raises(BadUpdateFile, match="which elements changed cannot be read"):
        codec.unpack(io.BytesIO(head + coded + body), {"x": (4096,)}, 0, Compression(keep=64, bits=1))


def job_of(**training: object) -> ComputeJob:
    how = {"chunk": 256, "keep": 64, "bits": 1}
    return ComputeJob(MODEL, {}, TRAINING | training, "100", compression_config=how)


def test_a_slots_update__of_signs__is_fetched_under_its_root_and_leaves_nothing_private(tmp_path: Path) -> None:
    got, manifest = files_of(tmp_path, job_of())
    result = train_shard(manifest, got.programs, got.checkpoint, got.examples, 0, 1)
    store, graph = BlockStore(tmp_path), got.programs.graph
    cid = put_update(store, result.update, manifest, graph)
    received = files.get(store, cid, UpdateLayout.of(graph, manifest), timeout_s=5)
    assert received.tree.root == result.update_root
    assert result.private == {}
    float32 = sum(array.nbytes for array in result.update.values())
    assert len(store.read(cid, max_bytes=2**20)) < float32 / 50


def test_job__that_sends_signs_and_carries__is_refused() -> None:
    with pytest.raises(JobError, match=r"compression\.bits: 1 leaves nothing to carry on"):
        job_of(carry_rounds=2).outline()


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("elements", [1, 63, 64, 1_000, 12_345])
def test_which_elements_are_sent__is_the_same_with_the_native_library_and_without(
    how: Compression, elements: int
) -> None:
    count, words = chunk_shape(elements, how.chunk)
    magnitudes = np.random.default_rng(elements).integers(0, 2**31, count).astype(np.uint32)
    magnitudes[::3] = 0
    wanted = signs.sent_by_numpy(magnitudes, words, random_bound(how))
    assert (signs.sent_elements(magnitudes, elements, how) == wanted).all()
    assert not wanted[::3].any()
