"""Attacks on an exploration, contracts and specification in step: each is refused, leads nowhere, or convicts who tries it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import sha256
from typing import Any

import pytest

from tests.referee.exploration_driver import JOB
from tests.support.evm import Reverted
from tests.support.explorations.hashed_computation import (
    AGGREGATION,
    UPDATE,
    HashedComputation,
    HashedProgram,
    Tree,
    noise,
)
from tests.support.lockstep.referee_records import sent
from zoo_compute.spec import merkle
from zoo_compute.spec.clocks import PRODUCTION, End
from zoo_compute.spec.disputed_claims import claim_key
from zoo_compute.spec.exploration import Status, TreePosition, segments_position
from zoo_compute.spec.exploration import Tree as In
from zoo_compute.spec.frames import EMPTY, Frame, Kind, Work
from zoo_compute.spec.revert import Refused

# A node whose leaf is as long as two hashes, one whose leaves are all alike; 76 states, and so padding in whole subtrees.
TRAINING = HashedProgram("attacked", ((16,), (8, 128), (3,), (40, 129)), 5)
PROGRAMS = {Kind.TRAINING: TRAINING, Kind.UPDATE: UPDATE, Kind.AGGREGATION: AGGREGATION}
WORK = Work((TRAINING.opened.root, UPDATE.opened.root, AGGREGATION.opened.root), 150, 2, 16)
PAIR, ALIKE, SMALL, LARGE = range(4)
MUCH = 10**18


@dataclass(frozen=True)
class Hollow(Tree):
    """With zeros in the place of an inner node: of the first one that is asked for."""

    @cached_property
    def levels(self) -> list[list[bytes]]:
        honest = Tree(self.leaves)
        children = honest.children(honest.height, 0)
        level = [EMPTY, *children[1:]]
        levels = [*honest.levels[: honest.height - (len(level) - 1).bit_length()], level]
        while len(level) > 1:
            level = [sha256(b"\x01" + a + b).digest() for a, b in zip(level[::2], level[1::2], strict=True)]
            levels.append(level)
        return levels


@dataclass
class Attacked(HashedComputation):
    """hollow: its segments; change: of the leaves of its first trace."""

    work: Work = WORK
    programs: dict[Kind, HashedProgram] = field(default_factory=lambda: PROGRAMS)
    hollow: bool = False
    change: Callable[[list[bytes]], list[bytes]] = list

    @property
    def segments(self) -> Tree:
        honest = super().segments
        return Hollow(honest.leaves) if self.hollow else honest

    def data(self, frame: Frame, node: int) -> bytes:
        return bytes(4 * TRAINING.count(node)) if node == ALIKE else super().data(frame, node)

    def trace(self, frame: Frame) -> Tree:
        return Tree(tuple(self.change(list(super().trace(frame).leaves))))


def commit(exploring, **changes: Any) -> None:
    """bob's claim of slots 4 to 6."""
    exploring.work, claim = WORK, exploring.claims["bob"]
    sides = [Attacked("bob", slot, claim.start_root, **changes) for slot in (4, 5, 6)]
    exploring.sides = exploring.sides | {("bob", side.slot): side for side in sides}
    root = Tree(tuple(side.leaf() for side in sides)).root
    exploring.keep("bob", replace(claim, root=root), 3, exploring.deadline)


def to_trace(explorer, slot: int = 4) -> bytes:
    """Of the first step."""
    steps = explorer.answer(explorer.first("bob", slot=slot, leaf=1))
    return explorer.answer(explorer.ask(steps, 1))


def refused(exploring, cause, function, by, *args, value=0):
    exploring.no(f"referee: {cause}", function, by, *args, value=value)


def is_refused(exploring, function: str, by: str, *args: Any, value: int = 0) -> bool:
    try:
        exploring.call(function, by, *args, value=value)
    except Refused as refusal:
        return refusal.reason.startswith("referee: ")
    return False


