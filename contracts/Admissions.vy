# pragma version ==0.4.3
# pragma nonreentrancy on
"""
@title Admissions
@license Apache-2.0
@notice A class earns more only once its machine passed a trial: by a serial workload that fills its memory, under a seed that
        nobody knew before, and again when chance asks for it.
@dev An answered trial is a claim like Settlement's, of job 0 and of one slot: it can be disputed for a window, and the
     Referee reads and reports it as it does there.
"""


from .interfaces import IDisputes
from .interfaces import INodeRegistry
from .interfaces import ISettlementViews
from .modules import chance
from .modules import claims as claim_words
from .modules import merkle
from .modules import numbers
from .modules import openings
from .modules import outcomes
from .modules import protocol_time


implements: IDisputes


MAX_WORKLOADS: constant(uint256) = 16
MAX_STEPS: constant(uint256) = 65_536
MAX_VRAM_GB: constant(uint256) = 65_535
# Of the stake, for a trial that proved false.
FALSE_BPS: constant(uint256) = 2_000
# Of the stake, for a recall that was not answered; of that, to whoever recalled.
LAPSE_BPS: constant(uint256) = 100
RECALLER_BPS: constant(uint256) = 5_000
# Of the admitted, in an epoch.
RECALL_BPS: constant(uint256) = 1_000
# Re-executions by a machine just fast enough that fit a window; trials that fit a recall.
RE_EXECUTIONS: constant(uint256) = 3
RECALL_TRIALS: constant(uint256) = 2


registry: public(immutable(address))
# Sets the workloads: the timelock; on a devnet the deployer.
governor: public(immutable(address))
# Seconds in which a trial is answered, from its entry on.
benchmark_s: public(immutable(uint256))
# Seconds an answered trial can be disputed.
window_s: public(immutable(uint256))
# Seconds of an epoch, as in Rewards.
epoch_s: public(immutable(uint256))
deployer: public(immutable(address))


# The benchmark of a VRAM size.
struct Workload:
    program_root: bytes32
    state_root: bytes32
    steps: uint256
    # Of all steps.
    flops: uint256


# A trial that is not answered.
struct Entry:
    entered_at: uint256
    # Whose hash the seed follows from; 0: no entry.
    block: uint256


# Of an answered trial, beside its claim.
struct Trial:
    # As a job's: what the claim is judged by.
    work_root: bytes32
    # FLOPs a second.
    score: uint256
    # The last second at which it can be disputed.
    deadline: uint256


struct Recall:
    epoch: uint256
    # Until when it must be answered; 0: it was.
    due: uint256
    # Who asked for it, and has a part of what a lapse costs.
    caller: address


# Judges disputes; set once by `wire`.
referee: public(address)
# VRAM in GB -> its workload
workloads: public(HashMap[uint256, Workload])
# The VRAM sizes that have a workload.
sizes: DynArray[uint256, MAX_WORKLOADS]
# operator -> its trial that is not answered
entries: public(HashMap[uint256, Entry])
# operator -> its answered trial's claim: the upper 240 bits of the hash, then its status, pending; 0: none
words: HashMap[uint256, uint256]
# operator -> its answered trial
trials: public(HashMap[uint256, Trial])
# operator -> whether somebody asked about its answered trial
is_disputed: public(HashMap[uint256, bool])
# operator -> FLOPs a second of the trial that admitted it
scores: public(HashMap[uint256, uint256])
# operator -> its last recall
recalls: public(HashMap[uint256, Recall])
# claim_hash -> of what a false trial cost, what is kept for whoever found it
finder_shares: public(HashMap[bytes32, uint256])
# epoch -> the block whose hash draws who is recalled; 0: not scheduled
draws: public(HashMap[uint256, uint256])


event WorkloadSet:
    vram_gb: indexed(uint256)
    workload: Workload


event TrialEntered:
    operator: indexed(uint256)
    block: uint256


event TrialAnswered:
    operator: indexed(uint256)
    claim: ISettlementViews.Claim
    workload: Workload
    segment_root: bytes32
    seconds: uint256
    deadline: uint256


event TrialDisputeOpened:
    operator: indexed(uint256)


event TrialDisputeClosed:
    operator: indexed(uint256)
    outcome: uint256


event TrialConvicted:
    operator: indexed(uint256)
    slashed: uint256


event TrialFinderRewarded:
    operator: indexed(uint256)
    finder: indexed(address)
    amount: uint256


event OperatorAdmitted:
    operator: indexed(uint256)
    score: uint256


event RecallScheduled:
    epoch: indexed(uint256)
    block: uint256


event OperatorRecalled:
    operator: indexed(uint256)
    due: uint256


event AdmissionLapsed:
    operator: indexed(uint256)
    slashed: uint256


