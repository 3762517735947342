# pragma version ==0.4.3
# pragma nonreentrancy on
"""
@title Referee
@license Apache-2.0
@notice The tree of a disputed claim is explored in public, once, by everybody together: anyone asks, anyone answers what a hash
        determines, the operator's hot key or an answer key answers the rest, anyone convicts by evidence or by an ask that nobody
        answered.
@dev docs/protocol/referee.md. A node of the exploration has one word, which is the hash of its record and its status; callers
     send the record. A claim has one word. Fees stay here until the claim is resolved.
"""


from ethereum.ercs import IERC20

from .interfaces import IDescent
from .interfaces import IDisputes
from .interfaces import IEvidence
from .interfaces import INodeRegistry
from .interfaces import ISettlementViews
from .interfaces import ITaskViews
from .modules import bits
from .modules import claims as claim_hashes
from .modules import exploration as tree
from .modules import merkle
from .modules import openings
from .modules import outcomes
from .modules import path_clocks as clock
from .modules import protocol_time


# Status of a node.
ASKED: constant(uint256) = 1
ANSWERED: constant(uint256) = 2
# Status of a claim that somebody asked about, until it is one of `outcomes`.
PENDING: constant(uint256) = 6
# Which of a job's programs is disputed: training, the update, the aggregation.
TRAINING: constant(uint256) = 0
UPDATE: constant(uint256) = 1
AGGREGATION: constant(uint256) = 2
# In place of a program: the slot's result, which the bundle would show.
RESULT: constant(uint256) = 3
# Answers of `Descent` from this kind on commit to something new.
FIRST_NEW: constant(uint256) = 4
# An ask prepays so many times its answer's gas at the base fee, and at least a gwei for each unit of it.
FEE_MULTIPLE: constant(uint256) = 4
A_GWEI: constant(uint256) = 10**9
# Gas of an answer, measured below it: of any, of a child that it shows, of a leaf of words, of one that leads into another tree.
ANSWER_GAS: constant(uint256) = 60_000
CHILD_GAS: constant(uint256) = 1_600
LEAF_GAS: constant(uint256) = 24_000
STAGE_GAS: constant(uint256) = 260_000
# An aged dispute ends after this many times the longest that one can take.
AGED_TIMES: constant(uint256) = 2
MAX_DATA: constant(uint256) = 45_056
MAX_ANSWER: constant(uint256) = 7_616
MAX_ASK: constant(uint256) = 3_712
MAX_SETTLED: constant(uint256) = 32
# The selectors of `IEvidence.judge` and of `IDisputes.dispute_terms`.
JUDGE: constant(bytes4) = 0x33246e74
DISPUTE_TERMS: constant(bytes4) = 0x40e91e3c
# Flags of a node's payment.
HEAVY: constant(uint256) = 1
OF_AGGREGATION: constant(uint256) = 2
# Fields of a claim's word.
STATUS: constant(uint256) = 15
USED_AT: constant(uint256) = 4
HEAVY_MADE_AT: constant(uint256) = 20
HEAVY_OPEN_AT: constant(uint256) = 36
OPEN_AT: constant(uint256) = 52
ONE_HEAVY_MADE: constant(uint256) = 1 << HEAVY_MADE_AT
ONE_HEAVY_OPEN: constant(uint256) = 1 << HEAVY_OPEN_AT
ONE_OPEN: constant(uint256) = 1 << OPEN_AT
LATEST_AT: constant(uint256) = 68
DEADLINE_AT: constant(uint256) = 108
SLOTS_AT: constant(uint256) = 148
REEXECUTE_AT: constant(uint256) = 156
TURN_AT: constant(uint256) = 176
OPERATOR_AT: constant(uint256) = 196
JOB_AT: constant(uint256) = 224
U20: constant(uint256) = 2**20 - 1
U28: constant(uint256) = 2**28 - 1
# The upper bits of an id that name a step in records, verdicts and seals; below them is when the step was first asked for.
UNIT_MASK: constant(uint256) = max_value(uint256) - (2**80 - 1)


# What the word of a node is the hash of.
struct Node:
    claim: bytes32
    # Hash of the frame.
    frame: bytes32
    position: uint256
    root: bytes32
    # The ask for the trace of the path's step; before there is one, the path's root: UNIT_MASK of its id | when asked << 40.
    origin: uint256
    # asker << 96 | fee in gwei << 48 | asked at << 8 | flags
    payment: uint256
    # Who is paid for the answer; nobody: the operator's owner.
    answerer: address
    # What the claim is paid for a slot or for the aggregation << PRICE_AT | clocks
    clocks: uint256


# A node, or with `is_child` a child of an answered one with its siblings.
struct Place:
    id: bytes32
    node: Node
    status: uint256
    is_child: bool
    number: uint256
    child: bytes32
    path: DynArray[bytes32, tree.MAX_SPAN]


