"""Attacks on a game, contracts and specification in step: each is refused, leads nowhere, or convicts who tries it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256
from typing import Any

import pytest

from tests.referee.game_driver import JOB, GameDriver, RefereeMirror, fork
from tests.support.evm import Reverted, chain
from tests.support.games.hashed_computation import (
    AGGREGATION,
    UPDATE,
    HashedComputation,
    HashedProgram,
    Tree,
    noise,
    plain,
)
from tests.support.lockstep.contract_mirror import deployed
from tests.support.lockstep.coverage import Coverage
from zoo_compute.spec import merkle
from zoo_compute.spec.games import EMPTY, Awaits, Frame, Kind, Phase, Work
from zoo_compute.spec.params import PRESETS
from zoo_compute.spec.state import ClaimStatus

BOB, ALICE, DAVE = "bob hot", "alice hot", "dave owner"
# A node whose leaf is as long as two hashes, one whose leaves are all alike; 76 states, and so padding in whole subtrees.
TRAINING = HashedProgram("attacked", ((16,), (32, 128), (3,), (40, 129)), 5)
WORK = Work((TRAINING.opened.root, UPDATE.opened.root, AGGREGATION.opened.root), 150, 2, 16)
PAIR, ALIKE, SMALL, LARGE = range(4)


@dataclass(frozen=True)
class Hollow(Tree):
    """With zeros in the place of an inner node: of the first one where the game comes to stand after a move."""

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
    """bob's segments are hollow."""

    work: Work = WORK

    def __post_init__(self) -> None:
        self.programs = {Kind.TRAINING: TRAINING, Kind.UPDATE: UPDATE, Kind.AGGREGATION: AGGREGATION}

    @property
    def segments(self) -> Tree:
        honest = super().segments
        return Hollow(honest.leaves) if self.name == "bob" else honest

    def data(self, frame: Frame, node: int) -> bytes:
        return bytes(4 * TRAINING.count(node)) if node == ALIKE else super().data(frame, node)


@pytest.fixture(scope="module", name="opened")
def opened_fixture():
    with chain.anchor():
        preset = PRESETS["devnet"]
        made = GameDriver(Coverage(), RefereeMirror(preset, *deployed("devnet")), preset)
        made.work, made.build = WORK, Attacked
        made.play_until_committed()
        yield made


@pytest.fixture
def attacked(opened):
    with fork(opened) as mine:
        yield mine


def refused(court, cause, function, sender, *args):
    court.no(f"referee: {cause}", "referee", function, sender, *args)


def go_down(court, game: int, tree: Tree, leaf: int, sender: str = ALICE) -> None:
    """To a leaf of the tree that the game stands in."""
    while True:
        here = court.game(game)
        children = tree.children(here.height, here.index)
        if here.awaits == Awaits.REVEAL:
            court.ok("referee", "reveal", sender, game, children)
        below = here.height - (len(children) - 1).bit_length()
        place = (leaf >> below) & (len(children) - 1)
        court.ok("referee", "pick", DAVE, game, place, children[place], Tree(children).path(place))
        if below == 0:
            return


def enter_nodes(court, change: Callable[[list[bytes]], list[bytes]] = list) -> tuple[int, Tree]:
    """A game about alice's first step, at the root of its trace: of the leaves that it is changed to."""
    game = court.challenge("alice")
    side = court.committer(game)
    go_down(court, game, side.segments, 1)
    court.answer(game)
    go_down(court, game, side.steps(0), 1)
    name, (frame, states, trace) = side.move(court.game(game))
    tree = Tree(tuple(change(list(side.trace(Frame(step=0)).leaves))))
    trace = replace(trace, root=tree.root, children=tree.children(tree.height, 0))
    court.ok("referee", name, ALICE, game, frame, states, trace)
    return game, tree


def end_args(court, game: int) -> tuple[Any, ...]:
    """Of `time_out` and `concede`."""
    return (game, court.game(game).claim, court.game(game).frame)


def convicted_by_silence(court, game: int, name: str) -> None:
    here = court.game(game)
    assert not here.is_challengers_turn
    court.to(here.due + 1)
    court.ok("referee", "time_out", "stranger", *end_args(court, game))
    assert court.world.claims[JOB, court.seats[name], 0].status == ClaimStatus.CONVICTED


# --- moves at the wrong time or place


