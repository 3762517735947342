"""The referee's moves, specification and contract in step: every way down, and every refusal of docs/protocol/referee.md."""

import re
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest

from tests.referee.game_driver import JOB, descriptor_of
from tests.support.games.hashed_computation import AGGREGATION, TRAINING, Tree, noise
from zoo_compute.spec import merkle
from zoo_compute.spec.games import EMPTY, Awaits, Frame, Kind, Phase, Program, Steps
from zoo_compute.spec.params import COIN
from zoo_compute.spec.state import ClaimStatus
from zoo_compute.spec.world import EXTERNAL

TEXT = Path(__file__).parents[2] / "docs" / "protocol" / "referee.md"
BOB, DAVE = "bob hot", "dave owner"


def at_steps(court, leaf=2):
    game = court.challenge("bob")
    court.answer(game)
    court.down_to(game, leaf)
    court.answer(game)
    return game


def at_nodes(court):
    game = at_steps(court)
    court.down_to(game, 1)
    court.answer(game)
    return game


def at_node(court, node):
    game = at_nodes(court)
    court.down_to(game, node)
    court.answer(game)
    return game


def at_opened_leaf(court, leaf=1):
    """An element's leaf of node 2, which has 300."""
    game = at_node(court, 2)
    court.down_to(game, leaf)
    court.answer(game)
    return game


def refused(court, cause, function, sender, *args):
    court.no(f"referee: {cause}", "referee", function, sender, *args)


# --- the ways down


def test_training__goes_from_segments_to_the_parts_of_an_element(court):
    game = at_opened_leaf(court)
    assert court.game(game).position.open_leaf == court.game(game).node != EMPTY
    court.mirror.set_parts(300)
    frame = court.game(game).frame
    court.ok("referee", "ask_parts", DAVE, game, frame, TRAINING.descriptor(2), 130)
    court.answer(game)
    assert (court.game(game).phase, court.game(game).count) == (Phase.PARTS, 300)
    court.down_to(game, 2)
    court.answer(game)
    assert court.game(game).awaits == Awaits.EVIDENCE
    court.convict_now(game)
    assert court.world.claims[JOB, court.seats["bob"], 0].status == ClaimStatus.CONVICTED


@pytest.mark.parametrize(("name", "kind"), [("bob", Kind.UPDATE), ("carol", Kind.AGGREGATION)])
def test_update_and_aggregation__begin_with_their_trace(court, name, kind):
    game = court.challenge(name, kind)
    assert court.game(game).awaits == Awaits.TRACE
    court.answer(game)
    court.down_to(game, 0)
    court.answer(game)
    assert court.game(game).phase == Phase.ELEMENTS
    frame = court.game(game).frame
    assert frame.after == (court.named["carol"].root if kind == Kind.AGGREGATION else frame.update_root)
    court.convict_now(game) if court.game(game).height else court.convict_now(game, 5)


def test_begin__leads_to_the_state_at_step_0(court):
    game = court.challenge("bob")
    court.answer(game)
    court.down_to(game, 0)
    assert court.answer(game) == "open_begin"
    court.down_to(game, 4)
    here = court.game(game)
    assert (here.phase, here.awaits, here.frame.is_begin) == (Phase.STATE, Awaits.EVIDENCE, True)
    court.convict_now(game, 2)


def test_a_segment_of_one_step__is_opened_as_a_step(court):
    """7 steps by 3: the last segment is step 6 alone."""
    side = court.side("bob", 0)
    assert [side.step_of(leaf) for leaf in range(4)] == [0, 3, 6, 7]
    game = court.challenge("bob")
    court.answer(game)
    court.down_to(game, 3)
    _, (frame, states, trace) = side.move(court.game(game))
    steps = Steps(noise(1), (), (), ())
    refused(court, "one step", "open_segment", BOB, game, frame, states, steps)
    court.ok("referee", "open_step", BOB, game, frame, states, trace)
    here = court.game(game)
    assert (here.phase, here.frame.step) == (Phase.NODES, 6)
    assert (here.frame.before, here.frame.after) == (side.state(6).root, side.state(7).root)


def test_dispute_state__goes_to_the_state_after(court):
    game = at_nodes(court)
    frame = court.game(game).frame
    court.ok("referee", "dispute_state", DAVE, game, frame, TRAINING.opened)
    assert court.game(game).node == frame.after
    court.answer(game)
    court.down_to(game, 2)
    court.convict_now(game, 3)


