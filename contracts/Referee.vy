# pragma version ==0.4.3
# pragma nonreentrancy on
# pragma optimize codesize
"""
@title Referee
@license Apache-2.0
@notice Dispute games: the committer of a claim shows the tree of what its work computed, a challenger goes down to the first
        difference, and there `Evidence` says whether the claim is false. Silence loses.
@dev docs/protocol/referee.md. Of what a game has fixed only the hash of its frame is kept: whoever needs the frame sends it. A move that has
     one right answer may be made by anybody; where the committer chooses what it commits to, it is the hot key's alone.
"""


from ethereum.ercs import IERC20

from .interfaces import IAdmissions
from .interfaces import IEvidence
from .interfaces import INodeRegistry
from .interfaces import IOpExecutor
from .interfaces import ISettlementViews
from .interfaces import ITaskRegistry
from .interfaces import ITaskViews
from .modules import bits
from .modules import claims
from .modules import game_words as words
from .modules import merkle
from .modules import openings


# Games open against one claim.
MAX_GAMES: constant(uint256) = 16
# Which of a job's programs is disputed: training, the update, the aggregation.
TRAINING: constant(uint256) = 0
UPDATE: constant(uint256) = 1
AGGREGATION: constant(uint256) = 2
# Gas of a committer's moves in the deepest game; a bond pays for it twice over, as the base fee may rise.
DEFENCE_GAS: constant(uint256) = 2_000_000
FEE_MULTIPLE: constant(uint256) = 2
LEAST_BASE_FEE: constant(uint256) = 10**9
# A bond in tokens is so much of the price at risk; the k-th game open against an operator has min(k, BOND_STEPS) times the first's.
BOND_BPS: constant(uint256) = 1_000
BPS: constant(uint256) = 10_000
BOND_STEPS: constant(uint256) = 4
# Means the chain's coin in place of a token's address.
COIN: constant(address) = empty(address)
# Who may make a move.
ANYBODY: constant(uint256) = 0
COMMITTER: constant(uint256) = 1
CHALLENGER: constant(uint256) = 2
# How a game ended.
CONVICTED: constant(uint256) = 1
DISMISSED: constant(uint256) = 2
SETTLED: constant(uint256) = 3
MAX_DATA: constant(uint256) = 45_056
# So many games against an operator lengthen the clocks of the next; more do not, so that these fit a game's word.
MOST_COUNTED: constant(uint256) = 128


registry: immutable(address)
tasks: immutable(address)
settlement: immutable(address)
evidence: immutable(address)
executor: immutable(address)
audit_pool: immutable(address)
admissions: immutable(address)
# Seconds in which a trial is re-executed.
trial_s: immutable(uint256)
# Seconds in which a move is made, and all moves of one side; a job's re-execution is added to both.
move_s: immutable(uint256)
side_s: immutable(uint256)


# What `games` shows.
struct Shown:
    operator: uint256
    challenger: address
    before: uint256
    frame_hash: bytes32
    coin: uint256
    tokens: uint256
    node: bytes32
    state: words.Game


# How many games there ever were; they are numbered from 1.
game_count: public(uint256)
# game -> clocks and position
game_words: HashMap[uint256, uint256]
# game -> the disputed subtree
nodes: HashMap[uint256, bytes32]
# game -> keccak256 of its frame's ABI encoding
frames: HashMap[uint256, bytes32]
# game -> challenger (160) | operator (48) | the game against the same claim that was opened before it (48)
players: HashMap[uint256, uint256]
# game -> coin (128) | tokens (128)
bonds: HashMap[uint256, uint256]
# job -> claim_hash -> the latest of its open games, from which the others are found
latest: public(HashMap[uint256, HashMap[bytes32, uint256]])
# operator -> games against it that were opened (128) | that ended (128)
games_against: HashMap[uint256, uint256]
# token -> account -> what it may withdraw; the zero address means the chain's coin
owed: public(HashMap[address, HashMap[address, uint256]])
# token -> the halves of lost bonds that nothing can spend
burned: public(HashMap[address, uint256])


event GameOpened:
    job: indexed(uint256)
    game: indexed(uint256)
    challenger: indexed(address)
    operator: uint256
    claim_hash: bytes32
    coin: uint256
    tokens: uint256


event NodeRevealed:
    game: indexed(uint256)
    children: DynArray[bytes32, openings.CHILDREN]