registry: immutable(address)
tasks: immutable(address)
settlement: immutable(address)
admissions: immutable(address)
serving: immutable(address)
evidence: immutable(address)
descent: immutable(address)
# Seconds of the committer's and of the askers' side along a path; after an ask, in which the author's owner is paid whoever answers;
# by how many a seal precedes the first ask; after a judgement, in which seals are opened.
committer_s: immutable(uint256)
asker_s: immutable(uint256)
exclusive_s: immutable(uint256)
seal_lead_s: immutable(uint256)
opening_s: immutable(uint256)


# id -> hash of the record (248) | status (8)
nodes: public(HashMap[bytes32, uint256])
# keccak256(job, claim) -> job (32) | operator (28) | turn (20), or seconds from the first ask to the deadline | re-execution (20) | slots (8) | deadline (40), 0 while unknown |
# latest ask without it (40) | open asks (16) | open heavy asks (16) | heavy asks made (16) | most seconds used (16) | status (4);
# of a judged claim its slot in the place of the open heavy asks
claims: public(HashMap[bytes32, uint256])
# job << 28 | operator -> heavy asks against it in the job that were made (128) | that ended (128): once written never zero again
heavy_asks: HashMap[uint256, uint256]
# keccak256(job, claim) -> of a conviction: UNIT_MASK of the step | first asked at (40) | judged at (40), 0 of silence
verdicts: public(HashMap[bytes32, uint256])
# keccak256(job, claim) -> finder (160) | when its seal was placed (96), the most once it was rewarded
finders: public(HashMap[bytes32, uint256])
# hash -> when it was sealed
seals: public(HashMap[bytes32, uint256])
# token, or the zero address for coin -> account -> what it may withdraw
owed: public(HashMap[address, HashMap[address, uint256]])
# token -> halves of heavy asks that nothing can spend
burned: public(HashMap[address, uint256])


event ClaimAsked:
    job: indexed(uint256)
    claim: indexed(bytes32)
    id: indexed(bytes32)
    claim_hash: bytes32
    frame: IEvidence.Frame
    node: Node


event NodeAsked:
    claim: indexed(bytes32)
    id: indexed(bytes32)
    above: indexed(bytes32)
    place: uint256
    node: Node


event NodeAnswered:
    id: indexed(bytes32)
    answerer: indexed(address)
    children: DynArray[bytes32, openings.CHILDREN]


event LeafShown:
    id: indexed(bytes32)
    answerer: indexed(address)
    data: Bytes[tree.MAX_WORDS]


# An answer that led into another tree; the frame follows from the one above and the data.
event StageFixed:
    id: indexed(bytes32)
    answerer: indexed(address)
    kind: uint256
    data: Bytes[MAX_ANSWER]


event ClaimResolved:
    job: indexed(uint256)
    claim: indexed(bytes32)
    outcome: uint256
    node: bytes32


event Sealed:
    account: indexed(address)
    hash: indexed(bytes32)


event SealOpened:
    claim: indexed(bytes32)
    finder: indexed(address)
    placed_at: uint256


event Withdrawn:
    token: indexed(address)
    account: indexed(address)
    amount: uint256


@deploy
def __init__(
    registry_: address,
    tasks_: address,
    settlement_: address,
    admissions_: address,
    serving_: address,
    evidence_: address,
    descent_: address,
    committer_s_: uint256,
    asker_s_: uint256,
    exclusive_s_: uint256,
    seal_lead_s_: uint256,
    opening_s_: uint256,
):
    """
    @param registry_ Knows the operators' keys and owners.
    @param tasks_ Knows what a re-execution is worth.
    @param settlement_ Keeps the claims of jobs.
    @param admissions_ Keeps the claims of trials.
    @param serving_ Keeps the claims of receipts.
    @param evidence_ Says whether evidence shows that a claim is false.
    @param descent_ Checks the answers that lead from tree to tree.
    @param committer_s_ Seconds of the committer along a path.
    @param asker_s_ Seconds of the askers along a path, after the claim's deadline.
    @param exclusive_s_ Seconds after an ask in which the author's owner is paid for the answer, whoever gives it.
    @param seal_lead_s_ Seconds by which a seal precedes the first ask at the step that it names.
    @param opening_s_ Seconds after a judgement in which seals are opened.
    """
    # INVARIANT evidence: `judge` reads no answer, and an address without code would convict everybody.
    assert evidence_.is_contract
    registry = registry_
    tasks = tasks_
    settlement = settlement_
    admissions = admissions_
    serving = serving_
    evidence = evidence_
    descent = descent_
    committer_s = committer_s_
    asker_s = asker_s_
    exclusive_s = exclusive_s_
    seal_lead_s = seal_lead_s_
    opening_s = opening_s_


# --- asks