@deploy
def __init__(
    registry_: address, governor_: address, benchmark_s_: uint256, min_window_s_: uint256, epoch_s_: uint256
):
    """
    @param registry_ Knows the operators, and records which are admitted.
    @param governor_ Sets the workloads.
    @param benchmark_s_ Seconds in which a trial is answered.
    @param min_window_s_ The least challenge window.
    @param epoch_s_ Seconds of an epoch.
    """
    registry = registry_
    governor = governor_
    benchmark_s = benchmark_s_
    window_s = max(min_window_s_, RE_EXECUTIONS * benchmark_s_)
    epoch_s = epoch_s_
    deployer = msg.sender


@external
def wire(referee_: address):
    """
    @notice Names the referee, once.
    """
    assert msg.sender == deployer, "admissions: not the deployer"
    assert self.referee == empty(address), "admissions: already wired"
    self.referee = referee_


@external
def set_workload(vram_gb: uint256, workload: Workload):
    """
    @notice Adds the workload of a VRAM size, or replaces it. An entry that is open then has another seed.
    """
    assert msg.sender == governor, "admissions: not the governor"
    assert vram_gb > 0 and vram_gb <= MAX_VRAM_GB, "admissions: VRAM out of range"
    assert workload.steps > 0 and workload.steps <= MAX_STEPS, "admissions: steps out of range"
    assert workload.flops > 0 and workload.flops <= numbers.MAX_FLOPS, "admissions: flops out of range"
    if self.workloads[vram_gb].steps == 0:
        assert len(self.sizes) < MAX_WORKLOADS, "admissions: too many workloads"
        self.sizes.append(vram_gb)
    self.workloads[vram_gb] = workload
    log WorkloadSet(vram_gb=vram_gb, workload=workload)


@external
def enter(operator: uint256):
    """
    @notice Begins a trial: the next block's hash gives its seed. It is open until it is answered, or its time is over.
    """
    self._check_eligible(operator)
    assert self.words[operator] == 0, "admissions: trial pending"
    # INVARIANT seeds: an entry is answered, or costs its time; nobody chooses among seeds.
    assert block.timestamp > self.entries[operator].entered_at + benchmark_s, "admissions: entry still open"
    assert self._workload_of(operator).steps > 0, "admissions: no workload"
    number: uint256 = block.number + 1
    self.entries[operator] = Entry(entered_at=block.timestamp, block=number)
    log TrialEntered(operator=operator, block=number)


@external
def answer(operator: uint256, seed: bytes32, root: bytes32):
    """
    @notice Claims the result of an entered trial, and so answers a recall.
    @param seed From which it was computed: after a reorganisation, or a change of the workload, it is another, and what an
           honest machine found for the old one must not count as false.
    @param root The segment root over the state roots at each step.
    """
    # Who requested its exit before could take its stake out before it is judged.
    self._check_eligible(operator)
    entry: Entry = self.entries[operator]
    assert entry.block != 0, "admissions: not entered"
    assert block.timestamp <= entry.entered_at + benchmark_s, "admissions: answer too late"
    block_hash: bytes32 = self._known_hash(entry.block)
    workload: Workload = self._workload_of(operator)
    assert seed == self._seed(block_hash, operator, workload), "admissions: seed does not match"
    # By block time, the wait for the seed included; two blocks may have one time. A machine computes while the chain is halted.
    seconds: uint256 = max(1, block.timestamp - entry.entered_at)
    claim: ISettlementViews.Claim = self._claim(operator, workload, seed, root)
    deadline: uint256 = protocol_time._now(registry) + window_s
    self.entries[operator] = empty(Entry)
    self.words[operator] = self._word(claim)
    self.trials[operator] = Trial(
        work_root=openings._work_root(
            openings.Work(
                programs=[workload.program_root, empty(bytes32), empty(bytes32)],
                inner_steps=workload.steps,
                segment_steps=1,
                # Of a batch of zeros nobody asks which row is which example.
                rows=0,
                carry=1,
            )
        ),
        score=workload.flops // seconds,
        deadline=deadline,
    )
    self.recalls[operator].due = 0
    log TrialAnswered(
        operator=operator,
        claim=claim,
        workload=workload,
        segment_root=root,
        seconds=seconds,
        deadline=deadline,
    )


@external
def open_dispute(job: uint256, claim: ISettlementViews.Claim):
    """
    @notice The first ask about a pending trial.
    @param job 0.
    """
    self._check_referee()
    self._check_pending(claim)
    self.is_disputed[claim.operator] = True
    log TrialDisputeOpened(operator=claim.operator)