event ChildPicked:
    game: indexed(uint256)
    place: uint256
    child: bytes32


# What a game has fixed, and whoever goes on needs.
event FrameFixed:
    game: indexed(uint256)
    frame: IEvidence.Frame


event StateDisputed:
    game: indexed(uint256)


event LeafShown:
    game: indexed(uint256)
    data: Bytes[merkle.LEAF_BYTES]


event GameEnded:
    job: indexed(uint256)
    game: indexed(uint256)
    challenger: indexed(address)
    outcome: uint256


event Withdrawn:
    token: indexed(address)
    account: indexed(address)
    amount: uint256


@deploy
def __init__(
    registry_: address,
    tasks_: address,
    settlement_: address,
    evidence_: address,
    executor_: address,
    audit_pool_: address,
    admissions_: address,
    move_s_: uint256,
    side_s_: uint256,
):
    """
    @param registry_ Knows the operators' keys and owners.
    @param tasks_ Knows the jobs' work and tokens.
    @param settlement_ Keeps the claims, and hears how their games end.
    @param evidence_ Says whether evidence shows that a claim is false.
    @param executor_ Says in how many parts an element comes about.
    @param audit_pool_ Is owed half of the coin that challengers lose.
    @param admissions_ Keeps the claims of trials, and hears how their games end.
    @param move_s_ Seconds in which a move is made, beside a job's re-execution.
    @param side_s_ Seconds of all moves of one side, beside a job's re-execution.
    """
    registry = registry_
    tasks = tasks_
    settlement = settlement_
    evidence = evidence_
    executor = executor_
    audit_pool = audit_pool_
    admissions = admissions_
    trial_s = staticcall IAdmissions(admissions_).benchmark_s()
    move_s = move_s_
    side_s = side_s_


@external
@payable
def challenge(
    job: uint256,
    claim: ISettlementViews.Claim,
    kind: uint256,
    slot: uint256,
    work: openings.Work,
    result: openings.Result,
) -> uint256:
    """
    @notice Opens a game against a pending claim, with a bond in the chain's coin and in the job's token.
    @param kind 0 training, 1 the update, 2 the aggregation.
    @param slot Of the claim; 0 of an aggregation.
    @param work What the job's work root is made of.
    @param result What the slot's result leaf is made of; of an aggregation it is not read.
    """
    assert (
        kind <= AGGREGATION
        and (kind == AGGREGATION) == (claim.seat == claims.AGGREGATION)
        and (kind == TRAINING or job != claims.TRIALS)
    ), "referee: not of this kind"
    assert (
        slot == 0 if kind == AGGREGATION else claims._covers(claim.scope, slot)
    ), "referee: no such slot"
    work_root: bytes32 = openings._work_root(work)
    assert (
        work.inner_steps > 0
        and work.segment_steps > 0
        and work_root == self._work_root(job, claim)
    ), "referee: work does not match"
    claim_hash: bytes32 = claims._hash(claim)
    frame: IEvidence.Frame = empty(IEvidence.Frame)
    frame.job = job
    frame.round = claim.round
    frame.slot = slot
    frame.kind = kind
    frame.seat = claim.seat
    frame.claim = claim_hash
    frame.work_root = work_root
    frame.program_root = work.programs[kind]
    frame.start_root = claim.start_root
    frame.inner_steps = work.inner_steps
    frame.segment_steps = work.segment_steps
    frame.rows = work.rows
    frame.carry = work.carry
    if kind == AGGREGATION:
        frame.before = claim.start_root
        frame.after = claim.root
    else:
        leaf: bytes32 = merkle._result_root(
            slot, claim.start_root, result.segment_root, result.end_root, result.update_root
        )
        assert merkle._climb(leaf, slot - (claim.scope >> 16), result.path) == claim.root, "referee: result does not match"
        frame.segment_root = result.segment_root
        frame.end_root = result.end_root
        frame.update_root = result.update_root
        if kind == UPDATE:
            frame.before = claim.start_root
            frame.after = result.update_root
        else:
            frame.tree_root = result.segment_root
    return self._open_game(job, claim, claim_hash, frame, msg.value)


@external
def reveal(game: uint256, children: DynArray[bytes32, openings.CHILDREN]):
    """
    @notice Shows the children of the disputed node. There is one answer, so anybody may give it.
    """
    state: words.Game = self._move(game, words.REVEAL, ANYBODY)
    self._show(game, words._moved(state), self.nodes[game], children)


