"""A trace in pieces is the trace, whatever the pieces."""

from __future__ import annotations

import random

import numpy as np
import pytest

from repops import backend, streaming
from repops.conformance.compare import bits
from repops.encoding import descriptor, read_descriptor
from repops.merkle import Tree, merkle_proof, merkle_root, sha256
from tests.support.programs.table_programs import table

PROGRAMS = table()


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("piece_bytes", [0, 3000, 1 << 28])
def test_values__in_pieces_of_any_size__are_those_of_the_whole_trace(name, piece_bytes):
    graph, state, batch = PROGRAMS[name]
    runner = backend.prepare(graph)
    for entry, array in state.items():
        runner.state[entry][...] = array
    expected = runner.trace(batch)
    values = list(streaming.values(graph, runner.state, batch, piece_bytes=piece_bytes))
    assert [at for at, _ in values] == list(range(len(graph.nodes)))
    assert all((bits(expected[at]) == bits(value)).all() and expected[at].shape == value.shape for at, value in values)


@pytest.mark.parametrize("name", PROGRAMS)
def test_values__of_some_nodes__need_only_what_these_read(name):
    graph, state, batch = PROGRAMS[name]
    runner = backend.prepare(graph)
    for entry, array in state.items():
        runner.state[entry][...] = array
    expected, rng = runner.trace(batch), random.Random(name)
    for node in rng.sample(range(len(graph.nodes)), min(6, len(graph.nodes))):
        values = dict(streaming.values(graph, runner.state, batch, wanted=[node], piece_bytes=2000))
        assert max(values) == node
        assert (bits(values[node]) == bits(expected[node])).all()


def test_values__hold_no_more_than_what_is_still_read(monkeypatch):
    """What nobody reads any more is dropped."""
    graph, _, batch = PROGRAMS["elementwise"]
    sizes = []
    compute = streaming.compute

    def counted(graph, piece, live, **options):
        sizes.append(sum(np.asarray(value).nbytes for value in live.values()))
        return compute(graph, piece, live, **options)

    monkeypatch.setattr(streaming, "compute", counted)
    runner = backend.prepare(graph)
    total = sum(value.nbytes for _, value in streaming.values(graph, runner.state, batch, piece_bytes=0))
    assert max(sizes) < total / 4


@pytest.mark.parametrize("name", PROGRAMS)
def test_values__of_pieces_that_are_kept__are_those_of_fresh_ones_whatever_was_computed_between(name):
    graph, given, batch = PROGRAMS[name]
    state = backend.prepare(graph).state | given
    kept, made = streaming.KeptPieces(), []

    def prepare(piece):
        made.append(piece)
        return backend.prepare(piece)

    def zeros(arrays):
        return {entry: np.zeros_like(array) for entry, array in arrays.items()}

    for inputs in ((state, batch), (zeros(state), zeros(batch)), (state, batch)):
        again = list(streaming.values(graph, *inputs, piece_bytes=2000, prepare=prepare, kept=kept))
        for (at, value), (_, fresh) in zip(again, streaming.values(graph, *inputs, piece_bytes=2000), strict=True):
            assert (bits(value) == bits(fresh)).all(), at
    assert len(made) == len(kept.pieces), "each piece is made ready once"


def test_pieces__above_the_limit__are_made_anew_each_time():
    graph, given, batch = PROGRAMS["elementwise"]
    state = backend.prepare(graph).state | given
    kept, made = streaming.KeptPieces(limit_bytes=4_000), []

    def prepare(piece):
        made.append(piece)
        return backend.prepare(piece)

    for _ in range(2):
        list(streaming.values(graph, state, batch, piece_bytes=2000, prepare=prepare, kept=kept))
    assert 0 < kept.size_bytes <= 4_000
    assert len(made) > len(kept.pieces) > 0
    assert (len(made) - len(kept.pieces)) % 2 == 0


@pytest.mark.parametrize("leaves", [0, 1, 2, 3, 5, 8, 19])
def test_tree__opens_what_proofs_open(leaves):
    hashes = [sha256(bytes([at])) for at in range(leaves)]
    tree = Tree(hashes)
    assert tree.root == merkle_root(hashes)
    for at in range(leaves):
        assert list(tree.path(at)) == merkle_proof(hashes, at)
    for height in range(tree.height + 1):
        for depth in range(height + 1):
            assert merkle_root(list(tree.below(height, 0, depth))) == tree.node(height, 0) or not leaves


@pytest.mark.parametrize("name", PROGRAMS)
def test_read_descriptor__gives_the_node_back(name):
    for node in PROGRAMS[name][0].nodes:
        assert read_descriptor(descriptor(node)) == node