@external
@payable
def ask_claim(
    job: uint256,
    claim: ISettlementViews.Claim,
    kind: uint256,
    slot: uint256,
    work: openings.Work,
    result: openings.Result,
    index: uint256,
    states: openings.States,
    path: DynArray[bytes32, merkle.MAX_DEPTH],
):
    """
    @notice The first ask of a path. Of training, with `path`: at the segment leaf `index`, which the bundle shows, with the states
            on both sides; without: at the root of the segments' tree. Of the others: for the trace.
    @param kind 0 training, 1 the update, 2 the aggregation; 3 the slot's result leaf, where the bundle does not show it.
    @param result What the slot's result leaf is made of; read of 0 and 1 alone.
    @param states Of the segment leaf and of the one before it; read with `path` alone.
    @param path Of the segment leaf under the segments' root.
    """
    if (
        kind > RESULT
        or (kind == AGGREGATION) != (claim.seat >= claim_hashes.AGGREGATION)
        or (not claim_hashes._is_of_job(job) and kind != TRAINING and kind != RESULT)
    ):
        self._refuse("referee: not of this kind")
    frame: IEvidence.Frame = empty(IEvidence.Frame)
    node: Node = empty(Node)
    now: uint256 = self._now()
    node.claim = self._disputed(job, claim, work, now)
    frame.job = job
    frame.round = claim.round
    frame.slot = slot
    frame.kind = kind
    frame.seat = claim.seat
    frame.claim = claim_hashes._hash(claim)
    frame.work_root = openings._work_root(work)
    frame.start_root = claim.start_root
    frame.inner_steps = work.inner_steps
    frame.segment_steps = work.segment_steps
    frame.rows = work.rows
    frame.carry = work.carry
    id: bytes32 = self._path_id(node.claim, slot, kind)
    node.origin = convert(id, uint256) & UNIT_MASK | now << 40
    node.clocks = clock._first(committer_s, asker_s, self._price_of(claim))
    is_heavy: bool = kind == UPDATE or kind == AGGREGATION
    if slot != 0 if kind == AGGREGATION else not claim_hashes._covers(claim.scope, slot):
        self._refuse("referee: no such slot")
    if kind < AGGREGATION:
        frame.program_root = work.programs[kind]
    if kind == AGGREGATION:
        # Each aggregator has a program of its own.
        program: uint256 = AGGREGATION + claim.seat - claim_hashes.AGGREGATION
        if program >= len(work.programs):
            self._refuse("referee: no such program")
        frame.program_root = work.programs[program]
        frame.before = claim.start_root
        frame.after = claim.root
    elif kind != RESULT:
        leaf: bytes32 = merkle._result_root(
            slot, claim.start_root, result.segment_root, result.end_root, result.update_root
        )
        if not claim_hashes._has_result(claim.root, claim.scope, slot, leaf, result.path):
            self._refuse("referee: result does not match")
        frame.segment_root = result.segment_root
        frame.end_root = result.end_root
        frame.update_root = result.update_root
        if kind == UPDATE:
            frame.before = claim.start_root
            frame.after = result.update_root
    node.position = tree.NODES
    if kind == RESULT:
        node.position = tree.RESULT
        node.root = claim.root
    elif kind == TRAINING:
        frame.tree_root = result.segment_root
        node.root = result.segment_root
        node.position = tree._segments_position(0, 0, work.inner_steps, work.segment_steps)
        height: uint256 = merkle._height_over(tree._count(node.position))
        if len(path) == 0:
            node.position = tree._segments_position(height, 0, work.inner_steps, work.segment_steps)
        else:
            # INVARIANT index: it is below the count before it becomes part of a position, whose next field is the count.
            self._check_states(index < tree._count(node.position))
            node.position = tree._segments_position(0, index, work.inner_steps, work.segment_steps)
            step: uint256 = min(index * work.segment_steps, work.inner_steps)
            node.root = merkle._segment_leaf(step, states.after)
            self._check_states(
                len(path) == height and merkle._climb(node.root, index, path) == result.segment_root
            )
            frame.after = states.after
            if index > 0:
                before: bytes32 = merkle._segment_leaf((index - 1) * work.segment_steps, states.before)
                self._check_states(
                    len(states.path) == height
                    and merkle._climb(before, index - 1, states.path) == result.segment_root
                )
                frame.before = states.before
            id = self._segment_id(node.origin, index)
            is_heavy = tree._is_heavy(node.position)
    node.frame = keccak256(abi_encode(frame))
    node = self._ask(id, node, is_heavy, kind == AGGREGATION, now)
    log ClaimAsked(job=job, claim=node.claim, id=id, claim_hash=frame.claim, frame=frame, node=node)


@external
@payable
def ask(above: bytes32, node: Node, place: uint256, child: bytes32, path: DynArray[bytes32, tree.MAX_SPAN]):
    """
    @notice Disputes a child of an answered node.
    @param above Id of the node.
    @param path Siblings, from the child up to the node.
    """
    self._check(above, node, ANSWERED)
    self._check_here(not tree._is_shown(node.position) and tree._phase(node.position) != tree.RESULT)
    below: Node = node
    below.position = tree._below(node.position, node.root, place, child, path)
    below.root = child
    if not tree._is_askable(below.position, child):
        self._refuse("referee: nothing to answer")
    id: bytes32 = keccak256(concat(above, convert(place, bytes32)))
    if below.position & 65_535 == tree.SEGMENTS:
        id = self._segment_id(node.origin, tree._index(below.position))
    below = self._ask(id, below, tree._is_heavy(below.position), False, self._now())
    log NodeAsked(claim=node.claim, id=id, above=above, place=place, node=below)