@external
def pick(game: uint256, place: uint256, child: bytes32, path: DynArray[bytes32, words.MAX_SPAN]):
    """
    @notice The challenger names the child that it disputes.
    @param path Siblings, from the child up to the disputed node.
    """
    state: words.Game = self._move(game, words.PICK, CHALLENGER)
    depth: uint256 = words._span(state.height)
    assert (
        len(path) == depth
        and place < 1 << depth
        and merkle._climb(child, place, path) == self.nodes[game]
    ), "referee: not that child"
    state = words._moved(state)
    state.height -= depth
    state.index = state.index << depth | place
    self._arrive(game, state, child)
    log ChildPicked(game=game, place=place, child=child)


@external
def open_segment(game: uint256, frame: IEvidence.Frame, states: openings.States, steps: openings.Steps):
    """
    @notice From a segment's end to the states of the steps in it.
    """
    fixed: IEvidence.Frame = frame
    state: words.Game = self._open(game, fixed, COMMITTER)
    self._check_move(state.phase == words.SEGMENTS and state.index > 0)
    first: uint256 = self._step_of(fixed, state.phase, state.index - 1)
    last: uint256 = self._step_of(fixed, state.phase, state.index)
    count: uint256 = last - first
    assert count > 1, "referee: one step"
    self._check_states(game, fixed, state, states)
    height: uint256 = words._height(count + 1)
    assert (
        len(steps.first_path) == height
        and len(steps.last_path) == height
        and merkle._climb(merkle._segment_leaf(first, states.before), 0, steps.first_path) == steps.root
        and merkle._climb(merkle._segment_leaf(last, states.after), count, steps.last_path) == steps.root
    ), "referee: steps do not match"
    fixed.before = states.before
    fixed.after = states.after
    fixed.tree_root = steps.root
    fixed.first_step = first
    self._enter(game, words._moved(state), words.STEPS, steps.root, count + 1, fixed, steps.children)


@external
def open_step(game: uint256, frame: IEvidence.Frame, states: openings.States, trace: openings.Trace):
    """
    @notice From the end of a step to the nodes of its program; from SEGMENTS, where a segment has one step.
    """
    fixed: IEvidence.Frame = frame
    state: words.Game = self._open(game, fixed, COMMITTER)
    self._check_move(state.phase <= words.STEPS and state.index > 0)
    step: uint256 = self._step_of(fixed, state.phase, state.index - 1)
    assert self._step_of(fixed, state.phase, state.index) == step + 1, "referee: several steps"
    self._check_states(game, fixed, state, states)
    fixed.before = states.before
    fixed.after = states.after
    fixed.step = step
    self._enter_trace(game, state, fixed, trace)


@external
def open_trace(game: uint256, frame: IEvidence.Frame, trace: openings.Trace):
    """
    @notice To the nodes of an update's or an aggregation's program.
    """
    state: words.Game = self._move(game, words.TRACE, COMMITTER)
    fixed: IEvidence.Frame = frame
    self._check_frame(game, fixed)
    self._enter_trace(game, state, fixed, trace)


@external
def open_begin(
    game: uint256,
    frame: IEvidence.Frame,
    root: bytes32,
    program: openings.Program,
    children: DynArray[bytes32, openings.CHILDREN],
):
    """
    @notice To the tensors of the state at step 0.
    """
    fixed: IEvidence.Frame = frame
    state: words.Game = self._open(game, fixed, ANYBODY)
    self._check_move(state.phase == words.SEGMENTS and state.index == 0)
    assert merkle._segment_leaf(0, root) == self.nodes[game], "referee: states do not match"
    self._check_program(fixed, program)
    fixed.after = root
    fixed.is_begin = 1
    self._enter(game, words._moved(state), words.STATE, root, openings._state_count(program), fixed, children)


@external
def dispute_state(game: uint256, frame: IEvidence.Frame, program: openings.Program):
    """
    @notice The challenger holds that the trace is right, and the state after it is not what it ends in.
    """
    state: words.Game = self._move(game, words.PICK, CHALLENGER)
    fixed: IEvidence.Frame = frame
    self._check_frame(game, fixed)
    # No subtree has the hash of the whole.
    assert state.phase == words.NODES and self.nodes[game] == fixed.trace_root, "referee: not at the root of a trace"
    self._check_program(fixed, program)
    state = self._stand(words._moved(state), words.STATE, openings._state_count(program))
    self._arrive(game, state, fixed.after)
    log StateDisputed(game=game)


