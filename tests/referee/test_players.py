"""Prover and challenger in whole games, on paper: every lie is convicted by evidence that holds, or by its author's silence."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from hashlib import sha256
from typing import Any

import pytest

from node.disputes.challenger import Challenger
from node.disputes.defender import Defender
from node.disputes.depth import depth_of
from node.disputes.trees import Trees
from tests.support.games.lying_jobs import Case, LeafOnly, Liar, LyingAggregation, LyingUpdate, Rule, after_root, mlp
from zoo_compute.disputes.revealed import RevealedState
from zoo_compute.spec.frames import Awaits, Frame, Game, Phase

pytestmark = pytest.mark.usefixtures("one_thread")  # threads wait for each other longer than these programs take
EVERY_STEP = 3  # after it a segment ends, so that what is said of its state is in the claim


def lying(case: Case, **lies: Any) -> Liar:
    liar = case.lying()
    for name, value in lies.items():
        setattr(liar, name, value)
    return liar


def convicted(case: Case, liar: Liar, trees: Trees | None = None) -> Any:
    """Of a training claim that is false."""
    trees = trees or Trees(liar)
    result = case.result(trees)
    assert result != case.result(Trees(case.honest)), "the lie changes nothing"
    played = case.training(Defender(trees), result)
    assert played.is_convicted, played
    assert played.pairs <= depth_of(case.graph, case.inner_steps, case.segment_steps).pairs
    return played


def words(case: Case, node: int) -> int:
    return case.graph.nodes[node].elements


def test_honest_claims__are_never_convicted_by_an_honest_challenger():
    case = mlp()
    honest = Trees(case.honest)
    assert not case.training(Defender(honest), case.result(honest)).is_convicted
    assert not case.updating(Defender(Trees(case.update))).is_convicted
    assert not case.aggregating(Defender(Trees(case.aggregated()))).is_convicted


# --- training


def test_one_bit_of_a_node_of_a_step__is_convicted_by_evidence_for_that_node():
    """Where the bit has no consequence, the author says another state follows, so that the step is disputed."""
    case, rng, kinds = mlp(), random.Random(1), Counter()
    nodes = [at for at, made in enumerate(case.graph.nodes) if made.elements]
    for node in {*rng.sample(nodes, 50), *(at for _, at in case.graph.batch)}:
        made = case.graph.nodes[node]
        element = rng.randrange(made.elements)
        lies = {"elements": {(EVERY_STEP, node): element}, "bit": rng.randrange(32)}
        trees = Trees(lying(case, **lies))
        if case.result(trees) == case.result(Trees(case.honest)):
            trees = Trees(lying(case, **lies, states={EVERY_STEP: rng.randrange(len(case.graph.state))}))
        played = convicted(case, trees.computation, trees)
        kinds[played.evidence] += 1
        assert played.evidence, f"node {node} ({made.op}): {played.refused or 'silence'}"
        assert played.game.frame.node == node
        if played.evidence == 8:
            place = played.game.frame.element if played.game.phase == Phase.PARTS else element
            assert place == element
    assert kinds.keys() == {4, 5, 6, 8}
    assert kinds[6] == len(case.graph.batch)


def test_a_partial_sum__is_convicted_where_the_parts_go_wrong():
    case, seen = mlp(), Counter()
    for node, made in enumerate(case.graph.nodes):
        if made.op not in ("dot", "sum", "scatter_add", "reduce_max", "rank") or not made.elements:
            continue
        for part in (0, 1, None):
            lies = {"elements": {(EVERY_STEP, node): 0}, "part": part, "states": {EVERY_STEP: 0}}
            played = convicted(case, lying(case, **lies))
            assert (played.evidence, played.game.phase) == (8, Phase.PARTS)
            seen[part] += 1
    assert set(seen) == {0, 1, None}
    assert seen[0] >= 10


@pytest.mark.parametrize("step", [1, 3, 4])
def test_a_state_at_a_segments_end_alone__is_convicted_by_what_the_trace_ends_in(step):
    case = mlp()
    for entry in range(len(case.graph.state)):
        played = convicted(case, lying(case, states={step: entry}))
        assert (played.evidence, played.game.frame.step, played.game.index) == (3, step, entry)


def test_the_state_at_step_0__is_convicted_by_the_checkpoint_or_zeros():
    case = mlp()
    for at, entry in enumerate(case.graph.state):
        for lies in ({"states": {-1: at}}, {"begun": entry.name}):
            played = convicted(case, lying(case, **lies))
            assert (played.evidence, played.game.index) == (2, at)


def test_an_end_that_is_not_the_last_state__is_convicted_at_once():
    case = mlp()
    trees = Trees(case.honest)
    result = replace(case.result(trees), end_root=sha256(b"another").digest())
    played = case.training(Defender(trees), result)
    assert (played.evidence, played.game.phase, played.game.height) == (1, Phase.SEGMENTS, 0 if played.moves[1:] else 2)


@pytest.mark.parametrize(
    ("phase", "leaf", "lies"),
    [
        (Phase.SEGMENTS, 0, {}),
        (Phase.SEGMENTS, 2, {}),
        (Phase.SEGMENTS, 3, {}),  # of four steps: beyond the last leaf
        (Phase.STEPS, 1, {"states": {3: 0}}),
        (Phase.NODES, 77, {"states": {3: 0}}),
        (Phase.NODES, 255, {"states": {3: 0}}),  # beyond the last
        (Phase.STATE, 5, {"states": {3: 0}}),
    ],
)
def test_a_hash_of_nothing__is_convicted_by_silence_or_as_another_entry(phase, leaf, lies):
    case = mlp(inner_steps=5 if leaf != 3 else 4)
    trees = LeafOnly(lying(case, **lies))
    trees.place = (phase, leaf)
    played = convicted(case, trees.computation, trees)
    assert played.evidence is None


def test_bytes_that_differ_in_the_commitment_alone__cannot_be_shown():
    """The tensor's root is of another leaf than the one that its author has."""
    case = mlp()
    node = next(at for at, made in enumerate(case.graph.nodes) if made.op == "dot" and made.elements > 64)
    liar = lying(case, states={EVERY_STEP: 0})
    honest = liar.trace(EVERY_STEP)
    false = [*honest[:node], sha256(b"another tensor").digest(), *honest[node + 1 :]]
    liar.trace = lambda step: false  # type: ignore[method-assign]
    played = convicted(case, liar)
    assert played.evidence is None
    assert played.refused == "referee: tensor does not match"


