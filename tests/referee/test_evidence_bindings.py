"""Evidence 1 to 5: ends, beginnings, outputs, inputs and constants. A true lie convicts, what is honest never does."""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256

import numpy as np
import pytest

from node.disputes.trees import OpenedProgram
from repops import encoding
from repops.builder import Builder
from repops.commitments import segment_leaf, sorted_names, state_root, tensor_root
from repops.graph import F32, OPTIMIZER, STATE_ROLE, Graph
from repops.merkle import merkle_proof, merkle_root
from tests.referee.evidence_contracts import MANIFEST, deploy, evidence_result, flips
from tests.referee.traced_step import HERE, TracedStep, at_entry, step_program, tensor_in
from tests.support.programs.random_programs import fill
from tests.support.protocol_driver import load
from zoo_compute.disputes.evidence import Begin, Constant, End, Evidence, Input, Output, WholeTensor, encode, entry_of
from zoo_compute.formats.aggregation import AggregationSpec, OuterOptimizer
from zoo_compute.formats.manifest import Compression
from zoo_compute.spec.frames import Frame, Kind, Phase, Position
from zoo_compute.spec.merkle import climb
from zoo_compute.spec.trials import TRIALS
from zoo_compute.training.rounds import aggregation_program, begin, checkpoint_nodes, update_program

JOINING = AggregationSpec(2, OuterOptimizer(0.5, 0.5))
GRAPH = step_program()
NAMES = [entry.name for entry in GRAPH.state]
B, M, SEED, W = range(4)
ROUND, SLOT = 3, 2


@pytest.fixture(scope="module")
def judges():
    return deploy(bytes(32))


@pytest.fixture(scope="module")
def step() -> TracedStep:
    return TracedStep(GRAPH, *fill(np.random.default_rng(1), GRAPH))


def convicts(judges, frame: Frame, position: Position, evidence: Evidence) -> bool:
    return evidence_result(judges, frame, position, evidence) == ""


def holds(judges, frame: Frame, position: Position, evidence: Evidence, count: int = 40) -> None:
    """What is honest is not false, whichever bit of the evidence is changed."""
    assert evidence_result(judges, frame, position, evidence) == "evidence: not false"
    for bent in flips(encode(evidence), count):
        assert evidence_result(judges, frame, position, bent, kind=evidence.KIND) != ""


def only_in(judges, frame: Frame, position: Position, evidence: Evidence) -> None:
    """What convicts where the game stands says nothing in any other of its trees."""
    assert convicts(judges, frame, position, evidence)
    for phase in set(Phase) - {position.phase}:
        assert evidence_result(judges, frame, replace(position, phase=phase), evidence) == "evidence: not here", phase


# --- 1: the end


def segments(steps: int, every: int) -> tuple[Frame, list[bytes]]:
    marks = [*range(0, steps, every), steps]
    leaves = [segment_leaf(at, bytes([at]) * 32) for at in marks]
    root = merkle_root(leaves)
    end = bytes([steps]) * 32
    return Frame(job=1, inner_steps=steps, segment_steps=every, segment_root=root, end_root=end), leaves


@pytest.mark.parametrize(("steps", "every"), [(1, 1), (7, 3), (8, 2), (9, 2), (20, 30)])
def test_the_last_state__is_the_end_root__or_the_claim_is_false(judges, steps: int, every: int):
    frame, leaves = segments(steps, every)
    position = Position(Phase.SEGMENTS, 1, 0, HERE, bytes(32))
    evidence = End(bytes([steps]) * 32, tuple(merkle_proof(leaves, len(leaves) - 1)))
    holds(judges, frame, position, evidence)
    assert convicts(judges, replace(frame, end_root=HERE), position, evidence)
    earlier = End(bytes([0]) * 32, tuple(merkle_proof(leaves, 0)))
    assert evidence_result(judges, frame, position, earlier) == "evidence: state does not match"
    false = replace(frame, end_root=HERE)
    only_in(judges, false, position, evidence)
    for path in ((*evidence.path, HERE), evidence.path[:-1]):
        assert (
            evidence_result(judges, false, position, replace(evidence, path=path)) == "evidence: state does not match"
        )
        # Nor does it under a root that this path does lead to: the tree has another height.
        other = replace(false, segment_root=climb(leaves[-1], len(leaves) - 1, path))
        assert (
            evidence_result(judges, other, position, replace(evidence, path=path)) == "evidence: state does not match"
        )