@external
def open_node(game: uint256, frame: IEvidence.Frame, opening: openings.NodeOpening):
    """
    @notice From a node of the program to the elements of its tensor.
    """
    fixed: IEvidence.Frame = frame
    state: words.Game = self._open(game, fixed, ANYBODY)
    self._check_move(state.phase == words.NODES)
    self._check_program(fixed, opening.program)
    leaf: bytes32 = openings._descriptor_leaf(opening.descriptor)
    assert (
        len(opening.path) == words._height(state.count)
        and merkle._climb(leaf, state.index, opening.path) == opening.program.nodes
    ), "referee: other descriptor"
    head: Bytes[merkle.MAX_HEAD] = b""
    count: uint256 = 0
    head, count = openings._head(opening.descriptor)
    tensor_root: bytes32 = merkle._tensor_root(head, opening.elements_root)
    assert openings._trace_leaf(state.index, tensor_root) == self.nodes[game], "referee: tensor does not match"
    fixed.node = state.index
    fixed.descriptor = keccak256(opening.descriptor)
    fixed.tensor_root = tensor_root
    fixed.elements_root = opening.elements_root
    self._enter_words(
        game, state, words.ELEMENTS, opening.elements_root, count, fixed, opening.children, opening.leaf
    )


@external
def open_leaf(game: uint256, data: Bytes[merkle.LEAF_BYTES]):
    """
    @notice Shows the bytes of a leaf of words.
    """
    state: words.Game = self._move(game, words.OPEN, ANYBODY)
    self._check_move(state.phase >= words.ELEMENTS)
    self._check_there(state)
    self._check_leaf(data, self.nodes[game], state)
    state = words._moved(state)
    state.is_open = True
    state.awaits = words.EVIDENCE
    self.game_words[game] = words._pack(state)
    log LeafShown(game=game, data=data)


@external
def ask_parts(
    game: uint256, frame: IEvidence.Frame, descriptor: Bytes[openings.MAX_DESCRIPTOR], element: uint256
):
    """
    @notice The challenger disputes an element of the shown leaf that comes about in several parts.
    """
    state: words.Game = self._move(game, words.EVIDENCE, CHALLENGER)
    fixed: IEvidence.Frame = frame
    self._check_frame(game, fixed)
    self._check_move(state.phase == words.ELEMENTS and state.is_open)
    assert keccak256(descriptor) == fixed.descriptor, "referee: other descriptor"
    assert (
        element < state.count and element // openings.WORDS_A_LEAF == state.index
    ), "referee: no such element"
    parts: uint256 = staticcall IOpExecutor(executor).part_count(descriptor, element)
    assert parts > 1, "referee: one part"
    self._check_count(parts)
    fixed.element = element
    fixed.parts = parts
    state = words._moved(state)
    state.awaits = words.OPEN_PARTS
    self.game_words[game] = words._pack(state)
    self._fix(game, fixed)


@external
def open_parts(game: uint256, frame: IEvidence.Frame, opening: openings.PartsOpening):
    """
    @notice From an element to the results of its parts, the last of which is the element.
    """
    state: words.Game = self._move(game, words.OPEN_PARTS, COMMITTER)
    fixed: IEvidence.Frame = frame
    self._check_frame(game, fixed)
    self._check_leaf(opening.leaf, self.nodes[game], state)
    last: uint256 = fixed.parts - 1
    at: uint256 = last // openings.WORDS_A_LEAF
    assert (
        len(opening.path) == words._height(at + 1)
        and len(opening.last) == openings.WORD_BYTES * (fixed.parts - at * openings.WORDS_A_LEAF)
        and merkle._climb(merkle._leaf(opening.last), at, opening.path) == opening.root
        and openings._word(opening.last, last) == openings._word(opening.leaf, fixed.element)
    ), "referee: parts do not match"
    fixed.parts_root = opening.root
    self._enter_words(game, state, words.PARTS, opening.root, fixed.parts, fixed, opening.children, opening.last)