def whole_game(court) -> list[tuple[str, str, tuple[Any, ...]]]:
    """Every move of one, from segments to parts: function, sender, arguments after the game's number."""
    court.mirror.set_parts(300)
    game, convicted = court.challenge("alice"), []
    leaf = {Phase.SEGMENTS: 20, Phase.STEPS: 1, Phase.NODES: LARGE, Phase.ELEMENTS: 17, Phase.PARTS: 2}
    while True:
        here = court.game(game)
        if here.awaits == Awaits.PICK:
            children = court.committer(game).tree(here).children(here.height, here.index)
            place = leaf[here.phase] >> here.height - (len(children) - 1).bit_length() & len(children) - 1
            name, sender, args = "pick", DAVE, court.pick_args(game, place)[1:]
        elif here.awaits == Awaits.EVIDENCE:
            if here.phase == Phase.PARTS:
                return convicted
            name, sender, args = "ask_parts", DAVE, (here.frame, TRAINING.descriptor(LARGE), 128 * 17 + 2)
        else:
            (name, args), sender = court.committer(game).move(here), ALICE
        court.ok("referee", name, sender, game, *args)
        convicted.append((name, sender, args))


def test_moves_replayed_or_out_of_order__are_refused(attacked):
    """At every place of a second game each move of another place, and all of them in the first game again."""
    moves, court = whole_game(attacked), attacked
    assert len({name for name, *_ in moves}) == 8
    first, second = court.world.game_count, court.challenge("alice")
    assert first < second

    def is_refused(move, game):
        name, sender, args = move
        reason = court.attempt("referee", name, sender, game, *args)
        return reason is not None and reason.startswith("referee: ")

    assert all(is_refused(move, first) for move in moves)
    for name, sender, args in moves:
        others = [move for move in moves if (move[0], move[2]) != (name, args)]
        assert all(is_refused(move, second) for move in others), f"in the place of {name}"
        court.ok("referee", name, sender, second, *args)


@pytest.mark.parametrize("awaits", [Awaits.REVEAL, Awaits.PICK])
def test_nobody_but_its_sides_and_the_clock__ends_a_game(attacked, awaits: Awaits):
    """Neither who deployed the contracts nor the job's submitter, nor one side for the other."""
    game = attacked.challenge("alice")
    if awaits == Awaits.PICK:
        attacked.answer(game)
    number, claim, frame, kind, _ = attacked.evidence(game)
    for sender in ("deployer", "submitter", "stranger", ALICE, "alice owner", "carol hot", "bob owner"):
        refused(attacked, "not the challenger", "concede", sender, *end_args(attacked, game))
        refused(attacked, "time left", "time_out", sender, *end_args(attacked, game))
        attacked.no("evidence: it does not hold", "referee", "convict", sender, number, claim, frame, kind, b"")
    refused(attacked, "time left", "time_out", DAVE, *end_args(attacked, game))
    attacked.ok("referee", "concede", DAVE, *end_args(attacked, game))


# --- trees that are none, zeros, padding, equal subtrees


def test_an_inner_node_of_zeros__owes_children_like_any_other(attacked):
    """A zero subtree is neither a match nor an end: nothing hashes to it, so its author is silent."""
    game = attacked.challenge("bob")
    attacked.answer(game)
    attacked.pick(game, 0)
    here = attacked.game(game)
    assert (here.node, here.awaits) == (EMPTY, Awaits.REVEAL)
    assert here.height > 0
    for count in (1, 2, 1 << here.height):
        refused(attacked, "children do not match", "reveal", BOB, game, (EMPTY,) * count)
    honest = Tree(Tree(attacked.committer(game).segments.leaves).children(here.height, 0))
    refused(attacked, "children do not match", "reveal", BOB, game, honest.leaves)
    convicted_by_silence(attacked, game, "bob")


def test_a_subtree_of_padding__is_revealed_like_any_other_and_leads_nowhere(attacked):
    game = attacked.challenge("alice")
    tree = attacked.committer(game).segments
    assert tree.levels[1][-1] != EMPTY, "padding is hashed"
    go_down(attacked, game, tree, (1 << tree.height) - 1)
    here = attacked.game(game)
    assert (here.node, here.is_beyond, here.awaits) == (EMPTY, True, Awaits.EVIDENCE)
    refused(attacked, "no such leaf", "convict", DAVE, *attacked.evidence(game))
    attacked.to(here.due + 1)
    attacked.ok("referee", "time_out", ALICE, *end_args(attacked, game))
    assert attacked.world.claims[JOB, attacked.seats["alice"], 0].status == ClaimStatus.PENDING