def test_dispute_state__of_a_state_with_one_entry__stands_at_its_leaf(court):
    game = court.challenge("bob", Kind.UPDATE)
    court.answer(game)
    frame = court.game(game).frame
    program = court.side("bob", 0)._trace(frame).program
    court.ok("referee", "dispute_state", DAVE, game, frame, program)
    assert (court.game(game).height, court.game(game).awaits) == (0, Awaits.EVIDENCE)
    court.convict_now(game, 3)


@pytest.mark.parametrize("node", [0, 1, 4, 5])
def test_open_node__of_one_leaf_or_none__shows_it_at_once(court, node):
    game = at_node(court, node)
    here = court.game(game)
    assert (here.awaits, here.height, here.is_open) == (Awaits.EVIDENCE, 0, node != 4)
    if node == 4:
        refused(court, "no such leaf", "convict", DAVE, *court.evidence(game))
    else:
        court.convict_now(game, 4)


def test_open_node__of_more_than_sixteen_leaves__takes_two_picks(court):
    game = at_node(court, 3)
    assert court.game(game).height == 5
    court.down_to(game, 20)
    court.answer(game)
    court.convict_now(game)


def test_open_parts__of_one_leaf__is_shown_at_once(court):
    game = at_opened_leaf(court)
    court.ok("referee", "ask_parts", DAVE, game, court.game(game).frame, TRAINING.descriptor(2), 129)
    court.answer(game)
    assert (court.game(game).phase, court.game(game).is_open) == (Phase.PARTS, True)
    court.convict_now(game)


@pytest.mark.parametrize(("height", "depths"), [(5, [5]), (6, [6]), (7, [4, 3]), (12, [6, 6]), (13, [5, 4, 4])])
def test_a_tree__is_gone_down_in_as_few_moves_as_six_levels_allow(court, height, depths):
    game, leaves = at_opened_leaf(court), 1 << height
    court.mirror.set_parts(128 * leaves)
    court.ok("referee", "ask_parts", DAVE, game, court.game(game).frame, TRAINING.descriptor(2), 129)
    for depth in depths:
        court.answer(game)
        before = court.game(game).height
        court.pick(game, (1 << depth) - 1)
        assert court.game(game).height == before - depth
    court.answer(game)
    assert (court.game(game).index, court.game(game).is_open) == (leaves - 1, True)
    court.convict_now(game)


# --- leaves that a tree has not


@pytest.mark.parametrize("leaf", [0, 1, 2])
def test_pick__of_the_state_before_a_segment__is_a_dead_end_for_the_challenger(court, leaf):
    game = at_steps(court)
    court.down_to(game, leaf)
    assert (court.game(game).awaits == Awaits.EVIDENCE) == (leaf == 0)


def test_pick__of_padding__leaves_the_challenger_without_a_move(court):
    game = at_opened_leaf(court, 2)
    assert court.game(game).awaits == Awaits.EVIDENCE
    game = at_node(court, 2)
    court.down_to(game, 3)
    here = court.game(game)
    assert (here.node, here.is_beyond, here.awaits) == (EMPTY, True, Awaits.EVIDENCE)
    refused(court, "no such leaf", "convict", DAVE, *court.evidence(game))
    court.to(here.due + 1)
    court.ok("referee", "time_out", "stranger", game, here.claim, court.game(game).frame)
    assert court.world.referee_owed[COIN, court.accounts["bob owner"]] == here.coin // 2


def test_pick__of_anything_else_beyond_the_last_leaf__is_the_committers_end(court):
    """The trace has 70 leaves; its author puts another one where padding belongs."""
    game = at_steps(court)
    court.down_to(game, 1)
    here, side = court.game(game), court.side("bob", 0)
    name, (frame, states, trace) = side.move(here)
    lying = Tree((*trace_leaves(side, frame, here), noise("garbage")))
    trace = replace(trace, root=lying.root, children=lying.children(7, 0))
    court.ok("referee", name, BOB, game, frame, states, trace)
    children = lying.children(7, 0)
    court.ok("referee", "pick", DAVE, game, 8, children[8], Tree(children).path(8))
    children = lying.children(3, 8)
    court.ok("referee", "reveal", BOB, game, children)
    court.ok("referee", "pick", DAVE, game, 6, children[6], Tree(children).path(6))
    assert (court.game(game).node, court.game(game).awaits) == (noise("garbage"), Awaits.OPEN)
    opening = side._node(replace(court.game(game), index=0, frame=Frame(kind=0, step=3)))
    refused(court, "no such leaf", "open_node", BOB, game, court.game(game).frame, opening)
    court.to(court.game(game).due + 1)
    court.ok("referee", "time_out", "stranger", game, here.claim, court.game(game).frame)
    assert court.world.claims[JOB, court.seats["bob"], 0].status == ClaimStatus.CONVICTED