@external
def convict(
    game: uint256,
    claim: ISettlementViews.Claim,
    frame: IEvidence.Frame,
    kind: uint256,
    data: Bytes[MAX_DATA],
):
    """
    @notice Shows that the claim is false: whoever's turn it is, and whoever shows it.
    @param kind Which kind of evidence.
    """
    fixed: IEvidence.Frame = frame
    state: words.Game = self._playing(game, claim, fixed)
    self._check_there(state)
    # It reverts with what does not hold.
    assert staticcall IEvidence(evidence).judge(kind, fixed, self._position(game, state), data), "referee: not false"
    self._end(game, claim, fixed, True)


@external
def concede(game: uint256, claim: ISettlementViews.Claim, frame: IEvidence.Frame):
    """
    @notice The challenger gives up.
    """
    fixed: IEvidence.Frame = frame
    self._playing(game, claim, fixed)
    self._check_challenger(game)
    self._end(game, claim, fixed, False)


@external
def time_out(game: uint256, claim: ISettlementViews.Claim, frame: IEvidence.Frame):
    """
    @notice The side that owes a move and was silent loses. Where the claim was convicted elsewhere nobody loses, at any time.
    """
    fixed: IEvidence.Frame = frame
    state: words.Game = self._playing(game, claim, fixed)
    assert (
        block.timestamp > words._due(state) or not self._is_pending(fixed.job, claim)
    ), "referee: time left"
    self._end(game, claim, fixed, state.awaits < words.PICK)


@external
def withdraw(token: address, account: address) -> uint256:
    """
    @notice Sends an account what it is owed.
    @param token The zero address means the chain's coin.
    """
    amount: uint256 = self.owed[token][account]
    assert amount > 0, "referee: nothing owed"
    self.owed[token][account] = 0
    log Withdrawn(token=token, account=account, amount=amount)
    if token == COIN:
        self._check_transfer(raw_call(account, b"", value=amount, revert_on_failure=False))
    else:
        self._check_transfer(extcall IERC20(token).transfer(account, amount, default_return_value=True))
    return amount


@external
@view
def games(game: uint256) -> Shown:
    """
    @notice The position of a game; all zeros once it ended.
    """
    bond: uint256 = self.bonds[game]
    return Shown(
        operator=self._operator(game),
        challenger=self._challenger(game),
        before=self._before(game),
        frame_hash=self.frames[game],
        coin=bond >> 128,
        tokens=bond & bits.U128,
        node=self.nodes[game],
        state=words._unpack(self.game_words[game]),
    )


@external
@view
def open_against(operator: uint256) -> uint256:
    """
    @notice How many games are open against an operator, whatever they are about.
    """
    return self._open_against(operator)


@internal
@view
def _bond(claim: ISettlementViews.Claim, games: uint256) -> (uint256, uint256):
    times: uint256 = min(games + 1, BOND_STEPS)
    coin: uint256 = FEE_MULTIPLE * DEFENCE_GAS * max(block.basefee, LEAST_BASE_FEE)
    tokens: uint256 = ((claim.price + claim.pot_price) * BOND_BPS + BPS - 1) // BPS
    return times * coin, times * tokens


@internal
def _open_game(
    job: uint256, claim: ISettlementViews.Claim, claim_hash: bytes32, frame: IEvidence.Frame, paid: uint256
) -> uint256:
    before: uint256 = self.latest[job][claim_hash]
    assert len(self._games_of(job, claim_hash)) < MAX_GAMES, "referee: too many games"
    open: uint256 = self._open_against(claim.operator)
    coin: uint256 = 0
    tokens: uint256 = 0
    coin, tokens = self._bond(claim, open)
    assert paid >= coin, "referee: bond too small"
    terms: ITaskRegistry.Schedule = staticcall ITaskRegistry(tasks).schedules(job)
    # Every game has its own trace to be computed, and the operator's machine computes one after the other.
    extra_s: uint256 = min(open + 1, MOST_COUNTED) * (trial_s if job == claims.TRIALS else terms.reexecute_s)
    state: words.Game = empty(words.Game)
    state.committer_left = side_s + extra_s
    state.challenger_left = side_s + extra_s
    state.move_s = move_s + extra_s
    state.at = block.timestamp
    state.awaits = words.TRACE
    game: uint256 = self.game_count + 1
    self.game_count = game
    if frame.kind == TRAINING:
        segments: uint256 = (frame.inner_steps + frame.segment_steps - 1) // frame.segment_steps
        state = self._stand(state, words.SEGMENTS, segments + 1)
        state.awaits = words.REVEAL
        self.nodes[game] = frame.segment_root
    self.game_words[game] = words._pack(state)
    self.players[game] = (
        convert(msg.sender, uint256) << 96
        | convert(convert(claim.operator, uint48), uint256) << 48
        | before
    )
    self.bonds[game] = convert(convert(paid, uint128), uint256) << 128 | tokens
    self.latest[job][claim_hash] = game
    self.games_against[claim.operator] += 1 << 128
    self._fix(game, frame)
    log GameOpened(
        job=job,
        game=game,
        challenger=msg.sender,
        operator=claim.operator,
        claim_hash=claim_hash,
        coin=paid,
        tokens=tokens,
    )
    extcall ISettlementViews(self._court(job)).open_dispute(job, claim)
    if tokens > 0:
        self._check_transfer(
            extcall IERC20(terms.token).transferFrom(msg.sender, self, tokens, default_return_value=True)
        )
    return game