def test_a_trial__claims_no_end_that_could_be_false(judges):
    frame, leaves = segments(4, 1)
    position = Position(Phase.SEGMENTS, 1, 0, HERE, bytes(32))
    evidence = End(bytes([4]) * 32, tuple(merkle_proof(leaves, 4)))
    assert convicts(judges, replace(frame, end_root=bytes(32)), position, evidence)
    of_trial = replace(frame, job=TRIALS, end_root=bytes(32))
    assert evidence_result(judges, of_trial, position, evidence) == "evidence: not here"


# --- 2: the beginning


def draws() -> int:
    """The manifest's rule, with its digest (`Manifest.draws`)."""
    digest = sha256(b"seed" + MANIFEST + ROUND.to_bytes(4, "little") + SLOT.to_bytes(4, "little")).digest()
    return int.from_bytes(digest[:4], "little", signed=True)


@pytest.fixture(scope="module")
def started():
    rng = np.random.default_rng(5)
    checkpoint = {
        name: rng.standard_normal(node.shape).astype(np.float32)
        for name, node in checkpoint_nodes(GRAPH, JOINING).items()
    }
    state = {
        e.name: np.zeros(GRAPH.nodes[e.before].shape, np.int32 if e.name == "seed" else np.float32) for e in GRAPH.state
    }
    begin(GRAPH, state, checkpoint, draws())
    frame = Frame(
        job=1,
        round=ROUND,
        slot=SLOT,
        program_root=encoding.root(GRAPH),
        start_root=state_root(checkpoint),
        after=state_root(state),
        is_begin=1,
    )
    return frame, state, checkpoint


def begins(checkpoint, index: int, graph: Graph = GRAPH) -> Begin:
    entry = graph.state[index]
    if entry.kind != OPTIMIZER:
        return Begin(entry_of(graph, index), tensor_in(checkpoint, entry.name))
    path = OpenedProgram(graph).nodes.path(entry.before)
    return Begin(entry_of(graph, index), descriptor=encoding.descriptor(graph.nodes[entry.before]), path=path)


@pytest.mark.parametrize("index", [B, M, SEED, W])
def test_the_state_at_step_0__follows_from_checkpoint_and_manifest(judges, started, index: int):
    frame, state, checkpoint = started
    evidence = begins(checkpoint, index)
    holds(judges, frame, at_entry(state, NAMES, index), evidence)
    false = dict(state)
    false[NAMES[index]] = false[NAMES[index]] + np.ones((), false[NAMES[index]].dtype)
    assert convicts(judges, frame, at_entry(false, NAMES, index), evidence)
    renamed = {"x" if name == NAMES[index] else name: array for name, array in state.items()}
    names = ["x" if name == NAMES[index] else name for name in NAMES]
    assert convicts(judges, frame, at_entry(renamed, names, index), evidence)


def test_a_seed_of_another_slot_or_round__is_false(judges, started):
    frame, state, checkpoint = started
    for other in (replace(frame, slot=SLOT + 1), replace(frame, round=ROUND + 1)):
        assert convicts(judges, other, at_entry(state, NAMES, SEED), begins(checkpoint, SEED))


def test_a_seed__is_carried_over_by_nobody(judges, started):
    frame, state, checkpoint = started
    going_on, at_seed = replace(frame, carry=2), at_entry(state, NAMES, SEED)
    assert evidence_result(judges, going_on, at_seed, begins(checkpoint, SEED)) == "evidence: not false"
    assert (
        evidence_result(judges, going_on, at_entry(state, NAMES, M), begins(checkpoint, M)) == "evidence: other claim"
    )
    for carry in (0, 1, 3):  # a restart
        at_m, restart = at_entry(state, NAMES, M), replace(frame, carry=carry)
        assert evidence_result(judges, restart, at_m, begins(checkpoint, M)) == "evidence: not false"


