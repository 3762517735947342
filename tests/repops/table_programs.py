"""Programs that between them reach every kernel, and the check that a runner gives the reference's bits on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from repops import reference
from repops.backend import DTYPE, Runner
from repops.builder import Builder, View
from repops.commitments import Array, canonical
from repops.graph import BATCH_ROLE, BUFFER, F32, I32, PARAMETER, STATE_ROLE, Graph
from repops.operators import TABLE
from tests.repops import samples

Sample = tuple[Graph, dict[str, Array], dict[str, Array]]  # the program, its state, its batch

ODD = [0x0, 0x80000000, 0x7FC00000, 0xFFC00001, 0x7F800001, 0x7F800000, 0xFF800000, 0x1, 0x80000001, 0x007FFFFF]
ODD += [0x00800000, 0x7F7FFFFF, 0xFF7FFFFF, 0x3F800000, 0xBF800000, 0x4B000000, 0xCF000000, 0x4F000000, 0xFFFFFFFF]


def words(rng: np.random.Generator, dtype: str, shape: tuple[int, ...]) -> Array:
    """Random values of all sizes; one in three is odd: a NaN, a zero, an infinity, a subnormal, an end of a range."""
    count = int(np.prod(shape))
    if dtype == F32:
        scale = 2.0 ** rng.integers(-12, 12, count)
        plain = (rng.standard_normal(count) * scale).astype(np.float32).view(np.uint32)
    else:
        plain = rng.integers(-40, 40, count).astype(np.int32).view(np.uint32)
    odd = rng.choice(np.array(ODD, np.uint32), count)
    return np.where(rng.random(count) < 1 / 3, odd, plain).view(DTYPE[dtype]).reshape(shape)


def ordinary(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return rng.standard_normal(shape).astype(np.float32)


def bits(array: Array) -> Array:
    return canonical(array).reshape(-1).view(np.uint32)


def assert_agree(sample: Sample, runners: Sequence[Runner]) -> None:
    """Trace, loss, and two steps of each runner against the reference."""
    graph, state, batch = sample
    oracle = reference.prepare(graph)
    for each in (oracle, *runners):
        for name, array in state.items():
            each.state[name][...] = array
    traced = zip(graph.nodes, oracle.trace(batch), runners[0].trace(batch), strict=True)
    for at, (node, expected, got) in enumerate(traced):
        assert (bits(expected) == got.reshape(-1).view(np.uint32)).all(), f"node {at} ({node.op})"
    assert_same_number(oracle.loss(batch), runners[0].loss(batch))
    for step in range(2):
        loss = oracle.step(batch)
        for runner in runners:
            assert_same_number(loss, runner.step(batch))
            for name, array in oracle.state.items():
                assert (bits(array) == bits(runner.state[name])).all(), f"{name} after step {step}"


def assert_same_number(a: float, b: float) -> None:
    assert np.float32(a).tobytes() == np.float32(b).tobytes() or (a != a and b != b)


class _Words:
    """An array's words as Python's integers: the reference's lists, for arrays too large to make lists of."""

    def __init__(self, array: Array) -> None:
        self._words = array.reshape(-1).view(np.uint32)

    def __getitem__(self, index: int) -> int:
        return int(self._words[index])


def assert_elements(graph: Graph, batch: Mapping[str, Array], result: Array, count: int = 24) -> None:
    """Some elements of the program's only `dot`, whose operands are in the batch, against the reference."""
    node = next(node for node in graph.nodes if node.op == "dot")
    values = [_Words(np.empty(0, np.float32)) for _ in graph.nodes]
    for name, at in graph.batch:
        values[at] = _Words(batch[name])
    picked = np.random.default_rng(0).integers(0, node.elements, count).tolist()
    got = bits(result)
    for element in {0, node.elements - 1, *picked}:
        assert reference.element(node, element, values) == got[element], element  # type: ignore[arg-type]


def kept_by(b: Builder, results: Mapping[str, View], batch: Mapping[str, View]) -> Graph:
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
            given = [pools[letter][(at + turn) % 3].expand(shape) for at, letter in enumerate(letters)]
            results[f"{row.name}/{turn}"] = b.map(row.name, *given)
    given_batch = {f"b{at}": view for at, view in enumerate(inputs)}
    graph = kept_by(b, results, given_batch)
    batch = {name: words(rng, view.dtype, view.shape) for name, view in given_batch.items()}
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
    graph = kept_by(b, results, batch)
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
    return kept_by(b, {"out": product}, inputs), {}, values


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
    graph = kept_by(b, results, inputs)
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
    return kept_by(b, results, inputs), {}, batch


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


def whole(graph: Graph) -> Sample:
    """With ordinary numbers and small indices."""
    rng = np.random.default_rng(6)

    def given(at: int) -> Array:
        node = graph.nodes[at]
        return ordinary(rng, node.shape) if node.dtype == F32 else rng.integers(0, 5, node.shape).astype(np.int32)

    state = {entry.name: given(entry.before) for entry in graph.state}
    return graph, state, {name: given(at) for name, at in graph.batch}


def lookup_sample() -> Sample:
    return whole(samples.lookup())


def table() -> dict[str, Sample]:
    """Between them every operator of the table."""
    return {
        "elementwise": elementwise(),
        "reductions": reductions(),
        "convolutions": convolutions(),
        "indexed": indexed(),
        "exchange": exchange(),
        "regression": whole(samples.regression()),
        "lookup": lookup_sample(),
        "convolution": whole(samples.convolution()),
        "empty": whole(samples.empty()),
    }