@internal
@view
def _move(game: uint256, awaited: uint256, mover: uint256) -> words.Game:
    """
    @notice A game in which this move is due, from who may make it, in time.
    """
    state: words.Game = words._unpack(self.game_words[game])
    self._check_move(state.awaits == awaited)
    if mover == CHALLENGER:
        self._check_challenger(game)
    elif mover == COMMITTER:
        hot: address = staticcall INodeRegistry(registry).hot_key(self._operator(game))
        assert msg.sender == hot, "referee: not the committer"
    # INVARIANT clocks: a side can move up to its last second, and is out of time from the next one on, never both.
    assert block.timestamp <= words._due(state), "referee: out of time"
    return state


@internal
@view
def _open(game: uint256, frame: IEvidence.Frame, mover: uint256) -> words.Game:
    """
    @notice As `_move`, at a leaf that the tree has.
    """
    state: words.Game = self._move(game, words.OPEN, mover)
    self._check_frame(game, frame)
    self._check_there(state)
    return state


@internal
@view
def _playing(game: uint256, claim: ISettlementViews.Claim, frame: IEvidence.Frame) -> words.Game:
    state: words.Game = words._unpack(self.game_words[game])
    assert state.awaits != 0, "referee: no open game"
    self._check_frame(game, frame)
    assert claims._hash(claim) == frame.claim, "referee: other claim"
    return state


@internal
@pure
def _check_move(is_due: bool):
    assert is_due, "referee: not this move"


@internal
@pure
def _check_count(count: uint256):
    assert count < words.MAX_COUNT, "referee: too many elements"


@internal
@pure
def _check_there(state: words.Game):
    assert not words._is_beyond(state), "referee: no such leaf"


@internal
@pure
def _check_transfer(is_done: bool):
    assert is_done, "referee: transfer failed"


@internal
@view
def _check_challenger(game: uint256):
    assert msg.sender == self._challenger(game), "referee: not the challenger"


@internal
@view
def _check_frame(game: uint256, frame: IEvidence.Frame):
    assert self._hash(frame) == self.frames[game], "referee: other frame"


@internal
@pure
def _hash(frame: IEvidence.Frame) -> bytes32:
    return keccak256(abi_encode(frame))


@internal
def _fix(game: uint256, frame: IEvidence.Frame):
    self.frames[game] = self._hash(frame)
    log FrameFixed(game=game, frame=frame)


@internal
@pure
def _check_program(frame: IEvidence.Frame, program: openings.Program):
    assert openings._program_root(program) == frame.program_root, "referee: other program"


@internal
def _show(game: uint256, state: words.Game, node: bytes32, children: DynArray[bytes32, openings.CHILDREN]):
    """
    @notice The children of the node that the game is at.
    """
    assert (
        len(children) == 1 << words._span(state.height) and openings._root(children) == node
    ), "referee: children do not match"
    shown: words.Game = state
    shown.awaits = words.PICK
    self.game_words[game] = words._pack(shown)
    log NodeRevealed(game=game, children=children)


@internal
@pure
def _check_leaf(data: Bytes[merkle.LEAF_BYTES], node: bytes32, state: words.Game):
    # A leaf that the tree has begins before its end.
    left: uint256 = openings.WORD_BYTES * (state.count - state.index * openings.WORDS_A_LEAF)
    assert len(data) == min(merkle.LEAF_BYTES, left) and merkle._leaf(data) == node, "referee: bytes do not match"