@external
@payable
def ask_stage(above: bytes32, node: Node, kind: uint256, frame: IEvidence.Frame, data: Bytes[MAX_ASK]):
    """
    @notice Disputes the state after a trace, or an element that comes about in several parts.
    @param kind Of `Descent`: 1 the state, 2 an element.
    @param data The ABI encoding of this kind's struct.
    """
    self._check(above, node, ANSWERED)
    stage: IDescent.Stage = empty(IDescent.Stage)
    place: uint256 = 0
    stage, place = staticcall IDescent(descent).asked(kind, self._stage(node), frame, data)
    below: Node = node
    below.frame = stage.frame
    below.position = stage.position
    below.root = stage.root
    now: uint256 = self._now()
    id: bytes32 = keccak256(concat(above, convert(place, bytes32)))
    if tree._is_askable(stage.position, stage.root):
        below = self._ask(id, below, False, False, now)
    else:
        # A state of one entry shows nothing below: it can be judged at once, and nobody owes an answer.
        self._check_new(id)
        if msg.value > 0:
            self._refuse("referee: nothing to answer")
        self._check_open(self.claims[node.claim], now)
        below.payment = convert(msg.sender, uint256) << 96 | now << 8
        below.answerer = empty(address)
        self._save(id, below, ANSWERED)
    log NodeAsked(claim=node.claim, id=id, above=above, place=place, node=below)


# --- answers


@external
def answer(id: bytes32, node: Node, children: DynArray[bytes32, openings.CHILDREN]):
    """
    @notice Shows the children of a node.
    """
    self._check(id, node, ASKED)
    # A leaf that leads into another tree has no children.
    self._check_here(tree._height(node.position) > 0)
    tree._check_children(node.position, node.root, children)
    log NodeAnswered(id=id, answerer=self._answer(id, node, self._stage(node), False), children=children)


@external
def answer_words(id: bytes32, node: Node, data: Bytes[tree.MAX_WORDS]):
    """
    @notice Shows the bytes of the leaves under a node of words; of padding alone there are none.
    """
    self._check(id, node, ASKED)
    tree._check_words(node.position, node.root, data)
    log LeafShown(id=id, answerer=self._answer(id, node, self._stage(node), False), data=data)


@external
def answer_stage(id: bytes32, node: Node, kind: uint256, frame: IEvidence.Frame, data: Bytes[MAX_ANSWER]):
    """
    @notice Leads from a leaf into the tree behind it. Where the answer commits to something new, the operator's hot key gives it, or an answer
        key.
    @param kind Of `Descent`: 1 the state at step 0, 2 a node's tensor, 3 a slot's result; new: 4 a segment's steps, 5 a step's
           trace, 6 the trace of an update or aggregation, 7 an element's parts.
    @param data The ABI encoding of this kind's struct.
    """
    self._check(id, node, ASKED)
    stage: IDescent.Stage = staticcall IDescent(descent).answered(kind, self._stage(node), frame, data)
    answerer: address = self._answer(id, node, stage, kind >= FIRST_NEW)
    log StageFixed(id=id, answerer=answerer, kind=kind, data=data)


# --- how claims are resolved


@external
def judge(
    job: uint256,
    claim: ISettlementViews.Claim,
    frame: IEvidence.Frame,
    place: Place,
    kind: uint256,
    data: Bytes[MAX_DATA],
):
    """
    @notice Shows at a node, or at a child of one, that the claim is false.
    @param kind Which kind of evidence.
    """
    node: Node = place.node
    self._check(place.id, node, place.status)
    if keccak256(abi_encode(frame)) != node.frame:
        self._refuse("referee: other frame")
    is_shown: bool = place.status == ANSWERED and tree._is_shown(node.position)
    position: uint256 = node.position
    root: bytes32 = node.root
    if place.is_child:
        if place.status != ANSWERED:
            self._refuse("referee: not answered")
        root = place.child
        position = tree._below(node.position, node.root, place.number, root, place.path)
    # INVARIANT leaves: what lies beyond a tree's last leaf is evidence of nothing. An element or a whole trace is no leaf.
    if (
        tree._height(position) == 0
        and tree._phase(position) != tree.ELEMENT
        and node.position != tree.NODES
        and tree._index(position) >= tree._leaves(position)
    ):
        self._refuse("referee: no such leaf")
    open_leaf: bytes32 = root if is_shown and tree._height(position) == 0 else empty(bytes32)
    # `IEvidence.judge`, which reverts where the claim is not shown to be false. A call by the interface would send as many bytes
    # as there can be, for 16,000 gas more, and so would one that reads the answer.
    raw_call(
        evidence,
        abi_encode(
            kind,
            frame,
            IEvidence.Position(
                phase=tree._phase(position),
                height=tree._height(position),
                index=tree._index(position),
                node=root,
                open_leaf=open_leaf,
            ),
            data,
            method_id=JUDGE,
        ),
        is_static_call=True,
    )
    now: uint256 = self._now()
    self._check_open(self.claims[node.claim], now)
    self.verdicts[node.claim] = node.origin | now
    self._resolve(job, claim, node.claim, outcomes.JUDGED, place.id, frame.slot)