def convicted_by_silence(exploring, explorer, id: bytes) -> None:
    node = explorer.known[id][1]
    exploring.to(node.clocks.since + node.clocks.committer_left_s + 1)
    exploring.call("expire", "eve", JOB, exploring.claims["bob"], id, node)
    assert exploring.world.claims[claim_key(JOB, exploring.claims["bob"])].end == End.SILENT


# --- calls at the wrong time or place


def whole_path(exploring, explorer, slot: int) -> list[tuple[str, str, tuple[Any, ...], int]]:
    """Every call of one, from segments to parts."""
    exploring.set_parts(300)
    made, call = [], exploring.call

    def recorded(function: str, by: str, *args: Any, value: int = 0) -> Any:
        made.append((function, by, args, value))
        return call(function, by, *args, value=value)

    exploring.call = recorded
    try:
        leaf = explorer.down(explorer.first("bob", slot=slot), 20)
        step = explorer.down(explorer.answer(leaf), 1)
        node = explorer.down(explorer.answer(step), LARGE)
        shown = explorer.down(explorer.answer(node), 17)
        explorer.answer(explorer.ask_parts(shown, 128 * 17 + 2))
    finally:
        exploring.call = call
    return made


def test_calls_replayed_or_out_of_order__are_refused(exploring, explorer):
    """All of one path again; and at every place of a second path each call that belongs elsewhere."""
    commit(exploring)
    made = whole_path(exploring, explorer, 4)
    assert len({function for function, *_ in made}) == 6
    assert all(is_refused(exploring, function, by, *args, value=MUCH) for function, by, args, _ in made if by == "dave")
    assert all(is_refused(exploring, function, by, *args) for function, by, args, _ in made if by != "dave")
    for function, by, args, value in whole_path_calls(exploring, explorer, 5):
        id, node = args[:2]
        for other, sender, others, _ in made[1:]:
            if (other, others[2:]) != (function, args[2:]):
                coin = MUCH if other.startswith("ask") else 0
                assert is_refused(exploring, other, sender, id, node, *others[2:], value=coin), (
                    f"{other} for {function}"
                )
        assert by, value


def whole_path_calls(exploring, explorer, slot: int):
    """Of another path, each before it is made."""
    exploring.set_parts(300)
    id = explorer.first("bob", slot=slot)
    leaves = {In.SEGMENTS: 20, In.STEPS: 1, In.NODES: LARGE, In.ELEMENTS: 17}
    while True:
        function, args = explorer.answer_args(id)
        yield function, "hot", args, 0
        explorer.answer(id)
        node = explorer.known[id][1]
        if node.position.tree == In.PARTS:
            return
        if node.position.shows_words:
            yield "ask_stage", "dave", explorer.element_args(id, 128 * 17 + 2), MUCH
            id = explorer.ask_parts(id, 128 * 17 + 2)
            continue
        at = node.position
        place = leaves[at.tree] >> (at.height - at.span) & ((1 << at.span) - 1)
        yield "ask", "dave", explorer.ask_args(id, place), MUCH
        id = explorer.ask(id, place)


def test_nobody_ends_a_dispute__before_a_clock_or_evidence_does(exploring, explorer):
    root = explorer.first("bob")
    node, claim = explorer.known[root][1], exploring.claims["bob"]
    for by in ("hot", "owner", "carol hot", "dave", "mallory"):
        refused(exploring, "time left", "expire", by, JOB, claim, root, node)
        refused(exploring, "not final", "close", by, JOB, claim)
        exploring.no("evidence: it does not hold", "judge", by, *explorer.judge_args(root)[:5], b"")
        refused(exploring, "not resolved", "settle", by, (root,), (node,), (int(Status.ASKED),))


# --- numbers that a caller chooses freely