@internal
@view
def _check_states(game: uint256, frame: IEvidence.Frame, state: words.Game, states: openings.States):
    """
    @notice The states of the leaf that the game is at, and of the one before it.
    """
    before: uint256 = state.index - 1
    before_leaf: bytes32 = merkle._segment_leaf(self._step_of(frame, state.phase, before), states.before)
    after_leaf: bytes32 = merkle._segment_leaf(self._step_of(frame, state.phase, state.index), states.after)
    assert (
        after_leaf == self.nodes[game]
        and len(states.path) == words._height(state.count)
        and merkle._climb(before_leaf, before, states.path) == frame.tree_root
    ), "referee: states do not match"


@internal
@pure
def _step_of(frame: IEvidence.Frame, phase: uint256, leaf: uint256) -> uint256:
    """
    @notice The step of a leaf of the tree of states.
    """
    if phase == words.STEPS:
        return frame.first_step + leaf
    return min(leaf * frame.segment_steps, frame.inner_steps)


@internal
def _arrive(game: uint256, state: words.Game, node: bytes32):
    """
    @notice The challenger went to a node.
    """
    arrived: words.Game = state
    arrived.awaits = self._awaited_at(state, node)
    self.game_words[game] = words._pack(arrived)
    self.nodes[game] = node


@internal
@pure
def _awaited_at(state: words.Game, node: bytes32) -> uint256:
    """
    @notice The move that is due at a node. Who has anything but padding beyond a tree's last leaf owes an opening that there
            is not, and loses by silence; nothing leads to the state before a segment's first step, or beyond padding.
    """
    if state.height > 0:
        return words.REVEAL
    if words._is_beyond(state):
        return words.EVIDENCE if node == empty(bytes32) else words.OPEN
    if state.phase == words.STATE or (state.phase == words.STEPS and state.index == 0):
        return words.EVIDENCE
    return words.OPEN


@internal
@pure
def _stand(state: words.Game, phase: uint256, count: uint256) -> words.Game:
    """
    @notice At the root of a tree.
    """
    stands: words.Game = state
    stands.phase = phase
    stands.count = count
    stands.index = 0
    stands.is_open = False
    stands.height = words._height(words._leaves(stands))
    return stands


@internal
def _enter(
    game: uint256,
    moved: words.Game,
    phase: uint256,
    root: bytes32,
    count: uint256,
    frame: IEvidence.Frame,
    children: DynArray[bytes32, openings.CHILDREN],
):
    """
    @notice At the root of a tree, whose children are revealed.
    """
    self.nodes[game] = root
    self._fix(game, frame)
    self._show(game, self._stand(moved, phase, count), root, children)


@internal
def _enter_trace(game: uint256, state: words.Game, frame: IEvidence.Frame, trace: openings.Trace):
    self._check_program(frame, trace.program)
    fixed: IEvidence.Frame = frame
    fixed.trace_root = trace.root
    count: uint256 = openings._node_count(trace.program)
    self._enter(game, words._moved(state), words.NODES, trace.root, count, fixed, trace.children)


@internal
def _enter_words(
    game: uint256,
    before: words.Game,
    phase: uint256,
    root: bytes32,
    count: uint256,
    frame: IEvidence.Frame,
    children: DynArray[bytes32, openings.CHILDREN],
    leaf: Bytes[merkle.LEAF_BYTES],
):
    """
    @notice As `_enter`; a tree of one leaf is shown at once. One of no word is padding, and has nothing to show.
    """
    self._check_count(count)
    if count > openings.WORDS_A_LEAF:
        self._enter(game, words._moved(before), phase, root, count, frame, children)
        return
    state: words.Game = self._stand(words._moved(before), phase, count)
    # Logged before the tree's first reveal, as in `_enter`.
    self._fix(game, frame)
    if count > 0:
        self._check_leaf(leaf, root, state)
        state.is_open = True
        log LeafShown(game=game, data=leaf)
    else:
        assert root == empty(bytes32), "referee: bytes do not match"
    state.awaits = words.EVIDENCE
    self.game_words[game] = words._pack(state)
    self.nodes[game] = root


