"""The conformance programs. Together they use every operator and every kernel, on many special values.

The `small` ones also run on the reference executor; the `large` ones have the sizes at which a GPU's kernels differ.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np

from repops.backend import DTYPE
from repops.builder import Builder, View
from repops.commitments import Array
from repops.graph import BATCH_ROLE, BUFFER, F32, I32, PARAMETER, STATE_ROLE, Graph
from repops.operators import TABLE

Sample = tuple[Graph, dict[str, Array], dict[str, Array]]  # the program, its state, its batch

EDGE_CASE_WORDS = [
    0x0,
    0x80000000,
    0x7FC00000,
    0xFFC00001,
    0x7F800001,
    0x7F800000,
    0xFF800000,
    0x1,
    0x80000001,
    0x007FFFFF,
]
EDGE_CASE_WORDS += [
    0x00800000,
    0x7F7FFFFF,
    0xFF7FFFFF,
    0x3F800000,
    0xBF800000,
    0x4B000000,
    0xCF000000,
    0x4F000000,
    0xFFFFFFFF,
]


def words(rng: np.random.Generator, dtype: str, shape: tuple[int, ...]) -> Array:
    """Random values of all sizes; one in three is special: NaN, zero, infinity, subnormal or the end of a range."""
    count = int(np.prod(shape))
    if dtype == F32:
        scale = 2.0 ** rng.integers(-12, 12, count)
        plain = (rng.standard_normal(count) * scale).astype(np.float32).view(np.uint32)
    else:
        plain = rng.integers(-40, 40, count).astype(np.int32).view(np.uint32)
    odd = rng.choice(np.array(EDGE_CASE_WORDS, np.uint32), count)
    return np.where(rng.random(count) < 1 / 3, odd, plain).view(DTYPE[dtype]).reshape(shape)


def ordinary(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return rng.standard_normal(shape).astype(np.float32)


def program_returning(b: Builder, results: Mapping[str, View], batch: Mapping[str, View]) -> Graph:
    """A program whose state after a step is these results."""
    state = []
    for at, (name, view) in enumerate(results.items()):
        state.append((name, BUFFER, b.input(view.dtype, view.shape, STATE_ROLE, at), view))
    loss = b.map("copy", b.scalar(0.5, F32))
    return b.finish(state, list(batch.items()), loss)


def elementwise() -> Sample:
    """Every operator twice, on views of all kinds and odd words."""
    rng, b, shape = np.random.default_rng(1), Builder(), (3, 5, 7)
    shapes = [(F32, shape), (F32, (7, 5)), (F32, (7,)), (I32, shape), (I32, (3, 1, 14)), (I32, (3, 1, 1))]
    inputs = [b.input(dtype, extents, BATCH_ROLE, at) for at, (dtype, extents) in enumerate(shapes)]
    pools = {
        "f": [inputs[0], inputs[1].transpose(0, 1), inputs[2].flip(0)],
        "i": [inputs[3], inputs[4].slice(2, 0, 14, 2), inputs[5]],
    }
    results: dict[str, View] = {}
    for row in TABLE.values():
        if not row.is_map:
            continue
        for turn in range(2):
            letters = row.operands.replace("w", "fi"[turn])
            operands = [pools[letter][(at + turn) % 3].expand(shape) for at, letter in enumerate(letters)]
            results[f"{row.name}/{turn}"] = b.map(row.name, *operands)
    views = {f"b{at}": view for at, view in enumerate(inputs)}
    graph = program_returning(b, results, views)
    batch = {name: words(rng, view.dtype, view.shape) for name, view in views.items()}
    return graph, {}, batch


def reductions() -> Sample:
    """Every one over several lengths, one axis and two, backwards."""
    rng, b = np.random.default_rng(2), Builder()
    results: dict[str, View] = {}
    batch: dict[str, View] = {}
    for dtype, names in ((F32, ("sum", "sum_sequential", "reduce_max")), (I32, ("isum", "reduce_imax"))):
        for length in (0, 1, 31, 33, 1100):
            x = batch[f"{dtype}/{length}"] = b.input(dtype, (3, length, 2), BATCH_ROLE, len(batch))
            for name in names:
                results[f"{name}/{length}/inner"] = b.reduce(name, x, [1, 2])
                results[f"{name}/{length}/middle"] = b.reduce(name, x.flip(1).transpose(0, 2), [1])
    graph = program_returning(b, results, batch)
    values = {name: words(rng, view.dtype, view.shape) for name, view in batch.items()}
    for name in ("f32/1100", "f32/33"):
        values[name] = ordinary(rng, values[name].shape)  # odd words would end every sum in NaN
    return graph, {}, values


def product(rows: int, columns: int, count: int, layout: str, batches: int = 2) -> Sample:
    """A batched matrix product. layout: for left and right whether terms (t) or lines (l) lie side by side, x for every
    second word, o in lines of odd length, p from the second word of a line on; z swaps sides."""
    rng, b = np.random.default_rng(rows * columns + count), Builder()
    sides = []
    for at, (how, lines) in enumerate(zip(layout, (rows, columns), strict=False)):
        extents = {"t": (lines, count), "l": (count, lines), "x": (lines, 2 * count), "o": (lines, count + 1)}
        view = b.input(F32, (batches, *(extents | {"p": (lines, count + 4)})[how]), BATCH_ROLE, at)
        first, step = int(how == "p"), 1 + (how == "x")
        turned = view.transpose(1, 2) if how == "l" else view.slice(2, first, first + step * count, step)
        sides.append((view, turned))
    shape = (batches, rows, columns, count)
    left = sides[0][1].unsqueeze(2).expand(shape)
    right = sides[1][1].unsqueeze(1).expand(shape)
    if layout.endswith("z"):
        left, right = left.transpose(1, 2), right.transpose(1, 2)
    product = b.dot(left, right, 1)
    inputs = {"a": sides[0][0], "b": sides[1][0]}
    values = {name: ordinary(rng, view.shape) for name, view in inputs.items()}
    # In the first batch every sum underflows to -0: neither padding nor the first block may turn it into +0.
    for name, sign in (("a", 1), ("b", -1)):
        values[name][1:].reshape(-1)[::3] *= np.float32(2.0**-90)
        values[name][0] = (np.abs(values[name][0]) + 1) * np.float32(sign * 2.0**-90)
    return program_returning(b, {"out": product}, inputs), {}, values


def convolutions() -> Sample:
    """Convolution with padding and steps, one with groups, an outer product, a product with itself, two reduced axes."""
    rng, b = np.random.default_rng(3), Builder()
    image, kernel = b.input(F32, (2, 4, 9, 8), BATCH_ROLE, 0), b.input(F32, (6, 4, 3, 3), BATCH_ROLE, 1)
    padded = b.pad(b.pad(image, 2, 1, 1), 3, 1, 2)
    windows = padded.window(2, 3, 2).window(3, 3, 1, 2).permute([0, 2, 3, 1, 4, 5])
    shape = (2, 6, windows.shape[1], windows.shape[2], 4, 3, 3)
    left = windows.unsqueeze(1).expand(shape)
    right = kernel.unsqueeze(1).unsqueeze(1).unsqueeze(0).expand(shape)
    depthwise = kernel.select(0, 0).unsqueeze(0).unsqueeze(0).unsqueeze(0).expand((*windows.shape[:3], 4, 3, 3))
    vector = b.input(F32, (40,), BATCH_ROLE, 2)
    outer = (40, 40, 1)
    results = {
        "convolved": b.dot(left, right, 3),
        "deep": b.dot(windows, depthwise, 2),
        "outer": b.dot(
            vector.unsqueeze(1).unsqueeze(2).expand(outer), vector.unsqueeze(0).unsqueeze(2).expand(outer), 1
        ),
        "square": b.dot(vector, vector, 1),
        "scaled": b.dot(vector.unsqueeze(1), b.scalar(-0.0, F32).expand((40, 1)), 1),
    }
    inputs = {"image": image, "kernel": kernel, "vector": vector}
    graph = program_returning(b, results, inputs)
    return graph, {}, {name: ordinary(rng, view.shape) for name, view in inputs.items()}


def indexed() -> Sample:
    """take, scatter, rank, concat; rows in and out of range."""
    rng, b = np.random.default_rng(4), Builder()
    table, index = b.input(F32, (6, 5), BATCH_ROLE, 0), b.input(I32, (11,), BATCH_ROLE, 1)
    value, own = b.input(F32, (11, 5), BATCH_ROLE, 2), b.input(I32, (11, 5), BATCH_ROLE, 3)
    none = index.slice(0, 4, 4)
    results: dict[str, View] = {"taken": b.take(table.flip(0).transpose(0, 1).unsqueeze(0).expand((11, 5, 6)), own)}
    for adds in (True, False):
        results[f"rows/{adds}"] = b.scatter(table, 0, index, value, adds=adds)
        results[f"columns/{adds}"] = b.scatter(table.transpose(0, 1), 1, index, value, adds=adds)
        results[f"own/{adds}"] = b.scatter(b.scalar(0.0, F32).expand((6, 5)), 0, own, value, adds=adds)
        results[f"none/{adds}"] = b.scatter(table, 0, none, value.slice(0, 4, 4), adds=adds)
    for axis in (0, 1):
        results[f"rank/{axis}"] = b.rank(table, axis)
        joined = [table, table.flip(0), table.slice(axis, 2, 2), b.scalar(3.0, F32).expand((6, 5))]
        results[f"joined/{axis}"] = b.concat(joined, axis)
    results["places"] = b.copy(b.iota(6).unsqueeze(1).expand((6, 5)))
    inputs = {"table": table, "index": index, "value": value, "own": own}
    batch = {name: words(rng, view.dtype, view.shape) for name, view in inputs.items()}
    batch["index"] = np.array([3, 1, 3, -1, 0, 6, 3, 5, 1, 0, 3], np.int32)
    batch["own"] = rng.integers(-1, 7, (11, 5)).astype(np.int32)
    return program_returning(b, results, inputs), {}, batch


def exchange() -> Sample:
    """States that swap, that take the batch, that are the loss, that others read after they change, that share one."""
    b = Builder()
    names = ["a", "b", "batch", "half", "last", "loss", "same"]
    before = {name: b.input(F32, (4,) if name != "loss" else (), STATE_ROLE, at) for at, name in enumerate(names)}
    x = b.input(F32, (4,), BATCH_ROLE, 0)
    late = b.map("add", before["half"], b.sum(before["last"], [0]).unsqueeze(0).expand((4,)))
    half = b.map("mul", before["half"], 0.5)
    after = {
        "a": before["b"],
        "b": before["a"],
        "batch": x,
        "half": half,
        "last": b.map("sub", before["last"].flip(0), late),
        "loss": b.sum(x, [0]),
        "same": half,
    }
    state = [(name, PARAMETER, before[name], after[name]) for name in names]
    graph, rng = b.finish(state, [("x", x)], before["loss"]), np.random.default_rng(7)
    values = {entry.name: ordinary(rng, graph.nodes[entry.before].shape) for entry in graph.state}
    return graph, values, {"x": ordinary(rng, (4,))}


def chains() -> Sample:
    """Long runs of elementwise operators, which backends join into one pass: views of all kinds, some results kept."""
    rng, b, shape = np.random.default_rng(8), Builder(), (3, 10, 35)
    extents = [(F32, shape), (F32, (35, 10)), (F32, (3, 1, 70)), (I32, shape), (I32, (35,)), (I32, (3, 10, 1))]
    inputs = [b.input(dtype, extent, BATCH_ROLE, at) for at, (dtype, extent) in enumerate(extents)]
    table = b.constant(ordinary(rng, (10, 35)))
    known = {
        F32: [inputs[0], inputs[1].transpose(0, 1), inputs[2].slice(2, 1, 70, 2), table],
        I32: [inputs[3], inputs[4].flip(0), inputs[5], b.iota(35)],
    }
    fresh = {dtype: list(views) for dtype, views in known.items()}
    results: dict[str, View] = {}

    def pick(dtype: str, place: int) -> View:
        """The newest value first, so that chains grow; beside it often one from outside, so that values stay many."""
        views = known[dtype][-1:] if place == 0 else fresh[dtype] if rng.random() < 0.6 else known[dtype][-4:]
        return views[int(rng.integers(len(views)))].expand(shape)

    maps = [row for row in TABLE.values() if row.is_map]
    for turn, at in enumerate(rng.permutation(3 * len(maps))):
        row, own = maps[int(at) % len(maps)], (F32, I32)[turn % 2]
        letters = row.operands.replace("w", "f" if own == F32 else "i")
        value = b.map(row.name, *(pick({"f": F32, "i": I32}[letter], n) for n, letter in enumerate(letters)))
        known[value.dtype].append(value)
        if turn % 7 == 6:
            results[f"{turn:03}"] = value
    batch = {f"b{at}": view for at, view in enumerate(inputs)}
    values = {name: words(rng, view.dtype, view.shape) for name, view in batch.items()}
    values |= {"b1": ordinary(rng, (35, 10)), "b2": ordinary(rng, (3, 1, 70))}
    return program_returning(b, results, batch), {}, values


def sweep() -> Sample:
    """Every elementwise operator on words of all kinds: any bits at all, and in every eighth place an odd word."""
    rng, b, count = np.random.default_rng(9), Builder(), 1 << 17
    inputs = {f"{dtype}{at}": b.input(dtype, (count,), BATCH_ROLE, at) for dtype in (F32, I32) for at in range(3)}
    results = {}
    for row in TABLE.values():
        if row.is_map:
            letters = row.operands.replace("w", "f")
            operands = [inputs[f"{F32 if letter == 'f' else I32}{at}"] for at, letter in enumerate(letters)]
            results[row.name] = b.map(row.name, *operands)
    batch = {}
    for at, (name, view) in enumerate(inputs.items()):
        drawn = rng.integers(0, 1 << 32, count, np.uint32)
        drawn[at::8] = rng.choice(np.array(EDGE_CASE_WORDS, np.uint32), len(drawn[at::8]))
        batch[name] = drawn.view(DTYPE[view.dtype])
    return program_returning(b, results, inputs), {}, batch


def long_reductions() -> Sample:
    """Long chains over few elements, short ones over many; sums of large and of cancelling terms."""
    rng, b = np.random.default_rng(10), Builder()
    shapes = {"long": (3, 70_001), "wide": (5_003, 37), "huge": (2, 4_099), "deep": (1, 700_000)}
    results: dict[str, View] = {}
    batch: dict[str, View] = {}
    for dtype, names in ((F32, ("sum", "sum_sequential", "reduce_max")), (I32, ("isum", "reduce_imax"))):
        for kind, shape in shapes.items():
            x = batch[f"{kind}/{dtype}"] = b.input(dtype, shape, BATCH_ROLE, len(batch))
            for name in names:
                results[f"{name}/{kind}/1"] = b.reduce(name, x, [1])
                results[f"{name}/{kind}/0"] = b.reduce(name, x.flip(1), [0])
    values: dict[str, Array] = {}
    for name, view in batch.items():
        if view.dtype == I32:
            values[name] = rng.integers(-(1 << 31), 1 << 31, view.shape).astype(np.int32)
        else:
            scale = {"huge": 2.0**125, "deep": 2.0**-140}.get(name.partition("/")[0], 1.0)
            values[name] = (rng.standard_normal(view.shape) * scale).astype(np.float32)
    return program_returning(b, results, batch), {}, values


def large_indexed() -> Sample:
    """A vocabulary's gather and its gradient; rows that meet often, and more terms than a row's are linked for."""
    rng, b = np.random.default_rng(11), Builder()
    table, index = b.input(F32, (1_009, 33), BATCH_ROLE, 0), b.input(I32, (3_001,), BATCH_ROLE, 1)
    value, many = b.input(F32, (3_001, 33), BATCH_ROLE, 2), b.input(I32, (70_001,), BATCH_ROLE, 3)
    few, ones = b.input(F32, (5, 2), BATCH_ROLE, 4), b.input(F32, (70_001, 2), BATCH_ROLE, 5)
    spread = table.transpose(0, 1).unsqueeze(0).expand((3_001, 33, 1_009))
    results = {"taken": b.take(spread, index.unsqueeze(1).expand((3_001, 33))), "rank": b.rank(table, 0)}
    results["joined"] = b.concat([table, value, table.flip(1)], 0)
    for adds in (True, False):
        results[f"linked/{adds}"] = b.scatter(table, 0, index, value, adds=adds)
        results[f"walked/{adds}"] = b.scatter(few, 0, many, ones, adds=adds)
    inputs = {"table": table, "index": index, "value": value, "many": many, "few": few, "ones": ones}
    batch = {name: ordinary(rng, view.shape) for name, view in inputs.items() if view.dtype == F32}
    batch["index"] = (rng.integers(-2, 1_011, 3_001) // rng.integers(1, 40, 3_001)).astype(np.int32)
    batch["many"] = rng.integers(-1, 6, 70_001).astype(np.int32)
    return program_returning(b, results, inputs), {}, batch


def products(*sizes: tuple[int, int, int, str]) -> dict[str, Callable[[], Sample]]:
    """rows, columns, terms, layout."""
    return {f"product {m}x{n}x{k} {how}": partial(product, m, n, k, how) for m, n, k, how in sizes}


# By name; each is made when it is wanted.
SMALL: dict[str, Callable[[], Sample]] = {
    "elementwise": elementwise,
    "reductions": reductions,
    "convolutions": convolutions,
    "indexed": indexed,
    "exchange": exchange,
    "chains": chains,
    **products((12, 9, 8, "xlz"), (33, 70, 21, "xt"), (1, 40, 600, "tl"), (3, 2, 0, "tt"), (20, 70, 0, "tt")),
}
# A GPU has a kernel for each size of product, with the terms of a block each alone or together (cuda/dots.py).
LARGE: dict[str, Callable[[], Sample]] = {
    "sweep": sweep,
    "long reductions": long_reductions,
    "large indexed": large_indexed,
    **products(
        (1408, 1280, 264, "tt"), (1409, 1283, 520, "ll"), (130, 132, 6500, "ll"), (650, 652, 250, "tl"), (300, 301, 1201, "ltz"),
        (48, 64, 64, "lt"), (36, 64, 264, "lx"), (32, 64, 16, "op"), (4, 7000, 300, "tl"), (5, 3, 20, "xt"), (7, 3000, 5000, "tl"),
    ),
}  # fmt: skip