@external
def expire(job: uint256, claim: ISettlementViews.Claim, id: bytes32, node: Node):
    """
    @notice An ask past its clock convicts by silence.
    """
    self._check(id, node, ASKED)
    self._check_over(clock._is_expired(node.clocks, self._now()))
    self.verdicts[node.claim] = node.origin & UNIT_MASK
    outcome: uint256 = outcomes.EXHAUSTED if clock._is_exhausted(node.clocks) else outcomes.SILENT
    self._resolve(job, claim, node.claim, outcome, id, 0)


@external
def close(job: uint256, claim: ISettlementViews.Claim):
    """
    @notice A claim is final when its deadline and every path's clock have passed and no ask is open. One whose asks nobody expired
            becomes void after twice the time that a dispute can take; one that lost its data, at once.
    """
    key: bytes32 = self._key(job, claim)
    word: uint256 = self._with_deadline(self.claims[key])
    self._check_pending(word)
    outcome: uint256 = outcomes.AGED
    now: uint256 = self._now()
    if self._is_kept(job, claim):
        if self._is_final(word, now):
            outcome = outcomes.FINAL
        else:
            deadline: uint256 = word >> DEADLINE_AT & bits.U40
            longest: uint256 = committer_s + asker_s + clock.MOST_COUNTED * (word >> REEXECUTE_AT & U20)
            if deadline == 0 or now <= deadline + AGED_TIMES * longest:
                self._refuse("referee: not final")
    self._resolve(job, claim, key, outcome, empty(bytes32), 0)


@external
@view
def is_final(key: bytes32) -> bool:
    """
    @notice Whether `close` would make this claim final now, if its data is not lost.
    """
    word: uint256 = self._with_deadline(self.claims[key])
    return word & STATUS == PENDING and self._is_final(word, self._now())


@external
@view
def open_heavy(job: uint256, operator: uint256) -> uint256:
    """
    @notice Heavy asks open against an operator in a job.
    """
    return self._open_heavy(job << 28 | operator)


# --- fees


@external
def settle(
    ids: DynArray[bytes32, MAX_SETTLED], records: DynArray[Node, MAX_SETTLED], statuses: DynArray[uint256, MAX_SETTLED]
):
    """
    @notice Of nodes whose claim is resolved: what was prepaid goes to who answered, if the claim is final, else back to who asked.
    @param ids Of the nodes, each once: a settled node is forgotten.
    @param records Theirs, in the same order, as the last event has them.
    @param statuses Theirs: 1 asked, 2 answered.
    """
    self._check_node(len(records) == len(ids) and len(statuses) == len(ids))
    i: uint256 = 0
    for id: bytes32 in ids:
        node: Node = records[i]
        self._check(id, node, statuses[i])
        self.nodes[id] = 0
        i += 1
        word: uint256 = self.claims[node.claim]
        outcome: uint256 = word & STATUS
        if outcome == PENDING:
            self._refuse("referee: not resolved")
        account: address = convert(node.payment >> 96, address)
        if outcome == outcomes.FINAL:
            account = node.answerer
            if account == empty(address):
                account = staticcall INodeRegistry(registry).owner_of(word >> OPERATOR_AT & U28)
        self.owed[empty(address)][account] += (node.payment >> 48 & tree.U48) * A_GWEI
        if node.payment & HEAVY == 0:
            continue
        token: address = empty(address)
        price: uint256 = 0
        token, price = self._heavy_price(word, node.payment & OF_AGGREGATION != 0, node.clocks >> clock.PRICE_AT)
        kept: uint256 = price
        is_on_path: bool = self.verdicts[node.claim] & UNIT_MASK == convert(id, uint256) & UNIT_MASK
        if outcome == outcomes.EXHAUSTED or (
            (outcome == outcomes.JUDGED or outcome == outcomes.SILENT) and not is_on_path
        ):
            kept = price - price // 2
            self.burned[token] += price // 2
        self.owed[token][account] += kept


@external
def withdraw(token: address, account: address) -> uint256:
    """
    @notice Sends what is owed; the zero address means the chain's coin.
    """
    amount: uint256 = self.owed[token][account]
    if amount == 0:
        self._refuse("referee: nothing owed")
    self.owed[token][account] = 0
    log Withdrawn(token=token, account=account, amount=amount)
    if token == empty(address):
        success: bool = raw_call(account, b"", value=amount, revert_on_failure=False)
        self._check_transfer(success)
    else:
        self._check_transfer(extcall IERC20(token).transfer(account, amount, default_return_value=True))
    return amount


# --- seals