def test_many_lies__the_first_of_them_convicts():
    case, rng = mlp(), random.Random(7)
    computed = [at for at, made in enumerate(case.graph.nodes) if made.elements]
    for _ in range(12):
        lies = {(rng.randrange(5), node): rng.randrange(words(case, node)) for node in rng.sample(computed, 3)}
        liar = lying(case, elements=lies, bit=rng.randrange(32), states={rng.choice((1, 3, 4)): 0})
        played = convicted(case, liar)
        assert played.evidence in (3, 4, 5, 6, 8)
        if played.evidence != 3:
            assert (played.game.frame.step, played.game.frame.node) == min(
                place for place in lies if place[0] == played.game.frame.step
            )


# --- update and aggregation


def test_one_bit_of_any_node_of_an_update__is_convicted():
    case, kinds = mlp(), Counter()
    graph = case.update.graph
    for node, made in enumerate(graph.nodes):
        liar = LyingUpdate(case.honest)
        liar.elements = {(0, node): made.elements - 1}
        if made.op == "scalar":
            liar.states = {0: 0}
        played = case.updating(Defender(Trees(liar)))
        assert played.is_convicted
        assert played.game.frame.node == node
        kinds[played.evidence] += 1
    assert kinds.keys() == {4, 8}
    assert kinds[4] == 2 * len(graph.state)


def test_an_update_that_its_trace_does_not_end_in__is_convicted():
    case = mlp()
    for entry in range(len(case.update.graph.state)):
        liar = LyingUpdate(case.honest)
        liar.states = {0: entry}
        played = case.updating(Defender(Trees(liar)))
        assert (played.evidence, played.game.index) == (3, entry)


