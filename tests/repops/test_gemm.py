"""Bits of the native matrix product against its definition, computed here in numpy with an exact fma."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt
import pytest

from repops import native
from repops.native import build
from tests.support.waiting import HANG_S

build.build()
ISAS = native.available()
K_BLOCK = 256
Floats = npt.NDArray[np.float32]
Indices = npt.NDArray[np.int32]


class Gemm(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_int64) for name in ("batches", "M", "N", "K")),
        *(
            field
            for side in "abc"
            for field in (
                (side, ctypes.c_void_p),
                (f"{side}_batch", ctypes.c_void_p), (f"{side}_batch_stride", ctypes.c_int64),
                (f"{side}_rows", ctypes.c_void_p), (f"{side}_row_stride", ctypes.c_int64),
                (f"{side}_cols", ctypes.c_void_p), (f"{side}_col_stride", ctypes.c_int64),
            )
        ),
    ]  # fmt: skip


@dataclass
class Operand:
    """A flat buffer read at start + batch(q) + row(i) + column(j), each a stride or a table of offsets."""

    buffer: Floats
    start: int
    batch: int | Indices
    row: int | Indices
    column: int | Indices

    def indices(self, batches: int, rows: int, columns: int) -> npt.NDArray[np.int64]:
        def offsets(axis: int | Indices, count: int) -> npt.NDArray[np.int64]:
            return np.arange(count) * axis if isinstance(axis, int) else axis.astype(np.int64)

        q, i, j = offsets(self.batch, batches), offsets(self.row, rows), offsets(self.column, columns)
        return self.start + q[:, None, None] + i[:, None] + j

    def fill(self, g: Gemm, side: str) -> None:
        setattr(g, side, self.buffer.ctypes.data + 4 * self.start)
        for name, stride, axis in (
            ("batch", "batch_stride", self.batch), ("rows", "row_stride", self.row), ("cols", "col_stride", self.column),
        ):  # fmt: skip
            if isinstance(axis, int):
                setattr(g, f"{side}_{stride}", axis)
            else:
                setattr(g, f"{side}_{name}", axis.ctypes.data)


def exact_fma(a: Floats, b: Floats, c: Floats) -> Floats:
    """fma in float32 from float64: the product is exact there, the sum is rounded to odd, so the cast rounds once."""
    product = a.astype(np.float64) * b.astype(np.float64)
    addend = c.astype(np.float64)
    total = product + addend
    part = total - product
    error = (product - (total - part)) + (addend - part)
    inexact = np.isfinite(total) & (error != 0) & (total.view(np.int64) & 1 == 0)
    return np.where(inexact, np.nextafter(total, np.where(error > 0, np.inf, -np.inf)), total).astype(np.float32)


def defined(a: Floats, b: Floats) -> Floats:
    """The definition: (batches, M, K) x (batches, K, N), blocks of 256 terms, sums of blocks in order."""
    terms = a.shape[2]
    result = np.zeros((a.shape[0], a.shape[1], b.shape[2]), dtype=np.float32)
    with np.errstate(all="ignore"):
        for start in range(0, terms, K_BLOCK):
            block = np.zeros_like(result)
            for k in range(start, min(start + K_BLOCK, terms)):
                block = exact_fma(a[:, :, k, None], b[:, None, k, :], block)
            result = block if start == 0 else result + block
    return result


def words(values: Floats) -> npt.NDArray[np.uint32]:
    """Bits, with every NaN the same."""
    return np.where(np.isnan(values), np.uint32(0x7FC00000), np.ascontiguousarray(values).view(np.uint32))


def run(shape: tuple[int, int, int, int], a: Operand, b: Operand, c: Operand, isa: str, threads: int) -> Floats:
    """The library's c, gathered; everything in c's buffer that is no output must stay as it was."""
    batches, m, n, k = shape
    g = Gemm(batches=batches, M=m, N=n, K=k)
    output = Operand(np.full_like(c.buffer, 12345.0), c.start, c.batch, c.row, c.column)
    for side, operand in (("a", a), ("b", b), ("c", output)):
        operand.fill(g, side)
    assert native.load(isa).repops_gemm(ctypes.byref(g), threads) == 0
    at = output.indices(batches, m, n)
    rest = np.ones(output.buffer.size, dtype=bool)
    rest[at.ravel()] = False
    assert (output.buffer[rest] == 12345.0).all(), "wrote outside its outputs"
    return output.buffer[at]


def check(
    shape: tuple[int, int, int, int], a: Operand, b: Operand, c: Operand, threads: tuple[int, ...] = (1, 2, 3)
) -> None:
    batches, m, n, k = shape
    expected = words(defined(a.buffer[a.indices(batches, m, k)], b.buffer[b.indices(batches, k, n)]))
    for isa in ISAS:
        for count in threads:
            got = words(run(shape, a, b, c, isa, count))
            wrong = np.argwhere(got != expected)
            assert not wrong.size, f"{isa}, {count} threads, {shape}: {len(wrong)} wrong, the first at {wrong[0]}"


def dense(rng: np.random.Generator, batches: int, rows: int, columns: int, *, turned: bool = False) -> Operand:
    values = rng.standard_normal(batches * rows * columns + 1).astype(np.float32)
    strides = (1, rows) if turned else (columns, 1)
    return Operand(values, 0, rows * columns, *strides)


def table(rng: np.random.Generator, count: int, step: int) -> Indices:
    return (rng.permutation(count) * step).astype(np.int32)


def test_oracle__against_rationals__rounds_once() -> None:
    rng = np.random.default_rng(1)
    a, b = (rng.standard_normal(300).astype(np.float32) for _ in range(2))
    c = np.where(rng.random(300) < 0.5, -a * b, rng.standard_normal(300) * 1e-38).astype(np.float32)
    a[:50] *= np.float32(1e-30)
    b[:50] *= np.float32(1e-10)
    for got, x, y, z in zip(exact_fma(a, b, c), a, b, c, strict=True):
        exact = Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z))
        near = [np.nextafter(got, np.float32(s), dtype=np.float32) for s in (-np.inf, np.inf)]
        distance = abs(Fraction(float(got)) - exact)
        for other in near:
            rival = abs(Fraction(float(other)) - exact)
            assert distance < rival or (distance == rival and not int(got.view(np.uint32)) & 1)


@pytest.mark.parametrize("k", [0, 1, 2, 27, 255, 256, 257, 600])
def test_bits__around_the_blocks_of_terms__are_the_definition(k: int) -> None:
    rng = np.random.default_rng(k)
    check((1, 13, 35, k), dense(rng, 1, 13, k), dense(rng, 1, k, 35), dense(rng, 1, 13, 35))


@pytest.mark.parametrize("seed", range(24))
def test_bits__of_random_shapes_and_layouts__are_the_definition(seed: int) -> None:
    rng = np.random.default_rng(100 + seed)
    m, n = (
        int(x) for x in rng.choice([1, 2, 3, 4, 5, 7, 8, 9, 10, 15, 16, 17, 31, 32, 33, 47, 48, 64, 65, 100, 131], 2)
    )
    k, batches = int(rng.choice([1, 3, 10, 16, 31, 64, 100, 270])), int(rng.choice([1, 1, 2, 3, 5]))
    turned = [bool(x) for x in rng.integers(0, 2, 3)]
    check(
        (batches, m, n, k),
        dense(rng, batches, m, k, turned=turned[0]),
        dense(rng, batches, k, n, turned=turned[1]),
        dense(rng, batches, m, n, turned=turned[2]),
        threads=(1, 2, 3) if seed % 4 == 0 else (1 + seed % 3,),
    )


@pytest.mark.parametrize(("m", "n"), [(300, 70), (40, 410), (500, 3), (3, 500), (257, 257)])
def test_bits__of_shapes_of_several_cache_blocks__are_the_definition(m: int, n: int) -> None:
    rng = np.random.default_rng(m)
    check((1, m, n, 40), dense(rng, 1, m, 40), dense(rng, 1, 40, n), dense(rng, 1, m, n))


def test_bits__of_a_product_wider_than_the_packed_operand__are_the_definition() -> None:
    rng = np.random.default_rng(7)
    check((1, 30, 4200, 5), dense(rng, 1, 30, 5), dense(rng, 1, 5, 4200, turned=True), dense(rng, 1, 30, 4200), (1, 3))


def test_bits__of_negative_and_zero_strides__are_the_definition() -> None:
    rng = np.random.default_rng(2)
    m, n, k = 29, 37, 300
    values = rng.standard_normal(40000).astype(np.float32)
    out = np.zeros(m * n, dtype=np.float32)
    backwards = Operand(out, m * n - 1, 0, -n, -1)
    for a in (
        Operand(values, 39999, 0, -k, -1), Operand(values, 0, 0, 0, 1),
        Operand(values, 0, 0, 1, 0), Operand(values, 9000, 0, -k, 1), Operand(values, 0, 0, 0, 0),
    ):  # fmt: skip
        check((1, m, n, k), a, Operand(values, 20000, 0, -n, 1), Operand(out, 0, 0, n, 1), (1, 2))
        check((1, m, n, k), a, Operand(values, 5, 0, 1, 0), backwards, (1, 2))
        check((1, m, n, k), a, Operand(values, 11, 0, 3, 100), Operand(out, 0, 0, 1, m), (1, 2))


@pytest.mark.parametrize("seed", range(6))
def test_bits__of_operands_read_through_tables__are_the_definition(seed: int) -> None:
    rng = np.random.default_rng(200 + seed)
    batches, m, n, k = 2, 21, 50, int(rng.choice([9, 270]))
    buffers = [rng.standard_normal(batches * 60 * 300).astype(np.float32) for _ in range(3)]

    def pick(count: int, step: int, odds: float = 0.6) -> int | Indices:
        return table(rng, count, step) if rng.random() < odds else step

    a = Operand(buffers[0], 0, pick(batches, m * k), pick(m, k), pick(k, 1))
    b = Operand(buffers[1], 0, pick(batches, k * n), pick(k, n), pick(n, 1))
    c = Operand(buffers[2], 0, pick(batches, m * n), pick(m, n), pick(n, 1))
    check((batches, m, n, k), a, b, c)


def test_bits__of_a_convolution_read_in_place__are_the_definition() -> None:
    rng = np.random.default_rng(3)
    batches, channels, height, width, size, out = 2, 3, 12, 11, 3, 20
    tall, wide = height - size + 1, width - size + 1
    image = rng.standard_normal(batches * channels * height * width).astype(np.float32)
    terms = np.array(
        [(c * height + y) * width + x for c in range(channels) for y in range(size) for x in range(size)],
        dtype=np.int32,
    )
    places = np.array([y * width + x for y in range(tall) for x in range(wide)], dtype=np.int32)
    k, n = terms.size, places.size
    weights = Operand(rng.standard_normal(out * k).astype(np.float32), 0, 0, k, 1)
    pixels = Operand(image, 0, channels * height * width, terms, places)
    check((batches, out, n, k), weights, pixels, Operand(np.zeros(batches * out * n, np.float32), 0, out * n, n, 1))


def test_bits__of_batches_that_share_an_operand__are_the_definition() -> None:
    rng = np.random.default_rng(4)
    shared = Operand(rng.standard_normal(33 * 40).astype(np.float32), 0, 0, 40, 1)
    check((7, 5, 40, 33), dense(rng, 7, 5, 33), shared, dense(rng, 7, 5, 40))


def test_bits__of_subnormals_infinities_and_nan__are_the_definition() -> None:
    rng = np.random.default_rng(5)
    m, n, k = 30, 40, 280
    a, b = dense(rng, 1, m, k), dense(rng, 1, k, n)
    a.buffer[:] *= np.exp2(rng.integers(-75, -60, a.buffer.size)).astype(np.float32)
    b.buffer[:] *= np.exp2(rng.integers(-80, -60, b.buffer.size)).astype(np.float32)
    check((1, m, n, k), a, b, dense(rng, 1, m, n))
    result = run((1, m, n, k), a, b, dense(rng, 1, m, n), ISAS[0], 1)
    assert ((result != 0) & (np.abs(result) < np.finfo(np.float32).tiny)).any(), "subnormal sums occur"
    a.buffer[rng.integers(0, 5 * k, 6)] = np.inf
    a.buffer[7 * k + 3] = np.nan
    b.buffer[rng.integers(0, k * n, 5)] = 0.0
    b.buffer[3 * n + 1] = -np.inf
    check((1, m, n, k), a, b, dense(rng, 1, m, n))


def test_bits__of_zeros__keep_the_sign_of_the_definition() -> None:
    zeros = Operand(np.full(64 * 64, -0.0, dtype=np.float32), 0, 0, 40, 1)
    ones = Operand(np.ones(64 * 64, dtype=np.float32), 0, 0, 40, 1)
    for k in (0, 1, 300):
        big = Operand(np.full(40 * 400, -0.0, dtype=np.float32), 0, 0, 400, 1)
        out = Operand(np.zeros(40 * 40, dtype=np.float32), 0, 0, 40, 1)
        check((1, 4, 40, min(k, 40)), zeros, ones, out)
        check((1, 20, 20, k), big, Operand(np.ones(400 * 40, dtype=np.float32), 0, 0, 40, 1), out)


def times_itself(values: Floats, rows: int, terms: int, *, turned: bool = False) -> tuple[Operand, Operand, Operand]:
    """Rows, the same memory as columns, and room for their products."""
    out = Operand(np.zeros(rows * rows + 5, np.float32), 3, 0, *((1, rows) if turned else (rows, 1)))
    return Operand(values, 1, 0, terms, 1), Operand(values, 1, 0, 1, terms), out


@pytest.mark.parametrize(("rows", "terms"), [(2, 8192), (3, 8200), (4, 12_301), (7, 16_640), (17, 9_000), (33, 8_191)])
def test_bits__of_long_rows_times_themselves__are_the_definition(rows: int, terms: int) -> None:
    rng = np.random.default_rng(rows)
    values = (rng.standard_normal(rows * terms + 1) * np.exp2(rng.integers(-80, 4, rows * terms + 1))).astype(
        np.float32
    )
    check((1, rows, rows, terms), *times_itself(values, rows, terms, turned=rows % 2 == 0), threads=(1, 2, 3, 5))


def test_bits__of_odd_values_in_rows_times_themselves__are_the_definition() -> None:
    rng = np.random.default_rng(12)
    rows, terms = 6, 10_000
    values = rng.standard_normal(rows * terms + 1).astype(np.float32)
    values[1 : 1 + terms] = -0.0
    values[1 + terms : 1 + 2 * terms] = 1e-30  # its products with the next row round to -0
    values[1 + 2 * terms : 1 + 3 * terms] = -1e-30
    values[1 + 4 * terms + 5_000] = np.inf
    values[1 + 5 * terms + 9_990] = np.nan
    check((1, rows, rows, terms), *times_itself(values, rows, terms))


def test_bits__of_more_blocks_than_are_summed_at_a_time__are_those_of_two_operands() -> None:
    rows, terms = 64, 230_000
    values = np.random.default_rng(13).standard_normal(rows * terms + 1).astype(np.float32)
    a, b, c = times_itself(values, rows, terms)
    other = Operand(values.copy(), b.start, b.batch, b.row, b.column)
    expected = words(run((1, rows, rows, terms), a, other, c, ISAS[0], 2))
    for threads in (1, 2, 3):
        assert (words(run((1, rows, rows, terms), a, b, c, ISAS[0], threads)) == expected).all()


def test_nothing_to_do__leaves_c_alone() -> None:
    rng = np.random.default_rng(6)
    for shape in ((0, 3, 4, 5), (1, 0, 4, 5), (1, 3, 0, 5)):
        for isa in ISAS:
            c = Operand(np.zeros(64, dtype=np.float32), 0, 0, 4, 1)
            assert run(shape, dense(rng, 1, 3, 5), dense(rng, 1, 5, 4), c, isa, 2).size == 0


def large_case() -> tuple[tuple[int, int, int, int], Operand, Operand, Operand, npt.NDArray[np.uint32]]:
    rng = np.random.default_rng(8)
    shape = (1, 90, 110, 300)
    a, b, c = dense(rng, 1, 90, 300), dense(rng, 1, 300, 110), dense(rng, 1, 90, 110)
    a.buffer[:5000] *= np.float32(1e-30)
    b.buffer[:5000] *= np.float32(1e-12)
    expected = words(defined(a.buffer[a.indices(1, 90, 300)], b.buffer[b.indices(1, 300, 110)]))
    return shape, a, b, c, expected


def test_flush_to_zero_set_beforehand__does_not_change_bits_and_is_put_back() -> None:
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(9)
    a, b, c = dense(rng, 1, 70, 60), dense(rng, 1, 60, 80), dense(rng, 1, 70, 80)
    a.buffer[:] *= np.float32(1e-25)
    b.buffer[:] *= np.float32(1e-18)
    expected = words(defined(a.buffer[a.indices(1, 70, 60)], b.buffer[b.indices(1, 60, 80)]))
    tiny = np.full(1, 1e-40, dtype=np.float32)
    if not torch.set_flush_denormal(True):
        pytest.skip("this CPU has no flush to zero")
    try:
        got = [run((1, 70, 80, 60), a, b, c, isa, threads) for isa in ISAS for threads in (1, 2)]
        still_flushing = float((tiny * np.float32(1.0))[0]) == 0.0
    finally:
        torch.set_flush_denormal(False)
    assert all((words(values) == expected).all() for values in got)
    assert still_flushing, "the caller's mode is the caller's"


def test_concurrent_calls_from_python_threads__all_get_their_bits() -> None:
    shape, a, b, c, expected = large_case()
    with ThreadPoolExecutor(4) as pool:
        futures = [pool.submit(run, shape, a, b, c, isa, 1 + i % 3) for i in range(30) for isa in ISAS[:1]]
        assert all((words(future.result(timeout=HANG_S)) == expected).all() for future in futures)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_fork__after_threads_were_started__works_in_the_child() -> None:
    script = """
import os, sys, threading
from tests.repops.test_gemm import ISAS, large_case, run, words
shape, a, b, c, expected = large_case()
isa = ISAS[0]
assert (words(run(shape, a, b, c, isa, 3)) == expected).all()
stop = threading.Event()
def busy():
    while not stop.is_set():
        run(shape, a, b, c, isa, 2)
thread = threading.Thread(target=busy)
thread.start()  # the pool is taken, most of the time, when the process forks
for _ in range(10):
    child = os.fork()
    if child == 0:
        good = all((words(run(shape, a, b, c, isa, n)) == expected).all() for n in (2, 3))
        os._exit(0 if good else 1)
    assert os.waitpid(child, 0)[1] == 0
stop.set()
thread.join()
assert (words(run(shape, a, b, c, isa, 3)) == expected).all()
print("fine")
"""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script], capture_output=True, text=True, timeout=HANG_S, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "fine"