@internal
@view
def _position(game: uint256, state: words.Game) -> IEvidence.Position:
    node: bytes32 = self.nodes[game]
    return IEvidence.Position(
        phase=state.phase,
        height=state.height,
        index=state.index,
        node=node,
        open_leaf=node if state.is_open else empty(bytes32),
    )


@internal
def _end(game: uint256, claim: ISettlementViews.Claim, frame: IEvidence.Frame, committer_loses: bool):
    """
    @notice The bond finds its owners and Settlement hears of it. When the claim is not pending any more nobody loses: a disputed
            claim cannot be paid, so it was convicted elsewhere.
    """
    job: uint256 = frame.job
    challenger: address = self._challenger(game)
    bond: uint256 = self.bonds[game]
    coin: uint256 = bond >> 128
    tokens: uint256 = bond & bits.U128
    open: DynArray[uint256, MAX_GAMES] = self._games_of(job, frame.claim)
    outcome: uint256 = SETTLED
    challengers: DynArray[address, MAX_GAMES] = []
    if self._is_pending(job, claim):
        outcome = CONVICTED if committer_loses else DISMISSED
    if outcome == CONVICTED:
        # INVARIANT challengers: whose game is open at the conviction shares in it, once for each game.
        for each: uint256 in open:
            challengers.append(self._challenger(each))
    self._forget(game, job, frame.claim, open)
    self.games_against[claim.operator] += 1
    token: address = staticcall ITaskViews(tasks).token_of(job)
    # INVARIANT bonds: the balance is the open games' bonds, what is owed, and what is burned.
    if outcome == DISMISSED:
        owner: address = staticcall INodeRegistry(registry).owner_of(claim.operator)
        self._owe(COIN, owner, coin // 2)
        self._owe(COIN, audit_pool, coin - coin // 2)
        self._owe(token, owner, tokens // 2)
        self.burned[token] += tokens - tokens // 2
    else:
        self._owe(COIN, challenger, coin)
        self._owe(token, challenger, tokens)
    log GameEnded(job=job, game=game, challenger=challenger, outcome=outcome)
    extcall ISettlementViews(self._court(job)).close_dispute(job, claim, outcome == CONVICTED, challengers)


@internal
def _owe(token: address, account: address, amount: uint256):
    self.owed[token][account] += amount


@internal
def _forget(game: uint256, job: uint256, claim_hash: bytes32, open: DynArray[uint256, MAX_GAMES]):
    """
    @notice The game is over: what was opened before it follows on what was opened after it.
    """
    before: uint256 = self._before(game)
    after: uint256 = 0
    for each: uint256 in open:
        if each == game:
            break
        after = each
    if after == 0:
        self.latest[job][claim_hash] = before
    else:
        self.players[after] = self.players[after] >> 48 << 48 | before
    self.game_words[game] = 0
    self.nodes[game] = empty(bytes32)
    self.frames[game] = empty(bytes32)
    self.players[game] = 0
    self.bonds[game] = 0


@internal
@view
def _games_of(job: uint256, claim_hash: bytes32) -> DynArray[uint256, MAX_GAMES]:
    found: DynArray[uint256, MAX_GAMES] = []
    game: uint256 = self.latest[job][claim_hash]
    for _: uint256 in range(MAX_GAMES):
        if game == 0:
            break
        found.append(game)
        game = self._before(game)
    return found


@internal
@view
def _open_against(operator: uint256) -> uint256:
    games: uint256 = self.games_against[operator]
    return (games >> 128) - (games & bits.U128)


@internal
@view
def _challenger(game: uint256) -> address:
    return convert(self.players[game] >> 96, address)


@internal
@view
def _operator(game: uint256) -> uint256:
    return self.players[game] >> 48 & (2**48 - 1)


@internal
@view
def _before(game: uint256) -> uint256:
    return self.players[game] & (2**48 - 1)


@internal
@view
def _court(job: uint256) -> address:
    """
    @notice Who keeps the claims of a job.
    """
    return admissions if job == claims.TRIALS else settlement


@internal
@view
def _is_pending(job: uint256, claim: ISettlementViews.Claim) -> bool:
    return claims._is_pending(self._court(job), job, claim)


@internal
@view
def _work_root(job: uint256, claim: ISettlementViews.Claim) -> bytes32:
    if job == claims.TRIALS:
        return (staticcall IAdmissions(admissions).trials(claim.turn)).work_root
    return staticcall ITaskViews(tasks).work_roots(job)