def test_any_word_of_an_aggregation__is_convicted():
    """Of present and absent slots, of their number, of the checkpoint, of what is computed."""
    case, kinds = mlp(), Counter()
    graph = case.aggregated().graph
    names = {at: name for name, at in graph.batch}
    for node, made in enumerate(graph.nodes):
        each = made.elements // 4
        for element in (0, each, 2 * each, made.elements - 1) if node in names and each else (made.elements - 1,):
            liar = case.aggregated(LyingAggregation)
            liar.elements = {(0, node): element}
            liar.states = {0: 0} if made.op == "scalar" or node == graph.loss else {}
            played = case.aggregating(Defender(Trees(liar)))
            assert played.is_convicted, (node, made.op, played.refused)
            assert played.game.frame.node == node
            kinds[played.evidence] += 1
    assert kinds.keys() == {4, 7, 8}
    assert kinds[7] >= 4 * (len(names) - 1) + 1


def test_any_operator_of_a_robust_aggregation__is_convicted():
    """Products, verdict, scores and the joined tensors are judged as anything else is."""
    case, kinds = mlp(rule=Rule("trimmed_mean", 1, "nearest")), Counter()
    honest = case.aggregated()
    ends = after_root(Defender(Trees(honest)))
    nodes = honest.graph.nodes
    inputs = {role: node for node, made in enumerate(nodes) if made.op == "input" for role in made.attributes[:1]}
    for node in sorted({*{made.op: node for node, made in enumerate(nodes)}.values(), *inputs.values()}):
        made = nodes[node]
        liar = case.aggregated(LyingAggregation)
        liar.elements = {(0, node): made.elements - 1}
        if after_root(Defender(Trees(liar))) == ends:  # the bit was lost on the way
            liar.states = {0: 0}
        played = case.aggregating(Defender(Trees(liar)))
        assert played.is_convicted, (node, made.op, played.refused)
        assert played.game.frame.node == node
        kinds[played.evidence] += 1
    assert {made.op for made in nodes} >= {"rank", "dot", "concat", "sqrt"}
    assert kinds.keys() == {4, 7, 8}


# --- what was shown, from events


class Listener(Challenger):
    """Hears events alone: what it knows must be what the moves show."""

    heard = RevealedState()
    before = Frame()

    def hear(self, game: Game, revealed: RevealedState) -> None:
        """The contract tells the frame where it changed, and what was revealed."""
        is_disputed = revealed.phase == Phase.STATE and not game.frame.is_begin and self.heard.phase != Phase.STATE
        frame = game.frame if game.frame != self.before else None
        if is_disputed:
            self.heard = self.heard.apply_event(is_disputed=True)
        is_new = game.awaits == Awaits.PICK
        leaf = revealed.leaves.get(revealed.phase, b"") if game.is_open else b""
        children = revealed.children[revealed.phase][-1] if is_new else ()
        self.heard, self.before = self.heard.apply_event(frame=frame, children=children, leaf=leaf), game.frame

    def next(self, game: Game, revealed: RevealedState) -> Any:
        self.hear(game, revealed)
        assert self.heard.phase == game.phase
        assert self.heard.children == revealed.children
        assert self.heard.leaves.get(game.phase) == (revealed.leaves[game.phase] if game.is_open else None)
        return super().next(game, self.heard)


@pytest.mark.parametrize("lies", [{"states": {3: 0}}, {"states": {-1: 0}}, {"part": 1}, {}])
def test_who_hears_the_events_alone__knows_what_the_moves_show(lies):
    case = mlp()
    node = next(at for at, made in enumerate(case.graph.nodes) if made.op == "dot")
    elements = {} if "states" in lies else {(EVERY_STEP, node): 3}
    liar = lying(case, **({"states": {EVERY_STEP: 0}} | lies), elements=elements)
    trees = Trees(liar)
    played = case.training(Defender(trees), case.result(trees), Listener(Trees(case.honest)))
    assert played.evidence in (2, 3, 8)


# --- a restart in mid-game


def test_with_a_folder__another_process_goes_on_without_computing_it_again(tmp_path, monkeypatch):
    case = mlp()
    first = case.lying(folder=tmp_path)
    first.states = {3: 0}
    result = case.result(Trees(first))
    assert case.training(Defender(Trees(first)), result).evidence == 3
    steps = []
    again = case.lying(folder=tmp_path)
    again.states = {3: 0}
    advance = again.advance
    monkeypatch.setattr(again, "advance", lambda step: (steps.append(step), advance(step)))
    assert case.training(Defender(Trees(again)), result).evidence == 3
    assert len(steps) <= 1, "at most the step whose state is disputed is computed once more"