def test_a_trials_seed__is_the_first_four_bytes_of_its_round(judges, started):
    frame, state, checkpoint = started
    seed = bytes.fromhex("01020384") + b"s" * 28
    of_trial = replace(frame, job=TRIALS, round=int.from_bytes(seed, "big"), slot=0)
    evidence, of_seed = begins(checkpoint, SEED), at_entry(state, NAMES, SEED)
    assert convicts(judges, of_trial, of_seed, evidence)
    seeded = state | {"seed": np.int32(int.from_bytes(seed[:4], "little", signed=True))}
    assert evidence_result(judges, of_trial, at_entry(seeded, NAMES, SEED), evidence) == "evidence: not false"
    assert convicts(judges, frame, at_entry(seeded, NAMES, SEED), evidence)


def test_a_beginning_shown_with_another_entry__or_elsewhere__is_refused(judges, started):
    frame, state, checkpoint = started
    at_w, at_m = at_entry(state, NAMES, W), at_entry(state, NAMES, M)
    of_w = begins(checkpoint, W)
    assert evidence_result(judges, frame, at_w, begins(checkpoint, B)) == "evidence: other entry"
    assert evidence_result(judges, frame, at_w, begins(checkpoint, M)) == "evidence: other entry"
    assert (
        evidence_result(judges, frame, at_w, replace(of_w, tensor=tensor_in(checkpoint, "b")))
        == "evidence: state does not match"
    )
    other = replace(begins(checkpoint, M), descriptor=encoding.descriptor(GRAPH.nodes[0]))
    assert evidence_result(judges, frame, at_m, other) == "evidence: other descriptor"
    assert evidence_result(judges, frame, replace(at_w, height=1), of_w) == "evidence: not here"
    only_in(judges, frame, replace(at_w, node=HERE), of_w)
    assert evidence_result(judges, replace(frame, is_begin=0), at_w, of_w) == "evidence: not here"
    foreign = replace(frame, program_root=HERE)
    assert evidence_result(judges, foreign, at_w, of_w) == "evidence: other program"


@pytest.mark.parametrize("shape", [(1, 2, 1, 300, 3), (2, 1, 3, 1, 300, 1, 1, 2)])
def test_a_beginning_of_many_axes__has_each_in_its_root(judges, shape: tuple[int, ...]):
    b = Builder()
    m = b.input(F32, shape, STATE_ROLE, 0)
    graph = b.finish([("m", OPTIMIZER, m, b.map("mul", m, 2.0))], [], b.sum(m, list(range(len(shape)))))
    frame = Frame(job=1, program_root=encoding.root(graph), is_begin=1)
    evidence = begins({}, 0, graph)
    for other_shape, reason in ((shape, "evidence: not false"), ((*shape[:-1], shape[-1] + 1), ""), (shape[::-1], "")):
        at_m = at_entry({"m": np.zeros(other_shape, np.float32)}, ["m"], 0)
        assert evidence_result(judges, frame, at_m, evidence) == reason, other_shape


def test_a_seed_that_is_no_integer__is_refused(judges):
    b = Builder()
    seed = b.input(F32, (), STATE_ROLE, 0)
    named = b.finish([("other", OPTIMIZER, seed, b.map("mul", seed, 2.0))], [], seed)
    # The builder refuses such a program; a file that nobody checked may say it.
    graph = replace(named, state=(replace(named.state[0], name="seed"),))
    frame = Frame(job=1, round=ROUND, slot=SLOT, program_root=encoding.root(graph), is_begin=1)
    at_seed = Position(Phase.STATE, 0, 0, HERE, bytes(32))
    assert evidence_result(judges, frame, at_seed, begins({}, 0, graph)) == "evidence: other descriptor"


@pytest.mark.parametrize("count", [0, 1, 2, 127, 128, 129, 255, 256, 257, 128 * 3, 128 * 5 + 7, 128 * 64, 128 * 65 - 1])
def test_a_tensor_of_one_word__of_any_size__has_the_root_that_its_words_have(count: int):
    double = load("mocks/FilledDouble").deploy()
    for word in (0, 0x01020304):
        tree = WholeTensor(b"", word.to_bytes(4, "little") * count)
        expected = tree.node(tree.height, 0) if count else bytes(32)
        assert double.root(count, word.to_bytes(4, "little")) == expected