@external
def close_dispute(job: uint256, claim: ISettlementViews.Claim, outcome: uint256, used_s: uint256, burned: uint256):
    """
    @notice The dispute of a trial is over. A final one can be settled; a conviction ends the operator's admission and burns part
            of its stake.
    @param job 0.
    @param outcome 1 final, 2 judged, 3 silent, 4 silent and exhausted, 5 void by age.
    @param used_s Not read: a trial is not paid.
    @param burned Not read: asks about trials prepay no tokens.
    """
    self._check_referee()
    operator: uint256 = claim.operator
    if self.words[operator] != self._word(claim):
        return
    self.is_disputed[operator] = False
    log TrialDisputeClosed(operator=operator, outcome=outcome)
    if outcome == outcomes.FINAL:
        return
    self._forget(operator)
    if outcome == outcomes.AGED:
        return
    self._end(operator)
    # INVARIANT shares: whoever shows its own fault loses more than it is sent. As of a lock, nobody earns by silence.
    share_bps: uint256 = numbers.FINDER_BPS if outcome == outcomes.JUDGED else 0
    slashed: uint256 = 0
    share: uint256 = 0
    slashed, share = extcall INodeRegistry(registry).slash_for(operator, FALSE_BPS, share_bps, empty(address))
    self.finder_shares[claim_words._hash(claim)] = share
    log TrialConvicted(operator=operator, slashed=slashed)


@external
def reward_finder(job: uint256, claim: ISettlementViews.Claim, finder: address):
    """
    @notice What is kept of a judged trial's cost is sent to whoever found that it is false; without a finder it burns.
    @param job 0.
    """
    self._check_referee()
    hash: bytes32 = claim_words._hash(claim)
    amount: uint256 = self.finder_shares[hash]
    if amount > 0:
        self.finder_shares[hash] = 0
        log TrialFinderRewarded(operator=claim.operator, finder=finder, amount=amount)
        extcall INodeRegistry(registry).pay_share(finder, amount)


@external
def settle(claim: ISettlementViews.Claim):
    """
    @notice Admits the operator of a trial whose window passed undisputed.
    """
    self._check_pending(claim)
    operator: uint256 = claim.operator
    assert not self.is_disputed[operator], "admissions: in dispute"
    assert protocol_time._now(registry) > self.trials[claim.operator].deadline, "admissions: window open"
    assert staticcall INodeRegistry(registry).stake_of(operator) > 0, "admissions: nothing staked"
    score: uint256 = self.trials[operator].score
    self._forget(operator)
    self.scores[operator] = score
    log OperatorAdmitted(operator=operator, score=score)
    extcall INodeRegistry(registry).set_admitted(operator, True)


@external
def schedule():
    """
    @notice Names the block whose hash draws who is recalled in this epoch: the next one.
    """
    epoch: uint256 = block.timestamp // epoch_s
    assert self.draws[epoch] == 0, "admissions: already scheduled"
    number: uint256 = block.number + 1
    self.draws[epoch] = number
    log RecallScheduled(epoch=epoch, block=number)


@external
def recall(operator: uint256):
    """
    @notice Asks an admitted operator that this epoch's draw picked for a new trial. Whoever calls has a part of what it costs the
            operator not to answer.
    """
    epoch: uint256 = block.timestamp // epoch_s
    number: uint256 = self.draws[epoch]
    assert number != 0, "admissions: not scheduled"
    block_hash: bytes32 = self._known_hash(number)
    assert staticcall INodeRegistry(registry).is_admitted(operator), "admissions: not admitted"
    assert self.words[operator] == 0, "admissions: trial pending"
    last: Recall = self.recalls[operator]
    # A recall that is not answered is not put off by another.
    assert last.due == 0 and last.epoch != epoch, "admissions: already recalled"
    assert self._is_drawn(block_hash, epoch, operator), "admissions: not drawn"
    due: uint256 = protocol_time._now(registry) + RECALL_TRIALS * benchmark_s
    self.recalls[operator] = Recall(epoch=epoch, due=due, caller=msg.sender)
    log OperatorRecalled(operator=operator, due=due)


@external
def lapse(operator: uint256):
    """
    @notice Ends the admission of an operator that was recalled and did not answer. It loses 1 % of its stake, half of
            which is sent to whoever recalled it.
    """
    last: Recall = self.recalls[operator]
    assert last.due != 0, "admissions: not recalled"
    assert protocol_time._now(registry) > last.due, "admissions: recall not over"
    # A recall ends with the admission: who left with its stake, and came back, is not the one that was recalled.
    assert staticcall INodeRegistry(registry).is_admitted(operator), "admissions: not admitted"
    self._end(operator)
    # Who exits, or has too little stake, could not answer.
    hot: address = staticcall INodeRegistry(registry).hot_key(operator)
    slashed: uint256 = 0
    if staticcall INodeRegistry(registry).is_eligible(operator, hot):
        slashed = (
            extcall INodeRegistry(registry).slash_for(operator, LAPSE_BPS, RECALLER_BPS, last.caller)
        )[0]
    log AdmissionLapsed(operator=operator, slashed=slashed)