def trace_leaves(side, frame, game):
    step = frame.first_step + game.index - 1
    return side.trace(Frame(kind=frame.kind, step=step)).leaves


# --- refusals


def test_challenge__what_does_not_belong_to_the_claim__is_refused(court):
    job, claim, kind, slot, work, result = court.challenge_args("bob", Kind.TRAINING, 0)
    carol = court.named["carol"]

    def no(cause, *args):
        refused(court, cause, "challenge", DAVE, *args)

    no("not of this kind", job, claim, 3, slot, work, result)
    no("not of this kind", job, claim, 2, slot, work, result)
    no("not of this kind", job, carol, 0, slot, work, result)
    no("no such slot", job, claim, kind, claim.count, work, result)
    no("no such slot", job, claim, kind, 2**256 - 1, work, result)
    no("no such slot", job, carol, 2, 1, work, result)
    no("work does not match", job, claim, kind, slot, replace(work, rows=17), result)
    no("work does not match", job, claim, kind, slot, replace(work, segment_steps=0), result)
    for change in ("segment_root", "end_root", "update_root"):
        no("result does not match", job, claim, kind, slot, work, replace(result, **{change: noise(1)}))
    no("result does not match", job, claim, kind, slot, work, replace(result, path=(EMPTY,)))
    court.value = 4 * 10**15 - 1
    no("bond too small", job, claim, kind, slot, work, result)
    court.value = None
    unknown = replace(claim, price=claim.price + 1)
    court.no("settlement: unknown claim", "referee", "challenge", DAVE, job, unknown, kind, slot, work, result)
    court.to(court.deadline(job, claim) + 1)
    court.no("settlement: window closed", "referee", "challenge", DAVE, job, claim, kind, slot, work, result)


def test_challenge__a_slot_is_opened_at_its_own_place(court):
    job, claim, kind, slot, work, result = court.challenge_args(
        "alice", Kind.TRAINING, court.named["alice"].scope >> 16
    )
    refused(court, "result does not match", "challenge", DAVE, job, claim, kind, slot + 1, work, result)
    other = court.challenge_args("alice", Kind.TRAINING, slot + 1)[5]
    refused(court, "result does not match", "challenge", DAVE, job, claim, kind, slot, work, other)
    refused(court, "result does not match", "challenge", DAVE, job, claim, kind, slot, work, replace(result, path=()))
    court.ok("referee", "challenge", DAVE, job, claim, kind, slot + 1, work, other)