@pytest.mark.parametrize("index", [1, 2**47, 2**48, 2**95, 2**200])
def test_an_index_without_a_path__moves_nothing(exploring, explorer, index: int):
    """Of 2^48 and more it would run into the count beside it: a root of a height that nobody can answer for."""
    args = explorer.first_args("bob", Kind.TRAINING, 4)
    root = segments_position(args[4].inner_steps, args[4].segment_steps)
    value = explorer.fee("bob", root)
    _, node, _ = exploring.call("ask_claim", "mallory", *args[:6], index, *args[7:], value=value)
    assert node.position == root
    refused(exploring, "asked already", "ask_claim", "dave", *args, value=2 * value)


@pytest.mark.parametrize("index", [2**20, 2**48, 2**95])
def test_an_index_beyond_the_segments__is_refused(exploring, explorer, index: int):
    args = explorer.first_args("bob", Kind.TRAINING, 4, 1)
    refused(exploring, "states do not match", "ask_claim", "dave", *args[:6], index, *args[7:], value=10**18)


def test_a_status__is_none_but_the_two_there_are(exploring, explorer):
    """The word is the hash with the status in its last byte: more bits of a status would stand for bits of the hash."""
    root = explorer.first("bob")
    explorer.answer(root)
    node, word = explorer.known[root][1], exploring.contract.nodes(root)
    exploring.to(exploring.deadline + PRODUCTION.asker_s + 1)
    exploring.call("close", "eve", JOB, exploring.claims["bob"])
    for status in (0, int(Status.ASKED), 3, word, 2**256 - 1):
        refused(exploring, "other node", "settle", "eve", (root,), (node,), (status,))
    exploring.call("settle", "eve", (root,), (node,), (int(Status.ANSWERED),))


# --- trees that are none, zeros, padding, equal subtrees


def test_an_inner_node_of_zeros__owes_children_like_any_other(exploring, explorer):
    """A zero subtree is neither a match nor an end: nothing hashes to it, so its author is silent."""
    commit(exploring, hollow=True)
    id = explorer.ask(explorer.answer(explorer.first("bob")), 0)
    node = explorer.known[id][1]
    assert (node.root, node.position.height > 0) == (EMPTY, True)
    for count in (1, 2, 1 << node.position.span):
        refused(exploring, "children do not match", "answer", "hot", id, node, (EMPTY,) * count)
    honest = Tree(exploring.sides["bob", 4].segments.leaves).levels[0][: 1 << node.position.span]
    refused(exploring, "children do not match", "answer", "hot", id, node, tuple(honest))
    convicted_by_silence(exploring, explorer, id)


def test_a_subtree_of_padding__is_answered_like_any_other_and_leads_nowhere(exploring, explorer):
    commit(exploring)
    tree = exploring.sides["bob", 4].segments
    assert tree.levels[1][-1] != EMPTY, "padding is hashed"
    last = explorer.ask(explorer.answer(explorer.first("bob")), (1 << TreePosition(In.SEGMENTS, tree.height).span) - 1)
    explorer.answer(last)
    refused(exploring, "nothing to answer", "ask", "dave", *explorer.ask_args(last, 0), value=MUCH)
    refused(exploring, "no such leaf", "judge", "dave", *explorer.judge_args(last, 0))
    exploring.to(exploring.deadline + PRODUCTION.asker_s + 1)
    exploring.call("close", "eve", JOB, exploring.claims["bob"])
    assert exploring.world.claims[claim_key(JOB, exploring.claims["bob"])].end == End.FINAL


def test_no_place_of_a_true_state__can_be_asked_for(exploring, explorer):
    """Five entries, which are judged, and padding in the places of three, which nobody is asked for."""
    commit(exploring)
    state = explorer.answer(explorer.ask_state(to_trace(explorer)))
    assert explorer.known[state][1].position.count == 5
    for place in range(8):
        refused(exploring, "nothing to answer", "ask", "dave", *explorer.ask_args(state, place), value=MUCH)
    for place in range(5, 8):
        refused(exploring, "no such leaf", "judge", "dave", *explorer.judge_args(state, place))
    exploring.to(exploring.deadline + PRODUCTION.asker_s + PRODUCTION.committer_s + 1)
    exploring.call("close", "eve", JOB, exploring.claims["bob"])
    assert exploring.world.claims[claim_key(JOB, exploring.claims["bob"])].end == End.FINAL