def test_equal_subtrees__are_told_apart_by_their_places(attacked):
    """All leaves of a tensor of zeros are one hash: what holds of one place is not taken for another."""
    openings = []
    for leaf in (0, 9, 31):
        game, _ = enter_nodes(attacked)
        side = attacked.committer(game)
        go_down(attacked, game, side.trace(Frame(step=0)), ALIKE)
        attacked.answer(game)
        tree = side.tree(attacked.game(game))
        assert len(set(tree.leaves)) == 1
        go_down(attacked, game, tree, leaf)
        attacked.answer(game)
        openings.append(game)
    positions = [attacked.game(game).position for game in openings]
    assert [position.index for position in positions] == [0, 9, 31]
    assert len({position.open_leaf for position in positions}) == 1
    number, claim, frame, kind, data = attacked.evidence(openings[1])
    for other in (openings[0], openings[2]):
        attacked.no("evidence: it does not hold", "referee", "convict", DAVE, other, claim, frame, kind, data)
    attacked.ok("referee", "convict", DAVE, number, claim, frame, kind, data)


# --- other bytes under a hash


def test_two_hashes_shown_as_a_leaf__are_no_leaf(attacked):
    """A second pre-image would need a leaf and an inner node with one hash: their tags keep them apart."""
    left, right = noise("left"), noise("right")
    inner = sha256(b"\x01" + left + right).digest()
    tensor = merkle.tensor_root(TRAINING.head(PAIR), inner)
    leaf = sha256(b"\x08" + PAIR.to_bytes(4, "little") + tensor).digest()
    game, tree = enter_nodes(attacked, lambda leaves: [leaf, *leaves[1:]])
    go_down(attacked, game, tree, PAIR)
    here = attacked.game(game)
    opening = replace(attacked.committer(game)._node(here), elements_root=inner, children=(), leaf=left + right)
    refused(attacked, "bytes do not match", "open_node", ALICE, game, here.frame, opening)
    opened_children = replace(opening, children=(left, right), leaf=b"")
    refused(attacked, "bytes do not match", "open_node", ALICE, game, here.frame, opened_children)
    convicted_by_silence(attacked, game, "alice")


@pytest.mark.parametrize("tag", range(10))
def test_a_leaf_under_another_tag__cannot_be_opened(attacked, tag: int):
    """Only a trace's leaf under a trace's tag is one."""

    def change(leaves: list[bytes]) -> list[bytes]:
        side = attacked.committer(attacked.world.game_count)
        tensor = side.tensor_root(Frame(step=0), SMALL)
        leaf = sha256(bytes([tag]) + SMALL.to_bytes(4, "little") + tensor).digest()
        return [leaf if at == SMALL else each for at, each in enumerate(leaves)]

    game, tree = enter_nodes(attacked, change)
    go_down(attacked, game, tree, SMALL)
    here = attacked.game(game)
    opening = attacked.committer(game)._node(here)
    if tag == 8:
        attacked.ok("referee", "open_node", ALICE, game, here.frame, opening)
        return
    refused(attacked, "tensor does not match", "open_node", ALICE, game, here.frame, opening)
    convicted_by_silence(attacked, game, "alice")


# --- more than fits


@pytest.mark.parametrize("more", [1, 64, 5_000])
def test_proofs_that_are_longer_than_any_tree__revert_and_change_nothing(attacked, more: int):
    """Beyond the bounds of the contract's arrays: it does not come to read them."""
    referee = attacked.mirror.contracts["referee"]
    game = attacked.challenge("alice")
    here, dave = attacked.game(game), attacked.accounts[DAVE]
    children = attacked.committer(game).move(here)[1][0]
    attempts: dict[str, tuple[Any, ...]] = {"reveal": (game, [*children, *[EMPTY] * (64 + more)])}
    attacked.answer(game)
    _, place, child, path = attacked.pick_args(game, 1)
    attempts["pick"] = (game, place, child, [*path, *[EMPTY] * (32 + more)])
    attempts["open_leaf"] = (game, bytes(512 + more))
    number, claim, frame, kind, _ = attacked.evidence(game)
    attempts["convict"] = (number, plain(claim), plain(frame), kind, bytes(45_056 + more))
    for name, args in attempts.items():
        with pytest.raises(Reverted) as error:
            getattr(referee, name)(*args, sender=dave)
        assert error.value.reason == "", f"{name} read its arguments"
    assert referee.games(game).node == here.node
    attacked.ok("referee", "pick", DAVE, game, place, child, path)