@external
@view
def claims(job: uint256, seat: uint256, turn: uint256) -> bytes32:
    """
    @notice The word of an operator's answered trial, as Settlement has a claim's.
    @param job 0.
    @param seat 0.
    @param turn The operator.
    """
    return convert(self.words[turn], bytes32)


@external
@view
def claim_deadline(job: uint256, turn: uint256) -> uint256:
    """
    @notice The last second at which an operator's answered trial can be disputed, as Settlement says it of a turn.
    @param job 0.
    @param turn The operator.
    """
    return self.trials[turn].deadline


@external
@view
def dispute_terms(job: uint256, claim: ISettlementViews.Claim) -> IDisputes.Terms:
    """
    @notice What a pending trial's clocks and prices follow from.
    @param job 0.
    """
    self._check_pending(claim)
    trial: Trial = self.trials[claim.operator]
    return IDisputes.Terms(
        work_root=trial.work_root, reexecute_s=benchmark_s, slots=1, deadline=trial.deadline
    )


@external
@view
def workload_of(operator: uint256) -> Workload:
    """
    @notice The workload of the largest VRAM size not above the operator's; zeros when there is none.
    """
    return self._workload_of(operator)


@external
@view
def seed_of(operator: uint256) -> bytes32:
    """
    @notice The seed of the operator's entry; zero without one, and while its block's hash is not known.
    """
    number: uint256 = self.entries[operator].block
    block_hash: bytes32 = chance._hash_of(number)
    if number == 0 or block_hash == empty(bytes32):
        return empty(bytes32)
    return self._seed(block_hash, operator, self._workload_of(operator))


@external
@view
def is_drawn(operator: uint256) -> bool:
    """
    @notice Whether the running epoch's draw picks the operator; never while its hash is not known.
    """
    epoch: uint256 = block.timestamp // epoch_s
    number: uint256 = self.draws[epoch]
    block_hash: bytes32 = chance._hash_of(number)
    return number != 0 and block_hash != empty(bytes32) and self._is_drawn(block_hash, epoch, operator)


@internal
@view
def _check_eligible(operator: uint256):
    assert (
        staticcall INodeRegistry(registry).is_eligible(operator, msg.sender)
    ), "admissions: operator not eligible"


@internal
@view
def _check_referee():
    assert msg.sender == self.referee, "admissions: not the referee"


@internal
@view
def _check_pending(claim: ISettlementViews.Claim):
    assert self.words[claim.operator] == self._word(claim), "admissions: unknown trial"


@internal
@view
def _known_hash(number: uint256) -> bytes32:
    block_hash: bytes32 = chance._hash_of(number)
    assert block_hash != empty(bytes32), "admissions: block hash not known"
    return block_hash


@internal
@view
def _workload_of(operator: uint256) -> Workload:
    vram_gb: uint256 = staticcall INodeRegistry(registry).vram_of(operator)
    largest: uint256 = 0
    for size: uint256 in self.sizes:
        if size <= vram_gb:
            largest = max(largest, size)
    return self.workloads[largest]


@internal
def _end(operator: uint256):
    """
    @dev Calls the registry, which calls nobody.
    """
    self.recalls[operator].due = 0
    self.scores[operator] = 0
    extcall INodeRegistry(registry).set_admitted(operator, False)


@internal
def _forget(operator: uint256):
    self.words[operator] = 0
    self.trials[operator] = empty(Trial)


@internal
@view
def _claim(operator: uint256, workload: Workload, seed: bytes32, segment_root: bytes32) -> ISettlementViews.Claim:
    """
    @notice An answered trial as a claim of slot 0, at which nothing is paid. Its end and its update nobody asks for.
    """
    return ISettlementViews.Claim(
        turn=operator,
        round=convert(seed, uint256),
        seat=0,
        operator=operator,
        scope=1,
        price=0,
        start_root=workload.state_root,
        root=merkle._result_root(0, workload.state_root, segment_root, empty(bytes32), empty(bytes32)),
    )


@internal
@pure
def _word(claim: ISettlementViews.Claim) -> uint256:
    return convert(claim_words._hash(claim), uint256) >> 16 << 16 | claim_words.PENDING


@internal
@pure
def _seed(block_hash: bytes32, operator: uint256, workload: Workload) -> bytes32:
    return keccak256(abi_encode(block_hash, operator, workload))


@internal
@pure
def _is_drawn(block_hash: bytes32, epoch: uint256, operator: uint256) -> bool:
    return convert(keccak256(abi_encode(block_hash, epoch, operator)), uint256) % numbers.BPS < RECALL_BPS
