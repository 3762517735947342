"""The referee: games, moves, clocks, bonds (docs/protocol/referee.md). What evidence shows is `config.evidence`'s to say."""

from dataclasses import replace
from hashlib import sha256

from eth_utils.crypto import keccak

from zoo_compute.spec import admissions, convictions, merkle
from zoo_compute.spec.games import (
    EMPTY,
    Awaits,
    Frame,
    Game,
    Hashes,
    Kind,
    NodeOpening,
    PartsOpening,
    Phase,
    Program,
    Result,
    States,
    Steps,
    Trace,
    Work,
    claim_hash,
    head_of,
    height_of,
    span_of,
)
from zoo_compute.spec.params import (
    BOND_BPS,
    BOND_STEPS,
    BPS,
    DEFENCE_GAS,
    LEAST_BASE_FEE,
    MAX_CHALLENGERS,
    MAX_GAME_COUNT,
    MOST_COUNTED,
    WORD_BYTES,
    WORDS_A_LEAF,
)
from zoo_compute.spec.revert import require
from zoo_compute.spec.state import Claim, Message, World
from zoo_compute.spec.trials import TRIALS

LEAF_BYTES = WORD_BYTES * WORDS_A_LEAF
TURNS = "referee: not this move"


def bond(claim: Claim, games: int, base_fee: int) -> tuple[int, int]:
    """(coin, tokens) of the next game against a claim whose operator has so many open."""
    times, price = min(games + 1, BOND_STEPS), claim.price + claim.pot_price
    coin = 2 * DEFENCE_GAS * max(base_fee, LEAST_BASE_FEE)
    return times * coin, times * -(-price * BOND_BPS // BPS)


# --- opening a game


def challenge(w: World, msg: Message, job: int, claim: Claim, kind: int, slot: int, work: Work, result: Result) -> int:
    """A new game against a pending claim."""
    is_kind = kind in list(Kind) and (kind == Kind.AGGREGATION) == claim.is_aggregation
    require(is_kind and (kind == Kind.TRAINING or job != TRIALS), "referee: not of this kind")
    has_slot = slot == 0 if claim.is_aggregation else slot in claim.slots
    require(has_slot, "referee: no such slot")
    is_work = min(work.inner_steps, work.segment_steps) > 0 and work.root == _work_root(w, job, claim)
    require(is_work, "referee: work does not match")
    game = opened_game(job, claim, Kind(kind), slot, work, result)
    games = w.open_games.get((job, claim), ())
    require(len(games) < MAX_CHALLENGERS, "referee: too many games")
    against = w.open_against(claim.operator)
    coin, tokens = bond(claim, against, msg.base_fee)
    require(msg.value >= coin, "referee: bond too small")
    number = w.game_count = w.game_count + 1
    preset = w.config.preset
    reexecute_s = preset.benchmark_s if job == TRIALS else w.terms[job].reexecute_s
    extra_s = min(against + 1, MOST_COUNTED) * reexecute_s
    w.games[number] = replace(
        game,
        challenger=msg.sender,
        coin=msg.value,
        tokens=tokens,
        at=msg.now,
        move_s=preset.move_s + extra_s,
        committer_left=preset.side_s + extra_s,
        challenger_left=preset.side_s + extra_s,
    )
    w.open_games[job, claim] = (number, *games)
    open_dispute = admissions.open_dispute if job == TRIALS else convictions.open_dispute
    open_dispute(w, replace(msg, sender=w.config.referee), job, claim)
    if tokens:
        w.move(w.job(job).token, msg.sender, w.config.referee, tokens, by="referee")
    return number


def _work_root(w: World, job: int, claim: Claim) -> bytes:
    trial = w.trials.get(claim.turn) if job == TRIALS else None
    return trial.work_root if trial else w.job(job).work_root


def opened_game(job: int, claim: Claim, kind: Kind, slot: int, work: Work, result: Result) -> Game:
    """Where a game begins. Bonds and clocks are its opener's to add."""
    frame = _first_frame(job, claim, kind, slot, work, result)
    game = Game(job=job, claim=claim, frame=frame, awaits=Awaits.TRACE)
    leaves = -(-work.inner_steps // work.segment_steps) + 1
    first = _stand(game, Phase.SEGMENTS, frame.segment_root, leaves, Awaits.REVEAL)
    return first if kind == Kind.TRAINING else game


def _first_frame(job: int, claim: Claim, kind: Kind, slot: int, work: Work, result: Result) -> Frame:
    if kind == Kind.AGGREGATION:
        before, after, result = claim.start_root, claim.root, Result()
    else:
        roots = (result.segment_root, result.end_root, result.update_root)
        leaf = merkle.result_root(slot, claim.start_root, *roots)
        root = merkle.climb(leaf, slot - (claim.scope >> 16), result.path)
        require(root == claim.root, "referee: result does not match")
        before, after = (claim.start_root, result.update_root) if kind == Kind.UPDATE else (EMPTY, EMPTY)
    return Frame(
        job=job,
        round=claim.round,
        slot=slot,
        kind=kind,
        seat=claim.seat,
        claim=claim_hash(claim),
        work_root=work.root,
        program_root=work.programs[kind],
        start_root=claim.start_root,
        segment_root=result.segment_root,
        end_root=result.end_root,
        update_root=result.update_root,
        inner_steps=work.inner_steps,
        segment_steps=work.segment_steps,
        rows=work.rows,
        carry=work.carry,
        before=before,
        after=after,
        tree_root=result.segment_root if kind == Kind.TRAINING else EMPTY,
    )


# --- down a tree


def reveal(w: World, msg: Message, number: int, children: Hashes) -> None:
    """There is one answer, so anybody may give it."""
    game = _move(w, msg, number, Awaits.REVEAL)
    _require_children(game.node, game.height, children)
    w.games[number] = replace(game.moved(msg.now), awaits=Awaits.PICK)


def pick(w: World, msg: Message, number: int, place: int, child: bytes, path: Hashes) -> None:
    game = _move(w, msg, number, Awaits.PICK, by_challenger=True)
    depth = span_of(game.height)
    is_child = len(path) == depth and place < 1 << depth and merkle.climb(child, place, path) == game.node
    require(is_child, "referee: not that child")
    game = replace(game.moved(msg.now), node=child, height=game.height - depth, index=game.index << depth | place)
    w.games[number] = replace(game, awaits=Awaits.REVEAL) if game.height else _reached_leaf(game)


def _reached_leaf(game: Game) -> Game:
    """At a leaf. Who has anything but padding beyond the last one owes an opening that there is not, and is silent."""
    if game.is_beyond:
        awaits = Awaits.EVIDENCE if game.node == EMPTY else Awaits.OPEN
    elif game.phase == Phase.STATE or (game.phase == Phase.STEPS and game.index == 0):
        awaits = Awaits.EVIDENCE
    else:
        awaits = Awaits.OPEN
    return replace(game, awaits=awaits)


def _stand(game: Game, phase: Phase, root: bytes, count: int, awaits: Awaits) -> Game:
    """At the root of a tree."""
    game = replace(game, phase=phase, node=root, count=count, index=0, is_open=False, awaits=awaits)
    return replace(game, height=height_of(game.leaves))


def _enter(game: Game, phase: Phase, root: bytes, count: int, children: Hashes) -> Game:
    """At the root of a tree, whose children are revealed."""
    game = _stand(game, phase, root, count, Awaits.PICK)
    _require_children(root, game.height, children)
    return game


def _enter_words(game: Game, phase: Phase, root: bytes, count: int, children: Hashes, leaf: bytes) -> Game:
    """As `_enter`; a tree of one leaf is shown at once. One of no word is padding, and has nothing to show."""
    require(count < MAX_GAME_COUNT, "referee: too many elements")
    game = _stand(game, phase, root, count, Awaits.PICK)
    if game.height:
        _require_children(root, game.height, children)
        return game
    if count == 0:
        require(root == EMPTY, "referee: bytes do not match")
        return replace(game, awaits=Awaits.EVIDENCE)
    return _show_leaf(game, leaf)


def _show_leaf(game: Game, leaf: bytes) -> Game:
    _require_leaf(leaf, game.node, game.index, game.count)
    return replace(game, is_open=True, awaits=Awaits.EVIDENCE)


# --- from tree to tree


def open_segment(w: World, msg: Message, number: int, frame: Frame, states: States, steps: Steps) -> None:
    """To the states of the steps in one segment."""
    game = _open(w, msg, number, frame, Phase.SEGMENTS, by_committer=True)
    require(game.index > 0, TURNS)
    first, last = _step_of(game, game.index - 1), _step_of(game, game.index)
    require(last - first > 1, "referee: one step")
    _require_states(game, states)
    height = height_of(last - first + 1)
    for leaf, at, path in (
        (merkle.segment_leaf(first, states.before), 0, steps.first_path),
        (merkle.segment_leaf(last, states.after), last - first, steps.last_path),
    ):
        is_root = len(path) == height and merkle.climb(leaf, at, path) == steps.root
        require(is_root, "referee: steps do not match")
    frame = replace(frame, before=states.before, after=states.after, tree_root=steps.root, first_step=first)
    game = _enter(game.moved(msg.now), Phase.STEPS, steps.root, last - first + 1, steps.children)
    w.games[number] = replace(game, frame=frame)


def open_step(w: World, msg: Message, number: int, frame: Frame, states: States, trace: Trace) -> None:
    """To the nodes of one step; from SEGMENTS where the segment has one."""
    game = _open(w, msg, number, frame, Phase.SEGMENTS, Phase.STEPS, by_committer=True)
    require(game.index > 0, TURNS)
    step = _step_of(game, game.index - 1)
    require(_step_of(game, game.index) == step + 1, "referee: several steps")
    _require_states(game, states)
    frame = replace(frame, before=states.before, after=states.after, step=step)
    w.games[number] = _traced(game.moved(msg.now), frame, trace)


def open_trace(w: World, msg: Message, number: int, frame: Frame, trace: Trace) -> None:
    """To the nodes of an update or an aggregation."""
    game = _move(w, msg, number, Awaits.TRACE, by_committer=True)
    require(game.frame == frame, "referee: other frame")
    w.games[number] = _traced(game.moved(msg.now), frame, trace)


def _traced(game: Game, frame: Frame, trace: Trace) -> Game:
    require(trace.program.root == frame.program_root, "referee: other program")
    game = _enter(game, Phase.NODES, trace.root, trace.program.node_count, trace.children)
    return replace(game, frame=replace(frame, trace_root=trace.root))


def open_begin(
    w: World, msg: Message, number: int, frame: Frame, root: bytes, program: Program, children: Hashes
) -> None:
    """To the state at step 0."""
    game = _open(w, msg, number, frame, Phase.SEGMENTS)
    require(game.index == 0, TURNS)
    require(merkle.segment_leaf(0, root) == game.node, "referee: states do not match")
    require(program.root == frame.program_root, "referee: other program")
    game = _enter(game.moved(msg.now), Phase.STATE, root, program.state_count, children)
    w.games[number] = replace(game, frame=replace(frame, after=root, is_begin=1))


def dispute_state(w: World, msg: Message, number: int, frame: Frame, program: Program) -> None:
    """The trace is right; what it ends in is another state."""
    game = _move(w, msg, number, Awaits.PICK, by_challenger=True)
    require(game.frame == frame, "referee: other frame")
    is_root = game.phase == Phase.NODES and game.node == frame.trace_root
    require(is_root, "referee: not at the root of a trace")
    require(program.root == frame.program_root, "referee: other program")
    game = _stand(game.moved(msg.now), Phase.STATE, frame.after, program.state_count, Awaits.REVEAL)
    w.games[number] = game if game.height else _reached_leaf(game)


def open_node(w: World, msg: Message, number: int, frame: Frame, opening: NodeOpening) -> None:
    """To the elements of one node."""
    game = _open(w, msg, number, frame, Phase.NODES)
    require(opening.program.root == frame.program_root, "referee: other program")
    leaf = sha256(b"\x05" + opening.descriptor).digest()
    is_node = len(opening.path) == game.height_of_tree and (
        merkle.climb(leaf, game.index, opening.path) == opening.program.nodes
    )
    require(is_node, "referee: other descriptor")
    head, count = head_of(opening.descriptor)
    tensor = merkle.tensor_root(head, opening.elements_root)
    traced = sha256(b"\x08" + game.index.to_bytes(4, "little") + tensor).digest()
    require(traced == game.node, "referee: tensor does not match")
    frame = replace(
        frame,
        node=game.index,
        descriptor=keccak(opening.descriptor),
        tensor_root=tensor,
        elements_root=opening.elements_root,
    )
    moved = game.moved(msg.now)
    game = _enter_words(moved, Phase.ELEMENTS, opening.elements_root, count, opening.children, opening.leaf)
    w.games[number] = replace(game, frame=frame)


def open_leaf(w: World, msg: Message, number: int, data: bytes) -> None:
    """The bytes of a leaf of words."""
    game = _move(w, msg, number, Awaits.OPEN)
    require(game.phase >= Phase.ELEMENTS, TURNS)
    require(not game.is_beyond, "referee: no such leaf")
    w.games[number] = _show_leaf(game.moved(msg.now), data)


def ask_parts(w: World, msg: Message, number: int, frame: Frame, descriptor: bytes, element: int) -> None:
    """An element of the shown leaf that comes about in more than one part."""
    game = _move(w, msg, number, Awaits.EVIDENCE, by_challenger=True)
    require(game.frame == frame, "referee: other frame")
    require(game.phase == Phase.ELEMENTS and game.is_open, TURNS)
    require(keccak(descriptor) == frame.descriptor, "referee: other descriptor")
    is_there = element < game.count and element // WORDS_A_LEAF == game.index
    require(is_there, "referee: no such element")
    parts = w.config.part_count(descriptor, element)
    require(parts > 1, "referee: one part")
    require(parts < MAX_GAME_COUNT, "referee: too many elements")
    frame = replace(frame, element=element, parts=parts)
    w.games[number] = replace(game.moved(msg.now), awaits=Awaits.PARTS, frame=frame)


def open_parts(w: World, msg: Message, number: int, frame: Frame, opening: PartsOpening) -> None:
    """To the results of the parts, the last of which is the element."""
    game = _move(w, msg, number, Awaits.PARTS, by_committer=True)
    require(game.frame == frame, "referee: other frame")
    _require_leaf(opening.leaf, game.node, game.index, game.count)
    last = frame.parts - 1
    at = last // WORDS_A_LEAF
    leaf = sha256(b"\x00" + opening.last).digest()
    is_last = (
        len(opening.path) == height_of(at + 1)
        and len(opening.last) == WORD_BYTES * (frame.parts - at * WORDS_A_LEAF)
        and merkle.climb(leaf, at, opening.path) == opening.root
        and _word_of(opening.last, last) == _word_of(opening.leaf, frame.element)
    )
    require(is_last, "referee: parts do not match")
    moved = game.moved(msg.now)
    game = _enter_words(moved, Phase.PARTS, opening.root, frame.parts, opening.children, opening.last)
    w.games[number] = replace(game, frame=replace(frame, parts_root=opening.root))


# --- what a move must be


def _move(
    w: World, msg: Message, number: int, awaited: Awaits, *, by_challenger: bool = False, by_committer: bool = False
) -> Game:
    """A game in which this move is due, from who may make it, in time."""
    game = w.games.get(number, Game())
    require(game.awaits == awaited, TURNS)
    if by_challenger:
        require(msg.sender == game.challenger, "referee: not the challenger")
    if by_committer:
        assert game.claim is not None, "a game without its claim"
        require(msg.sender == w.operator(game.claim.operator).hot, "referee: not the committer")
    require(msg.now <= game.due, "referee: out of time")
    return game


def _open(w: World, msg: Message, number: int, frame: Frame, *phases: Phase, by_committer: bool = False) -> Game:
    """As `_move`, at a leaf of one of these trees that there is."""
    game = _move(w, msg, number, Awaits.OPEN, by_committer=by_committer)
    require(game.frame == frame, "referee: other frame")
    require(game.phase in phases, TURNS)
    require(not game.is_beyond, "referee: no such leaf")
    return game


def _step_of(game: Game, leaf: int) -> int:
    """The step of a leaf of the tree of states."""
    frame = game.frame
    if game.phase == Phase.STEPS:
        return frame.first_step + leaf
    return min(leaf * frame.segment_steps, frame.inner_steps)


def _require_states(game: Game, states: States) -> None:
    """The game's current leaf, and the one before it."""
    at = game.index
    before = merkle.segment_leaf(_step_of(game, at - 1), states.before)
    are_states = (
        merkle.segment_leaf(_step_of(game, at), states.after) == game.node
        and len(states.path) == game.height_of_tree
        and merkle.climb(before, at - 1, states.path) == game.frame.tree_root
    )
    require(are_states, "referee: states do not match")


def _require_children(node: bytes, height: int, children: Hashes) -> None:
    count, level = 1 << span_of(height), list(children)
    require(len(level) == count and merkle.root_of(level) == node, "referee: children do not match")


def _require_leaf(data: bytes, node: bytes, index: int, count: int) -> None:
    size = min(LEAF_BYTES, WORD_BYTES * count - LEAF_BYTES * index)
    is_leaf = len(data) == size and sha256(b"\x00" + data).digest() == node
    require(is_leaf, "referee: bytes do not match")


def _word_of(leaf: bytes, number: int) -> bytes:
    at = WORD_BYTES * (number % WORDS_A_LEAF)
    return leaf[at : at + WORD_BYTES]