def test_challenge__sixteen_games_against_a_claim__and_their_bonds(court):
    games = [court.challenge("bob") for _ in range(16)]
    refused(court, "too many games", "challenge", DAVE, *court.challenge_args("bob", Kind.TRAINING, 0))
    first = court.game(games[0])
    price = court.named["bob"].price
    assert first.tokens == -(-price // 10)
    assert [court.game(game).coin // first.coin for game in games] == [1, 2, 3, *[4] * 13]
    assert [court.game(game).tokens // first.tokens for game in games] == [1, 2, 3, *[4] * 13]
    court.challenge("alice")
    court.ok("referee", "concede", DAVE, games[3], court.named["bob"], court.game(games[3]).frame)
    assert court.world.open_games[JOB, court.named["bob"]] == (*games[:3:-1], *games[2::-1])
    court.challenge("bob")


def test_reveal__other_children__are_refused(court):
    game = court.challenge("bob")
    children = court.side("bob", 0).move(court.game(game))[1][0]
    swapped = (children[1], children[0], *children[2:])
    for false in ((), children[:-1], (*children, EMPTY), (EMPTY,) * 4, swapped, children[:2], (court.game(game).node,)):
        refused(court, "children do not match", "reveal", BOB, game, false)
    refused(court, "not this move", "pick", DAVE, *court.pick_args(game, 0))
    court.ok("referee", "reveal", "stranger", game, children)
    refused(court, "not this move", "reveal", BOB, game, children)


def test_pick__anything_but_a_child__is_refused(court):
    game = court.challenge("bob")
    court.answer(game)
    _, place, child, path = court.pick_args(game, 1)
    refused(court, "not the challenger", "pick", BOB, game, place, child, path)
    parent = court.side("bob", 0).segments.levels[1][0]
    for false in (
        (0, child, path),
        (5, child, path),
        (2**256 - 1, child, path),
        (1, EMPTY, path),
        (1, child, path[:1]),
        (1, child, (*path, EMPTY)),
        (0, parent, path[1:]),
        (0, court.game(game).node, ()),
    ):
        refused(court, "not that child", "pick", DAVE, game, *false)
    court.ok("referee", "pick", DAVE, game, place, child, path)


def test_states__of_other_leaves_or_under_other_trees__are_refused(court):
    game = court.challenge("bob")
    court.answer(game)
    court.down_to(game, 2)
    side = court.side("bob", 0)
    _, (frame, states, steps) = side.move(court.game(game))
    args = (game, frame, states, steps)
    refused(court, "not the committer", "open_segment", DAVE, *args)
    refused(court, "other frame", "open_segment", BOB, game, replace(frame, round=1), states, steps)
    refused(court, "several steps", "open_step", BOB, game, frame, states, side._trace(Frame()))
    begin = (game, frame, states.before, TRAINING.opened, ())
    refused(court, "not this move", "open_begin", BOB, *begin)
    refused(court, "not this move", "open_leaf", BOB, game, b"")
    swapped = replace(states, before=states.after, after=states.before)
    for false in (swapped, replace(states, before=noise(1)), replace(states, path=states.path[1:])):
        refused(court, "states do not match", "open_segment", BOB, game, frame, false, steps)
    for change in (
        {"root": noise(1)},
        {"first_path": steps.last_path},
        {"last_path": steps.last_path[:1]},
        {"first_path": (*steps.first_path, EMPTY)},
    ):
        refused(court, "steps do not match", "open_segment", BOB, game, frame, states, replace(steps, **change))
    refused(court, "children do not match", "open_segment", BOB, game, frame, states, replace(steps, children=()))
    court.ok("referee", "open_segment", BOB, *args)


def test_steps__and_their_traces__are_opened_as_they_are(court):
    game = at_steps(court)
    court.down_to(game, 1)
    side = court.side("bob", 0)
    _, (frame, states, trace) = side.move(court.game(game))
    refused(court, "not the committer", "open_step", "stranger", game, frame, states, trace)
    wider = replace(trace, program=AGGREGATION.opened)
    refused(court, "other program", "open_step", BOB, game, frame, states, wider)
    head = bytearray(trace.program.head)
    head[7] ^= 1
    more = replace(trace, program=replace(trace.program, head=bytes(head)))
    refused(court, "other program", "open_step", BOB, game, frame, states, more)
    refused(court, "states do not match", "open_step", BOB, game, frame, replace(states, after=noise(2)), trace)
    refused(court, "children do not match", "open_step", BOB, game, frame, states, replace(trace, root=noise(3)))
    segment = side.move(replace(court.game(game), phase=Phase.SEGMENTS, index=1, frame=frame))[1]
    refused(court, "not this move", "open_segment", BOB, game, frame, *segment[1:])
    court.ok("referee", "open_step", BOB, game, frame, states, trace)


def test_begin__other_states_or_programs__are_refused(court):
    game = court.challenge("bob")
    court.answer(game)
    court.down_to(game, 0)
    side = court.side("bob", 0)
    _, (frame, root, program, children) = side.move(court.game(game))
    refused(court, "other frame", "open_begin", BOB, game, Frame(), root, program, children)
    refused(court, "states do not match", "open_begin", BOB, game, frame, noise(1), program, children)
    refused(court, "other program", "open_begin", BOB, game, frame, root, AGGREGATION.opened, children)
    refused(court, "children do not match", "open_begin", BOB, game, frame, root, program, children[:4])
    one = side.move(replace(court.game(game), index=1))[1]
    refused(court, "not this move", "open_segment", BOB, game, frame, *one[1:])
    court.ok("referee", "open_begin", "stranger", game, frame, root, program, children)


def test_dispute_state__elsewhere_than_at_the_root_of_a_trace__is_refused(court):
    game = at_steps(court)
    frame = court.game(game).frame
    refused(court, "not at the root of a trace", "dispute_state", DAVE, game, frame, TRAINING.opened)
    court.down_to(game, 1)
    court.answer(game)
    frame = court.game(game).frame
    refused(court, "not the challenger", "dispute_state", BOB, game, frame, TRAINING.opened)
    refused(court, "other frame", "dispute_state", DAVE, game, replace(frame, after=noise(1)), TRAINING.opened)
    refused(court, "other program", "dispute_state", DAVE, game, frame, AGGREGATION.opened)
    court.pick(game, 3)
    refused(court, "not this move", "dispute_state", DAVE, game, frame, TRAINING.opened)
    court.answer(game)
    refused(court, "not at the root of a trace", "dispute_state", DAVE, game, frame, TRAINING.opened)


def test_node__another_descriptor_or_tensor__is_refused(court):
    game = at_nodes(court)
    court.down_to(game, 2)
    side = court.side("bob", 0)
    _, (frame, opening) = side.move(court.game(game))
    other = side._node(replace(court.game(game), index=8))
    assert other.descriptor[8:] == opening.descriptor[8:]  # of the same shape
    for cause, false in (
        ("other program", replace(opening, program=Program(b"\0" * 20, EMPTY, opening.program.nodes))),
        ("other descriptor", replace(opening, descriptor=other.descriptor)),
        ("other descriptor", replace(opening, descriptor=other.descriptor, path=other.path)),
        ("other descriptor", replace(opening, path=opening.path[:-1])),
        ("other descriptor", replace(opening, path=(*opening.path, EMPTY))),
        ("tensor does not match", replace(opening, elements_root=other.elements_root)),
        ("children do not match", replace(opening, children=other.children)),
        ("children do not match", replace(opening, children=())),
    ):
        refused(court, cause, "open_node", BOB, game, frame, false)
    refused(court, "not this move", "open_leaf", BOB, game, b"\0" * 512)
    court.ok("referee", "open_node", "stranger", game, frame, opening)


def test_leaf__other_bytes_or_another_length__are_refused(court):
    game = at_node(court, 2)
    court.down_to(game, 2)
    (data,) = court.side("bob", 0).move(court.game(game))[1]
    assert len(data) == 4 * (300 - 256)
    for false in (b"", data[:-1], data + b"\0", data[:-4], bytes(len(data)), data.ljust(512, b"\0")):
        refused(court, "bytes do not match", "open_leaf", BOB, game, false)
    court.ok("referee", "open_leaf", BOB, game, data)
    refused(court, "not this move", "open_leaf", BOB, game, data)


def test_leaf__a_last_one_that_is_longer_than_the_tensor__cannot_be_shown(court):
    """Its hash is the committed one; only the length tells."""
    game = at_nodes_of_a_long_leaf(court)
    refused(court, "bytes do not match", "open_leaf", BOB, game, b"\7" * 512)


def at_nodes_of_a_long_leaf(court):
    """bob's third leaf of node 2 has 512 bytes where 176 belong."""
    game = at_steps(court)
    court.down_to(game, 1)
    side, here = court.side("bob", 0), court.game(game)
    _, (frame, states, trace) = side.move(here)
    leaves = list(trace_leaves(side, frame, here))
    data = side.data(Frame(kind=0, step=frame.first_step), 2)
    elements = Tree(tuple(sha256(b"\0" + part).digest() for part in (data[:512], data[512:1024], b"\7" * 512)))
    tensor = merkle.tensor_root(TRAINING.head(2), elements.root)
    leaves[2] = sha256(b"\x08" + (2).to_bytes(4, "little") + tensor).digest()
    lying = Tree(tuple(leaves))
    court.ok(
        "referee", "open_step", BOB, game, frame, states, replace(trace, root=lying.root, children=lying.children(7, 0))
    )
    for height, place in ((7, 0), (3, 2)):
        children = lying.children(height, 0)
        if height == 3:
            court.ok("referee", "reveal", BOB, game, children)
        court.ok("referee", "pick", DAVE, game, place, children[place], Tree(children).path(place))
    opening = side._node(court.game(game))
    opening = replace(opening, elements_root=elements.root, children=elements.children(2, 0))
    court.ok("referee", "open_node", BOB, game, court.game(game).frame, opening)
    children = elements.children(2, 0)
    court.ok("referee", "pick", DAVE, game, 2, children[2], Tree(children).path(2))
    return game


def test_ask_parts__of_what_is_not_in_the_leaf_or_has_one__is_refused(court):
    game = at_opened_leaf(court)
    frame, training_descriptor = court.game(game).frame, TRAINING.descriptor(2)
    refused(court, "not the challenger", "ask_parts", BOB, game, frame, training_descriptor, 129)
    refused(court, "other frame", "ask_parts", DAVE, game, replace(frame, node=3), training_descriptor, 129)
    refused(court, "other descriptor", "ask_parts", DAVE, game, frame, TRAINING.descriptor(8), 129)
    for element in (0, 127, 256, 300, 2**256 - 1):
        refused(court, "no such element", "ask_parts", DAVE, game, frame, training_descriptor, element)
    court.mirror.set_parts(1)
    refused(court, "one part", "ask_parts", DAVE, game, frame, training_descriptor, 129)
    court.mirror.set_parts(2**48)
    refused(court, "too many elements", "ask_parts", DAVE, game, frame, training_descriptor, 129)
    court.mirror.set_parts(3)
    court.ok("referee", "ask_parts", DAVE, game, frame, training_descriptor, 129)
    refused(court, "not this move", "ask_parts", DAVE, game, frame, training_descriptor, 129)
    state = court.challenge("bob")
    court.answer(state)
    court.down_to(state, 0)
    court.answer(state)
    court.down_to(state, 0)
    refused(court, "not this move", "ask_parts", DAVE, state, court.game(state).frame, training_descriptor, 129)


@pytest.mark.parametrize("parts", [3, 300])
def test_open_parts__whose_last_is_not_the_element__is_refused(court, parts):
    game = at_opened_leaf(court)
    court.mirror.set_parts(parts)
    court.ok("referee", "ask_parts", DAVE, game, court.game(game).frame, TRAINING.descriptor(2), 129)
    _, (frame, opening) = court.side("bob", 0).move(court.game(game))
    refused(court, "not the committer", "open_parts", DAVE, game, frame, opening)
    refused(court, "other frame", "open_parts", BOB, game, replace(frame, element=130), opening)
    for leaf in (b"", opening.leaf[:-4], bytes(512)):
        refused(court, "bytes do not match", "open_parts", BOB, game, frame, replace(opening, leaf=leaf))
    other = opening.last[:-4] + b"\1\2\3\4"
    for change in (
        {"root": noise(1)},
        {"last": b""},
        {"last": other},
        {"last": opening.last[:-4]},
        {"path": (*opening.path, EMPTY)},
        {"last": other, "root": Tree((noise(2),)).root},
    ):
        refused(court, "parts do not match", "open_parts", BOB, game, frame, replace(opening, **change))
    court.ok("referee", "open_parts", BOB, game, frame, opening)


def test_convict__with_false_evidence_or_another_frame_or_claim__is_refused(court):
    game, other = at_opened_leaf(court), court.challenge("bob")
    number, claim, frame, kind, data = court.evidence(game)
    court.no("evidence: it does not hold", "referee", "convict", DAVE, number, claim, frame, kind, b"")
    court.no("evidence: it does not hold", "referee", "convict", DAVE, number, claim, frame, kind + 1, data)
    stale = descriptor_of(kind, frame, replace(court.game(game).position, open_leaf=EMPTY))
    court.no("evidence: it does not hold", "referee", "convict", DAVE, number, claim, frame, kind, stale)
    refused(court, "other frame", "convict", DAVE, number, claim, court.game(other).frame, kind, data)
    refused(court, "other frame", "convict", DAVE, other, claim, frame, kind, data)
    refused(court, "other claim", "convict", DAVE, number, court.named["alice"], frame, kind, data)
    refused(court, "no open game", "convict", DAVE, 99, claim, frame, kind, data)
    court.ok("referee", "convict", "stranger", number, claim, frame, kind, data)
    refused(court, "no open game", "convict", "stranger", number, claim, frame, kind, data)


def test_every_function_and_refusal_of_the_text__was_met_here(court, committed):
    """The last of this file: it counts what the tests before it met."""
    game = court.challenge("bob")
    claim = court.named["bob"]
    frame = court.game(game).frame
    refused(court, "time left", "time_out", DAVE, game, claim, frame)
    refused(court, "not the challenger", "concede", BOB, game, claim, frame)
    refused(court, "nothing owed", "withdraw", DAVE, COIN, court.accounts[DAVE])
    court.to(court.game(game).due + 1)
    refused(court, "out of time", "reveal", BOB, game, ())
    listed = set(re.findall(r"`(referee: [a-z0-9 ]+)`", TEXT.read_text()))
    elsewhere = {"referee: transfer failed", "referee: not false"}  # test_referee_ends.py; Evidence reverts instead
    assert listed - elsewhere - set(committed.coverage.reasons) == set()
    met = {name.split(".")[1] for name in committed.coverage.accepts if name.startswith("referee.")}
    assert set(EXTERNAL["referee"]) - met <= {"concede", "time_out", "withdraw"}