def test_equal_subtrees__are_told_apart_by_their_places(exploring, explorer):
    """All leaves of a tensor of zeros are one hash: what holds of one place is not taken for another."""
    commit(exploring)
    node = explorer.answer(explorer.down(to_trace(explorer), ALIKE))
    shown = [explorer.answer(explorer.ask(node, place)) for place in (0, 3, 7)]
    assert len({explorer.known[id][1].root for id in shown}) == 1
    calls = [explorer.judge_args(id) for id in shown]
    for at, (*where, _) in enumerate(calls):
        for other, (*_, data) in enumerate(calls):
            if at != other:
                exploring.no("evidence: it does not hold", "judge", "dave", *where, data)
    exploring.call("judge", "dave", *calls[1])


# --- other bytes under a hash


def test_two_hashes_shown_as_a_leaf__are_no_leaf(exploring, explorer):
    """A second pre-image would need a leaf and an inner node with one hash: their tags keep them apart."""
    left, right = noise("left"), noise("right")
    inner = sha256(b"\x01" + left + right).digest()
    tensor = merkle.tensor_root(TRAINING.head(PAIR), inner)
    leaf = sha256(b"\x08" + PAIR.to_bytes(4, "little") + tensor).digest()
    commit(exploring, change=lambda leaves: [leaf, *leaves[1:]])
    id = explorer.down(to_trace(explorer), PAIR)
    function, (*where, opening) = explorer.answer_args(id)
    bent = replace(opening, elements_root=inner, children=(), words=left + right)
    refused(exploring, "bytes do not match", function, "hot", *where, bent)
    refused(exploring, "bytes do not match", function, "hot", *where, replace(bent, children=(left, right), words=b""))
    convicted_by_silence(exploring, explorer, id)


@pytest.mark.parametrize("tag", range(10))
def test_a_leaf_under_another_tag__cannot_be_opened(exploring, explorer, tag: int):
    """Only a trace's leaf under a trace's tag is one."""
    tensor = Attacked("bob", 4, exploring.claims["bob"].start_root).tensor_root(Frame(step=0), SMALL)
    leaf = sha256(bytes([tag]) + SMALL.to_bytes(4, "little") + tensor).digest()
    commit(exploring, change=lambda leaves: [leaf if at == SMALL else each for at, each in enumerate(leaves)])
    id = explorer.down(to_trace(explorer), SMALL)
    function, args = explorer.answer_args(id)
    if tag == 8:
        exploring.call(function, "hot", *args)
        return
    refused(exploring, "tensor does not match", function, "hot", *args)
    convicted_by_silence(exploring, explorer, id)


# --- more than fits


@pytest.mark.parametrize("more", [1, 64, 5_000])
def test_proofs_that_are_longer_than_any_tree__revert_and_change_nothing(exploring, explorer, more: int):
    """Beyond the bounds of the contract's arrays: it does not come to read them."""
    commit(exploring)
    contract, dave = exploring.contract, exploring.accounts["dave"]
    root = explorer.first("bob")
    _, (id, node, children) = explorer.answer_args(root)
    attempts: dict[str, tuple[Any, ...]] = {"answer": (id, node.record, [*children, *[EMPTY] * (64 + more)])}
    attempts["answer_words"] = (id, node.record, bytes(2_048 + more))
    explorer.answer(root)
    above, answered, place, child, path = explorer.ask_args(root, 1)
    attempts["ask"] = (above, answered.record, place, child, [*path, *[EMPTY] * (32 + more)])
    judgement = explorer.judge_args(root)
    attempts["judge"] = (*map(sent, judgement[:5]), bytes(45_056 + more))
    kept = contract.nodes(root)
    for name, args in attempts.items():
        with pytest.raises(Reverted) as error:
            getattr(contract, name)(*args, sender=dave)
        assert error.value.reason == "", f"{name} read its arguments"
    assert contract.nodes(root) == kept
    explorer.ask(root, 1)