def test_the_largest_tensor_of_zeros__has_a_root():
    """2^31 - 1 elements: the last leaf of 2^24 is one word short."""
    level, last = sha256(bytes(1 + 512)).digest(), sha256(bytes(1 + 508)).digest()
    for _ in range(24):
        level, last = sha256(b"\1" + level + level).digest(), sha256(b"\1" + level + last).digest()
    assert load("mocks/FilledDouble").deploy().root(2**31 - 1, bytes(4)) == last


# --- 3: outputs


def outputs(step: TracedStep, index: int) -> Output:
    after = step.graph.state[index].after
    return Output(entry_of(step.graph, index), tensor_root(step.values[after]), step.path(after))


def next_state(step: TracedStep) -> dict:
    return {entry.name: step.values[entry.after] for entry in step.graph.state}


@pytest.mark.parametrize("index", [B, M, SEED, W])
def test_the_state_after_a_step__is_what_its_trace_ends_in(judges, step: TracedStep, index: int):
    after = next_state(step)
    frame = step.frame(after=state_root(after))
    evidence = outputs(step, index)
    holds(judges, frame, at_entry(after, NAMES, index), evidence)
    false = after | {NAMES[index]: np.full_like(after[NAMES[index]], 5)}
    assert convicts(judges, frame, at_entry(false, NAMES, index), evidence)


def test_an_output_shown_with_another_node__is_refused(judges, step: TracedStep):
    after = next_state(step)
    frame, at_w = step.frame(after=state_root(after)), at_entry(after, NAMES, W)
    of_w, of_m = outputs(step, W), outputs(step, M)
    assert evidence_result(judges, frame, at_w, replace(of_m, entry=of_w.entry)) == "evidence: trace does not match"
    assert evidence_result(judges, frame, at_w, of_m) == "evidence: other entry"
    before = replace(of_w, root=tensor_root(step.state["w"]), path=step.path(GRAPH.state[W].before))
    assert evidence_result(judges, frame, at_w, before) == "evidence: trace does not match"
    for path in ((*of_w.path, HERE), of_w.path[:-1]):
        assert evidence_result(judges, frame, at_w, replace(of_w, path=path)) == "evidence: trace does not match"
        other = replace(frame, trace_root=climb(step.leaves[GRAPH.state[W].after], GRAPH.state[W].after, path))
        assert evidence_result(judges, other, at_w, replace(of_w, path=path)) == "evidence: trace does not match"
    only_in(judges, frame, replace(at_w, node=HERE), of_w)
    assert evidence_result(judges, replace(frame, is_begin=1), at_w, of_w) == "evidence: not here"
    assert evidence_result(judges, frame, replace(at_w, height=2), of_w) == "evidence: not here"


# --- 4: inputs


def inputs(step: TracedStep, node: int, source: dict, number: int) -> Input:
    entry = step.graph.state[number].name if number < len(step.graph.state) else step.graph.batch[0][0]
    return Input(step.descriptor(node), entry_of(step.graph, number), tensor_in(source, entry))


HERE_AT_NODE = Position(Phase.ELEMENTS, 1, 0, HERE, bytes(32))


@pytest.mark.parametrize("index", [B, M, SEED, W])
def test_an_input_of_a_step__is_the_tensor_of_the_state_before(judges, step: TracedStep, index: int):
    node = GRAPH.state[index].before
    evidence = inputs(step, node, dict(step.state), index)
    holds(judges, step.frame(node), HERE_AT_NODE, evidence)
    altered = np.full_like(step.values[node], 5)
    lying = replace(step, altered={node: altered})
    assert convicts(judges, lying.frame(node), HERE_AT_NODE, evidence)