@external
def seal(hash: bytes32):
    """
    @notice Places keccak256(abi_encode(finder, step, salt)), with the step's UNIT_MASK of the id under which it is asked for.
    """
    if self.seals[hash] != 0:
        self._refuse("referee: sealed already")
    self.seals[hash] = self._now()
    log Sealed(account=msg.sender, hash=hash)


@external
def open_seal(job: uint256, claim: ISettlementViews.Claim, finder: address, salt: bytes32):
    """
    @notice Shows a seal that names the convicted step and was placed long enough before the first ask there. The oldest counts.
    """
    key: bytes32 = self._key(job, claim)
    verdict: uint256 = self.verdicts[key]
    judged_at: uint256 = verdict & bits.U40
    if judged_at == 0 or self._now() > judged_at + opening_s:
        self._refuse("referee: not open to seals")
    placed: uint256 = self.seals[keccak256(abi_encode(finder, verdict & UNIT_MASK, salt))]
    if placed == 0 or placed + seal_lead_s > verdict >> 40 & bits.U40:
        self._refuse("referee: no such seal")
    best: uint256 = self.finders[key]
    if best != 0 and placed >= best & bits.U96:
        self._refuse("referee: an older seal")
    self.finders[key] = convert(finder, uint256) << 96 | placed
    log SealOpened(claim=key, finder=finder, placed_at=placed)


@external
def reward(job: uint256, claim: ISettlementViews.Claim):
    """
    @notice Once seals are opened: the oldest one's share goes to its finder; without one it burns.
    """
    key: bytes32 = self._key(job, claim)
    opened_until: uint256 = (self.verdicts[key] & bits.U40) + opening_s
    finder: uint256 = self.finders[key]
    if finder & bits.U96 == bits.U96 or opened_until == opening_s:
        self._refuse("referee: nothing to reward")
    self._check_over(self._now() > opened_until)
    self.finders[key] = finder | bits.U96
    extcall IDisputes(self._court(job)).reward_finder(job, claim, convert(finder >> 96, address))


# --- within


@internal
@view
def _now() -> uint256:
    return protocol_time._now(registry)


@internal
def _disputed(job: uint256, claim: ISettlementViews.Claim, work: openings.Work, now: uint256) -> bytes32:
    """
    @notice The key of a claim that may be asked about; with the first ask it gets its word.
    """
    court: address = self._court(job)
    terms: IDisputes.Terms = staticcall IDisputes(court).dispute_terms(job, claim)
    if work.inner_steps == 0 or work.segment_steps == 0 or openings._work_root(work) != terms.work_root:
        self._refuse("referee: work does not match")
    key: bytes32 = self._key(job, claim)
    if terms.deadline != 0 and now > terms.deadline:
        self._refuse("referee: window closed")
    if self.claims[key] == 0:
        turn: uint256 = 0
        if terms.deadline == 0:
            turn = self._narrow(claim.turn, U20)
        else:
            # Audits: verdicts from before the first ask.
            turn = min(terms.deadline - now, U20)
        self.claims[key] = (
            convert(convert(job, uint32), uint256) << JOB_AT
            | self._narrow(claim.operator, U28) << OPERATOR_AT
            | turn << TURN_AT
            | min(terms.reexecute_s, U20) << REEXECUTE_AT
            | max(1, min(terms.slots, bits.U8)) << SLOTS_AT
            | convert(convert(terms.deadline, uint40), uint256) << DEADLINE_AT
            | PENDING
        )
        extcall IDisputes(court).open_dispute(job, claim)
    return key


