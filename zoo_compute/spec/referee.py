"""The Referee: the tree of a disputed claim is explored in public, once (docs/protocol/referee.md). `Referee.vy` is its twin.

`court` is all other contracts: `court.judge` decides on evidence. `verdicts` has how claims are resolved, fees and seals.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from zoo_compute.spec import clocks, descents, merkle
from zoo_compute.spec.clocks import GWEI
from zoo_compute.spec.descents import Answer, Ask, Stage, frame_hash, require_frame
from zoo_compute.spec.disputed_claims import (
    MAX_ASKS,
    MAX_SLOTS_COUNTED,
    MOST_LEFT_S,
    RESULT,
    DisputedClaim,
    Explorations,
    claim_key,
    fee_of,
    heavy_price,
    price_of,
    require_node,
    require_open,
    require_pending,
    unit_of,
    with_deadline,
)
from zoo_compute.spec.exploration import (
    Node,
    Origin,
    Payment,
    Status,
    Tree,
    TreePosition,
    child_id,
    id_below,
    path_id,
    require_children,
    require_words,
    segment_id,
    segments_position,
)
from zoo_compute.spec.frames import EMPTY, Frame, Hashes, Kind, Result, States, Work, claim_hash, height_of
from zoo_compute.spec.params import AGGREGATOR_SEAT, COIN
from zoo_compute.spec.receipts import is_of_job
from zoo_compute.spec.revert import require
from zoo_compute.spec.state import Claim, Message
from zoo_compute.spec.watching import NOBODY

# --- asks


def ask_claim(
    w: Explorations,
    msg: Message,
    job: int,
    claim: Claim,
    kind: int,
    slot: int,
    work: Work,
    result: Result,
    index: int,
    states: States,
    path: Hashes,
) -> tuple[bytes, Node, Frame]:
    """The first ask of a path; returns its id, record and frame."""
    is_kind = 0 <= kind <= RESULT and (kind == Kind.AGGREGATION) == claim.is_aggregation
    is_alone = kind in (Kind.TRAINING, RESULT)
    require(is_kind and (is_alone or is_of_job(job)), "referee: not of this kind")
    _open(w, msg, job, claim, work)
    has_slot = slot == 0 if claim.is_aggregation else slot in claim.slots
    require(has_slot, "referee: no such slot")
    key = claim_key(job, claim)
    id = path_id(key, slot, kind)
    origin = Origin(unit_of(id), msg.now)
    frame = _first_frame(job, claim, kind, slot, work, result)
    root, position = EMPTY, TreePosition(Tree.NODES)
    if kind == RESULT:
        root, position = claim.root, TreePosition(Tree.RESULT)
    elif kind == Kind.TRAINING:
        root, position = result.segment_root, segments_position(work.inner_steps, work.segment_steps)
        if path:
            frame, root, position = _bundle_leaf(frame, index, states, path)
            id = segment_id(origin.unit, index)
    of_path = clocks.first(0, w.preset)
    node = Node(key, frame_hash(frame), position, root, origin, clocks=of_path, price=price_of(claim))
    is_heavy = position.is_heavy or kind in (Kind.UPDATE, Kind.AGGREGATION)
    node = _ask(w, msg, id, node, is_heavy=is_heavy, is_aggregation=kind == Kind.AGGREGATION)
    return id, node, frame


def _open(w: Explorations, msg: Message, job: int, claim: Claim, work: Work) -> None:
    """With its first ask a claim gets its word."""
    terms = w.court.dispute_terms(job, claim)
    is_work = min(work.inner_steps, work.segment_steps) > 0 and work.root == terms.work_root
    require(is_work, "referee: work does not match")
    is_in_time = not terms.deadline or clocks.can_begin(msg.now, terms.deadline)
    require(is_in_time, "referee: window closed")
    key = claim_key(job, claim)
    if key in w.claims:
        return
    turn = 0 if terms.deadline else claim.turn
    slots = max(1, min(terms.slots, MAX_SLOTS_COUNTED))
    word = DisputedClaim(job, claim.operator, turn, terms.reexecute_s, slots, terms.deadline)
    if terms.deadline:
        word = replace(word, left_s=min(terms.deadline - msg.now, MOST_LEFT_S))
    w.claims[key] = word
    w.court.open_dispute(job, claim)


def _first_frame(job: int, claim: Claim, kind: int, slot: int, work: Work, result: Result) -> Frame:
    frame = Frame(
        job=job,
        round=claim.round,
        slot=slot,
        kind=kind,
        seat=claim.seat,
        claim=claim_hash(claim),
        work_root=work.root,
        start_root=claim.start_root,
        inner_steps=work.inner_steps,
        segment_steps=work.segment_steps,
        rows=work.rows,
        carry=work.carry,
    )
    if kind == RESULT:
        return frame
    program = kind + claim.seat - AGGREGATOR_SEAT if claim.is_aggregation else kind
    require(program < len(work.programs), "referee: no such program")
    frame = replace(frame, program_root=work.programs[program])
    if kind == Kind.AGGREGATION:
        return replace(frame, before=claim.start_root, after=claim.root)
    roots = result.segment_root, result.end_root, result.update_root
    leaf = merkle.result_root(slot, claim.start_root, *roots)
    require(claim.has_result(slot, leaf, result.path), "referee: result does not match")
    frame = replace(frame, segment_root=roots[0], end_root=roots[1], update_root=roots[2])
    if kind == Kind.UPDATE:
        return replace(frame, before=claim.start_root, after=result.update_root)
    return replace(frame, tree_root=result.segment_root)


def _bundle_leaf(frame: Frame, index: int, states: States, path: Hashes) -> tuple[Frame, bytes, TreePosition]:
    """A segment leaf as the bundle shows it, with the states on both sides."""
    position = segments_position(frame.inner_steps, frame.segment_steps, index)
    height = height_of(position.count)

    def is_leaf(leaf: int, root: bytes, path: Hashes) -> bool:
        at = merkle.segment_leaf(min(leaf * frame.segment_steps, frame.inner_steps), root)
        return len(path) == height and merkle.climb(at, leaf, path) == frame.tree_root

    is_leaf_there = index < position.count and is_leaf(index, states.after, path)
    is_after_one = index == 0 or is_leaf(index - 1, states.before, states.path)
    require(is_leaf_there and is_after_one, "referee: states do not match")
    step = min(index * frame.segment_steps, frame.inner_steps)
    frame = replace(frame, after=states.after, before=states.before if index else EMPTY)
    return frame, merkle.segment_leaf(step, states.after), position


def ask(
    w: Explorations, msg: Message, above: bytes, node: Node, place: int, child: bytes, path: Hashes
) -> tuple[bytes, Node]:
    """A child of an answered node."""
    require_node(w, above, node, Status.ANSWERED)
    require(not node.position.shows_words and node.position.tree != Tree.RESULT, descents.HERE)
    position = node.position.below(node.root, place, child, path)
    require(position.is_askable(child), "referee: nothing to answer")
    id = id_below(above, node.origin.unit, position, place)
    return id, _ask(w, msg, id, replace(node, position=position, root=child), is_heavy=position.is_heavy)


def ask_stage(
    w: Explorations, msg: Message, above: bytes, node: Node, kind: int, frame: Frame, data: Any
) -> tuple[bytes, Node, Frame]:
    """The state after a trace, or an element that comes about in several parts."""
    require_node(w, above, node, Status.ANSWERED)
    if kind == Ask.STATE:
        stage, place = descents.asked_state(node, frame, data)
    else:
        if kind != Ask.PARTS:
            require_frame(node, frame)
        require(kind == Ask.PARTS, descents.HERE)
        stage, place = descents.asked_parts(node, frame, data, w.court.part_count)
    id = child_id(above, place)
    below = replace(node, frame=frame_hash(stage.frame), position=stage.position, root=stage.root)
    if stage.position.is_askable(stage.root):
        return id, _ask(w, msg, id, below), stage.frame
    # A state of one entry shows nothing below: it can be judged at once, and nobody owes an answer.
    require(id not in w.nodes, "referee: asked already")
    require(msg.value == 0, "referee: nothing to answer")
    require_open(w, w.claims[node.claim], msg.now)
    below = replace(below, payment=Payment(msg.sender, 0, msg.now), answerer=NOBODY)
    w.nodes[id] = below, Status.ANSWERED
    return id, below, stage.frame


def _ask(
    w: Explorations, msg: Message, id: bytes, node: Node, *, is_heavy: bool = False, is_aggregation: bool = False
) -> Node:
    require(id not in w.nodes, "referee: asked already")
    word = with_deadline(w, w.claims[node.claim])
    require_pending(word)
    require(word.open < MAX_ASKS, "referee: too many asks")
    origin, open_heavy, token, price = node.origin, 0, COIN, 0
    if is_heavy:
        holder = word.job, word.operator
        open_heavy = w.heavy[holder] = w.heavy.get(holder, 0) + 1
        origin = Origin(unit_of(id), msg.now)
        token, price = heavy_price(w, word.job, is_aggregation, node.price)
    # While the turn is open its deadline lies ahead.
    deadline = word.deadline or msg.now
    require(clocks.is_askable(node.clocks, msg.now, deadline), "referee: askers out of time")
    counts = is_heavy, open_heavy, word.slots, word.reexecute_s
    below = clocks.asked(node.clocks, msg.now, deadline, *counts, w.preset)
    made, still_open = min(word.heavy_made + int(is_heavy), MAX_ASKS), word.heavy_open + int(is_heavy)
    w.claims[node.claim] = replace(word, open=word.open + 1, heavy_made=made, heavy_open=still_open)
    require(msg.value >= fee_of(node.position, word.open + 1, msg.base_fee), "referee: fee too small")
    payment = Payment(msg.sender, msg.value // GWEI, msg.now, is_heavy, is_aggregation)
    asked = replace(node, clocks=below, origin=origin, payment=payment, answerer=NOBODY)
    w.nodes[id] = asked, Status.ASKED
    if price:
        require(w.court.take(token, msg.sender, price), "referee: transfer failed")
    return asked


# --- answers


def answer(w: Explorations, msg: Message, id: bytes, node: Node, children: Hashes) -> Node:
    require_node(w, id, node, Status.ASKED)
    require(node.position.height > 0, descents.HERE)
    require_children(node.position, node.root, children)
    return _answer(w, msg, id, node)


def answer_words(w: Explorations, msg: Message, id: bytes, node: Node, data: bytes) -> Node:
    require_node(w, id, node, Status.ASKED)
    require_words(node.position, node.root, data)
    return _answer(w, msg, id, node)


STAGES = {
    Answer.BEGIN: descents.answered_begin,
    Answer.NODE: descents.answered_node,
    Answer.RESULT: descents.answered_result,
    Answer.SEGMENT: descents.answered_segment,
    Answer.STEP: descents.answered_step,
    Answer.TRACE: descents.answered_trace,
    Answer.PARTS: descents.answered_parts,
}


def answer_stage(
    w: Explorations, msg: Message, id: bytes, node: Node, kind: int, frame: Frame, data: Any
) -> tuple[Node, Frame]:
    """From a leaf into the tree behind it."""
    require_node(w, id, node, Status.ASKED)
    if kind not in STAGES:
        require_frame(node, frame)
        require(False, descents.HERE)
    stage: Stage = STAGES[Answer(kind)](node, frame, data)  # type: ignore[operator]
    at = replace(node, frame=frame_hash(stage.frame), position=stage.position, root=stage.root)
    return _answer(w, msg, id, at, is_new=kind >= Answer.SEGMENT), stage.frame


def _answer(w: Explorations, msg: Message, id: bytes, node: Node, *, is_new: bool = False) -> Node:
    """node: where it is from now on."""
    word = w.claims[node.claim]
    require_pending(word)
    is_author = w.court.may_answer(word.operator, msg.sender)
    # Until then the owner is paid whoever answers: nobody copies the answer of an author that is awake.
    is_exclusive = msg.now < clocks.exclusive_until(node.clocks, w.preset)
    require(is_author or not is_new, "referee: not the committer")
    require(not clocks.is_expired(node.clocks, msg.now), "referee: out of time")
    after = clocks.answered(node.clocks, msg.now)
    answered = replace(node, clocks=after, answerer=NOBODY if is_new or is_exclusive else msg.sender)
    is_heavy, holder = int(node.payment.is_heavy), (word.job, word.operator)
    w.heavy[holder] = w.heavy.get(holder, 0) - is_heavy
    w.claims[node.claim] = replace(
        word,
        open=word.open - 1,
        heavy_open=word.heavy_open - is_heavy,
        latest=max(word.latest, clocks.asks_end(after, 0)),
        used_s=max(word.used_s, min(clocks.used_s(after, w.preset), 2**16 - 1)),
    )
    w.nodes[id] = answered, Status.ANSWERED
    return answered