def test_the_inputs_of_an_update_and_an_aggregation__are_the_claims_states(judges):
    rng = np.random.default_rng(4)
    ended = {e.name: rng.standard_normal(GRAPH.nodes[e.before].shape).astype(np.float32) for e in GRAPH.state}
    start = {
        n: rng.standard_normal(node.shape).astype(np.float32) for n, node in checkpoint_nodes(GRAPH, JOINING).items()
    }
    update = TracedStep(update_program(GRAPH, Compression()), {"w": start["w"]}, {"w": ended["w"]})
    of = {"kind": Kind.UPDATE, "before": state_root(start), "end_root": state_root(ended)}
    for number, source in ((0, start), (1, ended)):
        node = [update.graph.state[0].before, update.graph.batch[0][1]][number]
        holds(judges, update.frame(node, **of), HERE_AT_NODE, inputs(update, node, source, number), 20)
        lying = replace(update, altered={node: update.values[node] * 2})
        assert convicts(judges, lying.frame(node, **of), HERE_AT_NODE, inputs(update, node, source, number))
        crossed = inputs(update, node, (ended, start)[number], number)
        assert (
            evidence_result(judges, update.frame(node, **of), HERE_AT_NODE, crossed) == "evidence: state does not match"
        )
    graph = aggregation_program(GRAPH, JOINING)
    batch = {"updates/0000000000/w": np.ones((2, 150), np.float32), "present": np.float32(2)}
    aggregation = TracedStep(graph, start, batch)
    of = {"kind": Kind.AGGREGATION, "before": state_root(start)}
    for number, entry in enumerate(graph.state):
        frame = aggregation.frame(entry.before, **of)
        holds(judges, frame, HERE_AT_NODE, inputs(aggregation, entry.before, start, number), 5)


def test_an_input_shown_with_another_tensor__entry_or_node__is_refused(judges, step: TracedStep):
    node = GRAPH.state[W].before
    frame, evidence = step.frame(node), inputs(step, GRAPH.state[W].before, dict(step.state), W)
    assert evidence_result(judges, frame, HERE_AT_NODE, replace(evidence, tensor=tensor_in(step.state, "m"))) == (
        "evidence: state does not match"
    )
    assert (
        evidence_result(judges, frame, HERE_AT_NODE, replace(evidence, entry=entry_of(GRAPH, M)))
        == "evidence: other entry"
    )
    computed = step.node("fma")
    of_computed = replace(evidence, descriptor=step.descriptor(computed))
    assert evidence_result(judges, step.frame(computed), HERE_AT_NODE, of_computed) == "evidence: not here"
    assert evidence_result(judges, frame, HERE_AT_NODE, of_computed) == "evidence: other descriptor"
    only_in(judges, replace(frame, tensor_root=HERE), HERE_AT_NODE, evidence)
    batch = GRAPH.batch[0][1]
    of_batch = replace(evidence, descriptor=step.descriptor(batch))
    for kind in (Kind.TRAINING, Kind.AGGREGATION):
        assert evidence_result(judges, step.frame(batch, kind=kind), HERE_AT_NODE, of_batch) == "evidence: not here"


# --- 5: constants


def test_a_constant__is_the_tensor_that_its_program_names(judges, step: TracedStep):
    node = step.node("constant")
    evidence = Constant(step.descriptor(node))
    holds(judges, step.frame(node), HERE_AT_NODE, evidence, 100)
    lying = replace(step, altered={node: step.values[node] * 2})
    assert convicts(judges, lying.frame(node), HERE_AT_NODE, evidence)
    other = step.node("input")
    assert (
        evidence_result(judges, step.frame(other), HERE_AT_NODE, Constant(step.descriptor(other)))
        == "evidence: not here"
    )
    only_in(judges, lying.frame(node), HERE_AT_NODE, evidence)


def test_kinds_that_there_are_not__are_refused(judges, step: TracedStep):
    node = step.node("constant")
    data = encode(Constant(step.descriptor(node)))
    for kind in (0, 9, 2**256 - 1):
        assert evidence_result(judges, step.frame(node), HERE_AT_NODE, data, kind=kind) == "evidence: unknown kind"


def test_the_names_of_the_step__ascend():
    assert sorted_names(dict.fromkeys(NAMES)) == NAMES