@internal
@payable
def _ask(id: bytes32, node: Node, is_heavy: bool, is_aggregation: bool, now: uint256) -> Node:
    """
    @param node With the clocks of the node above, or those of a path before its first ask.
    """
    self._check_new(id)
    word: uint256 = self._with_deadline(self.claims[node.claim])
    self._check_pending(word)
    # Heavy asks open are never more than asks open, so neither count can run into the field beside it.
    open_asks: uint256 = (word >> OPEN_AT & bits.U16) + 1
    if open_asks > bits.U16:
        self._refuse("referee: too many asks")
    asked: Node = node
    open: uint256 = 0
    slots: uint256 = word >> SLOTS_AT & bits.U8
    flags: uint256 = 0
    token: address = empty(address)
    price: uint256 = 0
    if is_heavy:
        self.heavy_asks[word >> OPERATOR_AT] += 1 << 128
        open = self._open_heavy(word >> OPERATOR_AT)
        flags = HEAVY
        if is_aggregation:
            flags |= OF_AGGREGATION
        asked.origin = convert(id, uint256) & UNIT_MASK | now << 40
        token, price = self._heavy_price(word, is_aggregation, node.clocks >> clock.PRICE_AT)
        word += ONE_HEAVY_OPEN
        # At its greatest it stays: to refuse would keep askers out, and what burns by it may be less.
        if word >> HEAVY_MADE_AT & bits.U16 < bits.U16:
            word += ONE_HEAVY_MADE
    asked.clocks = clock._asked(
        asked.clocks, now, word >> DEADLINE_AT & bits.U40, is_heavy, open, slots, word >> REEXECUTE_AT & U20
    )
    self.claims[node.claim] = word + ONE_OPEN
    fee: uint256 = open_asks * self._answer_gas(asked.position) * max(FEE_MULTIPLE * block.basefee, A_GWEI)
    if msg.value < fee:
        self._refuse("referee: fee too small")
    # Coin below a gwei is the asker's gift: it is counted in gwei.
    asked.payment = (
        convert(msg.sender, uint256) << 96
        | convert(convert(msg.value // A_GWEI, uint48), uint256) << 48
        | now << 8
        | flags
    )
    asked.answerer = empty(address)
    self._save(id, asked, ASKED)
    if price > 0:
        self._check_transfer(
            extcall IERC20(token).transferFrom(msg.sender, self, price, default_return_value=True)
        )
    return asked


@internal
def _answer(id: bytes32, node: Node, stage: IDescent.Stage, is_new: bool) -> address:
    """
    @param stage Where the node is from now on.
    @return Who is paid for the answer if the claim becomes final; nobody: the operator's owner.
    """
    word: uint256 = self.claims[node.claim]
    self._check_pending(word)
    if is_new:
        if not staticcall INodeRegistry(registry).may_answer(word >> OPERATOR_AT & U28, msg.sender):
            self._refuse("referee: not the committer")
    answered: Node = node
    answered.frame = stage.frame
    answered.position = stage.position
    answered.root = stage.root
    now: uint256 = self._now()
    answered.clocks = clock._answered(node.clocks, now)
    # INVARIANT fees: who copies the answer of an author that is awake earns nothing: until `exclusive_s` the owner is paid.
    if not (is_new or clock._is_exclusive(node.clocks, now, exclusive_s)):
        answered.answerer = msg.sender
    if node.payment & HEAVY != 0:
        self.heavy_asks[word >> OPERATOR_AT] += 1
        word -= ONE_HEAVY_OPEN
    latest: uint256 = max(word >> LATEST_AT & bits.U40, clock._latest(answered.clocks))
    left: uint256 = clock._committer_left(answered.clocks)
    used: uint256 = max(word >> USED_AT & bits.U16, min(committer_s - min(left, committer_s), bits.U16))
    kept: uint256 = word & ~(bits.U40 << LATEST_AT | bits.U16 << USED_AT)
    self.claims[node.claim] = (kept | latest << LATEST_AT | used << USED_AT) - ONE_OPEN
    self._save(id, answered, ANSWERED)
    return answered.answerer


@internal
def _resolve(
    job: uint256, claim: ISettlementViews.Claim, key: bytes32, outcome: uint256, node: bytes32, slot: uint256
):
    if self._key(job, claim) != key:
        self._refuse("referee: other claim")
    word: uint256 = self.claims[key]
    self._check_pending(word)
    # INVARIANT heavy: what is counted against an operator is the heavy asks open of claims that are pending.
    open: uint256 = word >> HEAVY_OPEN_AT & bits.U16
    if open > 0:
        self.heavy_asks[word >> OPERATOR_AT] += open
    self.claims[key] = (word & ~(bits.U16 << HEAVY_OPEN_AT)) - PENDING + outcome + (slot << HEAVY_OPEN_AT)
    burned: uint256 = 0
    if outcome == outcomes.EXHAUSTED:
        token: address = empty(address)
        price: uint256 = 0
        token, price = self._heavy_price(
            word, claim.seat >= claim_hashes.AGGREGATION, self._price_of(claim)
        )
        burned = (word >> HEAVY_MADE_AT & bits.U16) * (price // 2)
    log ClaimResolved(job=job, claim=key, outcome=outcome, node=node)
    extcall IDisputes(self._court(job)).close_dispute(
        job, claim, outcome, word >> USED_AT & bits.U16, burned
    )


@internal
@view
def _is_final(word: uint256, now: uint256) -> bool:
    deadline: uint256 = word >> DEADLINE_AT & bits.U40
    return (
        word >> OPEN_AT & bits.U16 == 0
        and deadline > 0
        and now > max(deadline + asker_s, word >> LATEST_AT & bits.U40)
    )


@internal
@view
def _with_deadline(word: uint256) -> uint256:
    """
    @notice A claim's word with its deadline, if that is known by now.
    """
    if word >> DEADLINE_AT & bits.U40 > 0 or word == 0:
        return word
    job: uint256 = word >> JOB_AT
    deadline: uint256 = staticcall IDisputes(self._court(job)).claim_deadline(job, word >> TURN_AT & U20)
    # None yet, or no more: another turn has its place, and the word keeps its turn.
    if deadline == max_value(uint256) or deadline == 0:
        return word
    return word | U20 << TURN_AT | convert(convert(deadline, uint40), uint256) << DEADLINE_AT


@internal
@view
def _heavy_price(word: uint256, is_aggregation: bool, paid: uint256) -> (address, uint256):
    """
    @notice What a heavy ask prepays, in which token: a re-execution, at the claim's price or the reserve. Of a trial or a receipt nothing.
    @param paid What the claim is paid for a slot or for the aggregation: re-openings raise it above the reserve.
    """
    job: uint256 = word >> JOB_AT
    if not claim_hashes._is_of_job(job):
        return empty(address), 0
    token: address = empty(address)
    reserve: uint256 = 0
    token, reserve = staticcall ITaskViews(tasks).reexecution_price(job, is_aggregation)
    return token, max(reserve, paid)


@internal
@pure
def _price_of(claim: ISettlementViews.Claim) -> uint256:
    """
    @notice What a claim is paid for each slot, or for the aggregation.
    """
    slots: uint256 = 1 if claim.seat >= claim_hashes.AGGREGATION else max(1, claim.scope & bits.U16)
    return claim.price // slots


@internal
@view
def _is_kept(job: uint256, claim: ISettlementViews.Claim) -> bool:
    """
    @notice Whether the claim is neither paid, convicted nor void where it is kept. Availability convicts beside disputes.
    @dev The view takes far less gas than what is left here needs afterwards: nobody makes it fail by sending too little.
    """
    return raw_call(
        self._court(job),
        abi_encode(job, claim, method_id=DISPUTE_TERMS),
        is_static_call=True,
        revert_on_failure=False,
    )


@internal
@view
def _open_heavy(operator: uint256) -> uint256:
    """
    @param operator job << 28 | operator
    """
    asks: uint256 = self.heavy_asks[operator]
    return (asks >> 128) - (asks & bits.U128)


@internal
@pure
def _answer_gas(position: uint256) -> uint256:
    """
    @notice What the answer of a node takes at most.
    """
    height: uint256 = tree._height(position)
    if tree._is_shown(position):
        return ANSWER_GAS + (LEAF_GAS << height)
    if height > 0:
        return ANSWER_GAS + (CHILD_GAS << tree._span(position))
    return STAGE_GAS


@internal
@view
def _check(id: bytes32, node: Node, status: uint256):
    """
    @notice That the record is the node's, and its status this one. Any other number would set bits of the hash.
    """
    self._check_node(
        (status == ASKED or status == ANSWERED) and self.nodes[id] == self._word(node, status)
    )


@internal
def _save(id: bytes32, node: Node, status: uint256):
    self.nodes[id] = self._word(node, status)


@internal
@pure
def _word(node: Node, status: uint256) -> uint256:
    return convert(keccak256(abi_encode(node)), uint256) & ~bits.U8 | status


@internal
@pure
def _stage(node: Node) -> IDescent.Stage:
    return IDescent.Stage(frame=node.frame, position=node.position, root=node.root)


@internal
@pure
def _path_id(key: bytes32, slot: uint256, kind: uint256) -> bytes32:
    return keccak256(abi_encode(key, slot, kind))


@internal
@pure
def _segment_id(origin: uint256, index: uint256) -> bytes32:
    """
    @notice Of a segment leaf, shown from the bundle or reached through the tree: one id, so that it is asked for once.
    """
    return keccak256(abi_encode(origin & UNIT_MASK, index))


@internal
@pure
def _check_pending(word: uint256):
    if word & STATUS != PENDING:
        self._refuse("referee: not pending")


@internal
@view
def _check_open(word: uint256, now: uint256):
    """
    @notice That nothing is final yet.
    """
    self._check_pending(word)
    if self._is_final(self._with_deadline(word), now):
        self._refuse("referee: final")


@internal
@pure
def _narrow(number: uint256, most: uint256) -> uint256:
    if number > most:
        self._refuse("referee: too large")
    return number


@internal
@pure
def _refuse(reason: String[32]):
    """
    @dev `if not so: _refuse(reason)` is `assert so, reason`, in half the bytes.
    """
    raise reason


@internal
@view
def _check_new(id: bytes32):
    if self.nodes[id] != 0:
        self._refuse("referee: asked already")


@internal
@pure
def _check_node(is_that: bool):
    if not is_that:
        self._refuse("referee: other node")


@internal
@pure
def _check_over(is_over: bool):
    if not is_over:
        self._refuse("referee: time left")


@internal
@pure
def _check_states(is_matched: bool):
    if not is_matched:
        self._refuse("referee: states do not match")


@internal
@pure
def _check_here(is_here: bool):
    if not is_here:
        self._refuse("referee: not here")


@internal
@pure
def _check_transfer(is_done: bool):
    if not is_done:
        self._refuse("referee: transfer failed")


@internal
@view
def _court(job: uint256) -> address:
    """
    @notice Who keeps the claims of a job.
    """
    if claim_hashes._is_of_job(job):
        return settlement
    return admissions if job == claim_hashes.TRIALS else serving


@internal
@pure
def _key(job: uint256, claim: ISettlementViews.Claim) -> bytes32:
    return keccak256(abi_encode(job, claim_hashes._hash(claim)))
