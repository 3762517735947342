# pragma version ==0.4.3
# pragma nonreentrancy on
"""
@title Audits
@license Apache-2.0
@notice Pays auditors to re-execute parts of a job that chance picks after the work was committed, and slashes those who vouch
        for what is false.
@dev A unit is one segment of one slot-round: `slot * segments + segment`. Nothing loops: whether a unit is drawn, and whether an
     auditor is selected for it, are questions to a hash that each attestation asks anew. Audits deter; the challenge window judges.
"""


from ethereum.ercs import IERC20
from .interfaces import INodeRegistry
from .interfaces import IRewards
from .interfaces import ISettlementViews
from .interfaces import ITaskViews
from .modules import bits
from .modules import chance
from .modules import claims
from .modules import merkle
from .modules import numbers
from .modules import protocol_time


# Auditors that attest one unit at most, and that are selected for it on average.
PLACES: constant(uint256) = 2
# Of an auditor's bond, for one attestation that proved false.
FALSE_BPS: constant(uint256) = 2_000
# What of it goes to who opened the root that contradicts.
OPENER_BPS: constant(uint256) = 5_000
MAX_SEGMENTS: constant(uint256) = 65_536
# Attesting, revealing and contradicting take this part of the job's challenge window each.
PHASES: constant(uint256) = 3

# Of an attestation.
SEALED: constant(uint256) = 1
REVEALED: constant(uint256) = 2
SETTLED: constant(uint256) = 3


registry: public(immutable(address))
tasks: public(immutable(address))
settlement: public(immutable(address))
rewards: public(immutable(address))
zen: public(immutable(address))
# The least bond of an auditor, in ZEN.
min_bond: public(immutable(uint256))
# Blocks that bury the draw's block before it is read.
draw_blocks: public(immutable(uint256))
deployer: public(immutable(address))


# What a submitter offers for audits of its job, and what is left to pay them with.
struct Plan:
    fee: uint256
    rate_bps: uint256
    segments: uint256
    balance: uint256
    reserved: uint256


struct Draw:
    scheduled_at: uint256
    block: uint256
    drawn_at: uint256
    window_s: uint256
    stale: bool
    bonded: uint256
    seed: bytes32


# An operator as an auditor: its ZEN here, when that last grew, and attestations that are not settled.
struct Auditor:
    bond: uint256
    since: uint256
    open: uint256


struct Unit:
    claim_hash: bytes32
    attested: uint256
    opener: address
    root: bytes32


struct Attestation:
    status: uint256
    # The seal; once revealed, the root.
    content: bytes32


# What leads from a segment's end to a claim's root.
struct Opening:
    step: uint256
    segment_path: DynArray[bytes32, merkle.MAX_DEPTH]
    end_root: bytes32
    update_root: bytes32
    result_path: DynArray[bytes32, merkle.MAX_DEPTH]


# Reports what a dispute found false; set once by `wire`.
referee: public(address)
# All bonds together.
bonded: public(uint256)
# ZEN of slashed bonds that nothing can spend.
burned: public(uint256)
# job -> fee (96) | rate_bps (16) | segments (32)
offers: HashMap[uint256, uint256]
# job -> balance (128) | reserved (128)
budgets: HashMap[uint256, uint256]
# job -> turn -> scheduled_at (40) | block (64) | drawn_at (40) | window_s (32) | stale (8)
draw_words: HashMap[uint256, HashMap[uint256, uint256]]
# job -> turn -> all bonds when the draw was scheduled
draw_bonds: HashMap[uint256, HashMap[uint256, uint256]]
# job -> turn -> what all choices of the turn follow from
seeds: HashMap[uint256, HashMap[uint256, bytes32]]
# operator -> bond (128) | since (40) | open (40)
auditor_words: HashMap[uint256, uint256]
# job -> turn -> unit -> what was attested and opened of it
units: public(HashMap[uint256, HashMap[uint256, HashMap[uint256, Unit]]])
# job -> turn -> unit -> operator -> its attestation
attestations: public(HashMap[uint256, HashMap[uint256, HashMap[uint256, HashMap[uint256, Attestation]]]])
# job -> turn -> slot -> the first false leaf of its segment tree, from 1; 0 for none
falsified: public(HashMap[uint256, HashMap[uint256, HashMap[uint256, uint256]]])
# job -> claim_hash -> whether the claim is known here to have been convicted
convicted: public(HashMap[uint256, HashMap[bytes32, bool]])
# token -> account -> what it may withdraw
owed: public(HashMap[address, HashMap[address, uint256]])


event AuditsOffered:
    job: indexed(uint256)
    fee: uint256
    rate_bps: uint256
    segments: uint256


event AuditsFunded:
    job: indexed(uint256)
    amount: uint256


event AuditsRefunded:
    job: indexed(uint256)
    amount: uint256


event AuditorEnlisted:
    operator: indexed(uint256)
    bond: uint256


event AuditorResigned:
    operator: indexed(uint256)
    bond: uint256


event DrawScheduled:
    job: indexed(uint256)
    turn: uint256
    block: uint256


event TurnDrawn:
    job: indexed(uint256)
    turn: uint256
    seed: bytes32
    stale: bool


event UnitAttested:
    job: indexed(uint256)
    operator: indexed(uint256)
    turn: uint256
    unit: uint256


event AttestationRevealed:
    job: indexed(uint256)
    operator: indexed(uint256)
    turn: uint256
    unit: uint256
    root: bytes32


event UnitOpened:
    job: indexed(uint256)
    turn: uint256
    unit: uint256
    root: bytes32
    opener: address


event WorkFalsified:
    job: indexed(uint256)
    turn: uint256
    slot: uint256
    leaf: uint256


event AttestationSettled:
    job: indexed(uint256)
    operator: indexed(uint256)
    turn: uint256
    unit: uint256
    paid: uint256
    slashed: uint256


event Withdrawn:
    token: indexed(address)
    account: indexed(address)
    amount: uint256


@deploy
def __init__(
    registry_: address,
    tasks_: address,
    settlement_: address,
    rewards_: address,
    zen_: address,
    min_bond_: uint256,
    draw_blocks_: uint256,
):
    """
    @param registry_ Knows the operators' keys.
    @param tasks_ Knows the jobs' submitters and tokens.
    @param settlement_ Keeps the claims.
    @param rewards_ Counts verification of jobs paid in ZEN.
    @param zen_ The token of the bonds.
    @param min_bond_ The least bond of an auditor.
    @param draw_blocks_ Blocks that bury the draw's block before it is read.
    """
    registry = registry_
    tasks = tasks_
    settlement = settlement_
    rewards = rewards_
    zen = zen_
    min_bond = min_bond_
    draw_blocks = draw_blocks_
    deployer = msg.sender


@external
def wire(referee_: address):
    """
    @notice Names the referee, once.
    """
    assert msg.sender == deployer, "audits: not the deployer"
    assert self.referee == empty(address), "audits: already wired"
    self.referee = referee_


@external
def offer(job: uint256, fee: uint256, rate_bps: uint256, segments: uint256):
    """
    @notice The submitter says, once, what an attestation is paid, with which probability a unit is drawn, and how many
            segments a slot-round has (the manifest says it to everybody else).
    """
    assert (staticcall ITaskViews(tasks).jobs(job)).submitter == msg.sender, "audits: not the submitter"
    assert self.offers[job] == 0, "audits: already offered"
    assert fee > 0 and fee <= bits.U96, "audits: fee out of range"
    assert rate_bps > 0 and rate_bps <= numbers.BPS, "audits: rate out of range"
    assert segments > 0 and segments <= MAX_SEGMENTS, "audits: segments out of range"
    self.offers[job] = fee << 48 | rate_bps << 32 | segments
    log AuditsOffered(job=job, fee=fee, rate_bps=rate_bps, segments=segments)


@external
def fund(job: uint256, amount: uint256):
    """
    @notice Adds to what a job's audits are paid from, in the job's token. What is left goes to the submitter.
    """
    assert self.offers[job] != 0, "audits: nothing offered"
    assert amount > 0, "audits: zero amount"
    plan: Plan = self._plan(job)
    self._store_budget(job, plan.balance + amount, plan.reserved)
    log AuditsFunded(job=job, amount=amount)
    token: address = (staticcall ITaskViews(tasks).jobs(job)).token
    assert extcall IERC20(token).transferFrom(
        msg.sender, self, amount, default_return_value=True
    ), "audits: transfer failed"


@external
def refund(job: uint256):
    """
    @notice When a job is over, what no attestation has reserved becomes owed to its submitter.
    """
    record: ITaskViews.Job = staticcall ITaskViews(tasks).jobs(job)
    assert record.state == numbers.ENDED or record.state == numbers.CANCELLED, "audits: job not over"
    plan: Plan = self._plan(job)
    assert plan.balance > 0, "audits: nothing left"
    self._store_budget(job, 0, plan.reserved)
    self.owed[record.token][record.submitter] += plan.balance
    log AuditsRefunded(job=job, amount=plan.balance)


@external
def enlist(operator: uint256, amount: uint256):
    """
    @notice Adds ZEN to an operator's bond as an auditor. It counts for draws that are scheduled later.
    """
    assert staticcall INodeRegistry(registry).owner_of(operator) == msg.sender, "audits: not the owner"
    auditor: Auditor = self._auditor(operator)
    auditor.bond += amount
    assert amount > 0 and auditor.bond >= min_bond, "audits: bond below the minimum"
    auditor.since = protocol_time._now(registry)
    self._store_auditor(operator, auditor)
    self.bonded += amount
    log AuditorEnlisted(operator=operator, bond=auditor.bond)
    assert extcall IERC20(zen).transferFrom(
        msg.sender, self, amount, default_return_value=True
    ), "audits: transfer failed"


@external
def resign(operator: uint256):
    """
    @notice Ends an operator's time as an auditor; its bond becomes owed to its owner.
    """
    assert staticcall INodeRegistry(registry).owner_of(operator) == msg.sender, "audits: not the owner"
    auditor: Auditor = self._auditor(operator)
    assert auditor.bond > 0, "audits: not enlisted"
    assert auditor.open == 0, "audits: attestations open"
    self.auditor_words[operator] = 0
    self.bonded -= auditor.bond
    self.owed[zen][msg.sender] += auditor.bond
    log AuditorResigned(operator=operator, bond=auditor.bond)


@external
def schedule(job: uint256, turn: uint256):
    """
    @notice Names the block whose hash will draw from a turn whose inputs are fixed: the next one.
    """
    assert self.offers[job] != 0, "audits: nothing offered"
    assert self.draw_words[job][turn] == 0, "audits: already scheduled"
    run: ISettlementViews.Run = staticcall ISettlementViews(settlement).runs(job)
    assert turn < run.turn, "audits: turn still open"
    assert staticcall ISettlementViews(settlement).pending(job, turn) != 0, "audits: turn is final"
    number: uint256 = block.number + 1
    self.draw_words[job][turn] = self._pack_draw(protocol_time._now(registry), number, 0, run.window_s, False)
    self.draw_bonds[job][turn] = self.bonded
    log DrawScheduled(job=job, turn=turn, block=number)


@external
def draw(job: uint256, turn: uint256):
    """
    @notice Reads the hash of a turn's draw block once that is buried. When nothing knows the hash any more, the draw is
            stale: everything is audited, by anybody.
    """
    draw: Draw = self._draw(job, turn)
    assert draw.block != 0, "audits: not scheduled"
    assert draw.drawn_at == 0, "audits: already drawn"
    assert block.number > draw.block + draw_blocks, "audits: draw block not buried"
    found: bytes32 = chance._hash_of(draw.block)
    stale: bool = found == empty(bytes32)
    seed: bytes32 = keccak256(abi_encode(found, job, turn))
    self.draw_words[job][turn] = self._pack_draw(
        draw.scheduled_at, draw.block, protocol_time._now(registry), draw.window_s, stale
    )
    self.seeds[job][turn] = seed
    log TurnDrawn(job=job, turn=turn, seed=seed, stale=stale)


@external
def attest(job: uint256, claim: ISettlementViews.Claim, unit: uint256, operator: uint256, seal: bytes32):
    """
    @notice An auditor commits to the root it found at the end of a drawn unit, unseen by the others.
    @param seal keccak256(abi_encode(job, turn, unit, operator, hot key, root, salt)): worth nothing in another's hands.
    """
    draw: Draw = self._draw(job, claim.turn)
    assert draw.drawn_at != 0, "audits: not drawn"
    ends_at: uint256 = draw.drawn_at + draw.window_s // PHASES
    assert protocol_time._now(registry) <= ends_at, "audits: attesting is over"
    assert staticcall INodeRegistry(registry).hot_key(operator) == msg.sender, "audits: not the hot key"
    auditor: Auditor = self._auditor(operator)
    # Who came, or added to its bond, after the draw was scheduled might have chosen itself by it.
    assert auditor.bond > 0 and auditor.since < draw.scheduled_at, "audits: not enlisted in time"
    assert claims._is_pending(settlement, job, claim), "audits: unknown claim"
    plan: Plan = self._plan(job)
    assert claims._holds_slot(claim, unit // plan.segments), "audits: no such unit"
    assert operator != claim.operator, "audits: own work"
    assert self._is_drawn(draw, plan.rate_bps, unit), "audits: unit not drawn"
    # In the second half the places of who stayed silent are anybody's.
    assert (
        protocol_time._now(registry) > ends_at - draw.window_s // PHASES // 2
        or self._is_selected(draw, unit, operator, auditor.bond)
    ), "audits: not selected"
    assert self.attestations[job][claim.turn][unit][operator].status == 0, "audits: already attested"
    attested: uint256 = self.units[job][claim.turn][unit].attested
    assert attested < PLACES, "audits: places taken"
    assert plan.balance >= plan.fee, "audits: budget spent"
    # INVARIANT budget: reserved == fee * attestations that are not settled
    self._store_budget(job, plan.balance - plan.fee, plan.reserved + plan.fee)
    auditor.open += 1
    self._store_auditor(operator, auditor)
    self.units[job][claim.turn][unit].claim_hash = claims._hash(claim)
    self.units[job][claim.turn][unit].attested = attested + 1
    self.attestations[job][claim.turn][unit][operator] = Attestation(status=SEALED, content=seal)
    log UnitAttested(job=job, operator=operator, turn=claim.turn, unit=unit)


@external
def reveal(job: uint256, turn: uint256, unit: uint256, operator: uint256, root: bytes32, salt: bytes32):
    """
    @notice Opens an attestation, once nobody can attest any more. Anybody who knows the salt may.
    """
    draw: Draw = self._draw(job, turn)
    first: uint256 = draw.drawn_at + draw.window_s // PHASES
    assert (
        draw.drawn_at != 0
        and protocol_time._now(registry) > first
        and protocol_time._now(registry) <= first + draw.window_s // PHASES
    ), "audits: not revealing"
    attestation: Attestation = self.attestations[job][turn][unit][operator]
    assert attestation.status == SEALED, "audits: no attestation"
    hot: address = staticcall INodeRegistry(registry).hot_key(operator)
    seal: bytes32 = keccak256(abi_encode(job, turn, unit, operator, hot, root, salt))
    assert attestation.content == seal, "audits: seal does not match"
    self.attestations[job][turn][unit][operator] = Attestation(status=REVEALED, content=root)
    log AttestationRevealed(job=job, operator=operator, turn=turn, unit=unit, root=root)


@external
def open(job: uint256, claim: ISettlementViews.Claim, unit: uint256, root: bytes32, opening: Opening):
    """
    @notice Shows which root the claim has at the end of an attested unit. Who contradicts a false attestation so, first,
            gets part of what it costs.
    """
    draw: Draw = self._draw(job, claim.turn)
    assert (
        draw.drawn_at != 0 and protocol_time._now(registry) > draw.drawn_at + draw.window_s // PHASES
    ), "audits: attesting runs"
    record: Unit = self.units[job][claim.turn][unit]
    assert record.attested > 0 and record.claim_hash == claims._hash(claim), "audits: no attestation"
    assert record.opener == empty(address), "audits: already opened"
    segments: uint256 = self._plan(job).segments
    slot: uint256 = unit // segments
    assert len(opening.segment_path) == merkle._height_over(segments + 1), "audits: root does not match"
    segment_root: bytes32 = merkle._climb(
        merkle._segment_leaf(opening.step, root), unit % segments + 1, opening.segment_path
    )
    result: bytes32 = merkle._result_root(
        slot, claim.start_root, segment_root, opening.end_root, opening.update_root
    )
    assert claims._has_result(
        claim.root, claim.scope, slot, result, opening.result_path
    ), "audits: root does not match"
    self.units[job][claim.turn][unit].opener = msg.sender
    self.units[job][claim.turn][unit].root = root
    log UnitOpened(job=job, turn=claim.turn, unit=unit, root=root, opener=msg.sender)


@external
def falsify(job: uint256, claim: ISettlementViews.Claim, slot: uint256, leaf: uint256):
    """
    @notice A dispute convicted a claim: of this slot, the segment that ends at this leaf is the first that is false.
    """
    assert msg.sender == self.referee, "audits: not the referee"
    self.convicted[job][claims._hash(claim)] = True
    before: uint256 = self.falsified[job][claim.turn][slot]
    if before == 0 or leaf < before:
        self.falsified[job][claim.turn][slot] = leaf
        log WorkFalsified(job=job, turn=claim.turn, slot=slot, leaf=leaf)


@external
def record_conviction(job: uint256, claim: ISettlementViews.Claim):
    """
    @notice Remembers that a claim was convicted, for whatever cause, while Settlement still shows it: then nobody is slashed for
            an attestation that contradicts it.
    """
    assert claims._is_convicted(settlement, job, claim), "audits: not convicted"
    self.convicted[job][claims._hash(claim)] = True


@external
def settle(job: uint256, turn: uint256, unit: uint256, operator: uint256):
    """
    @notice Pays an attestation that nothing contradicts, slashes one that is proved false, and frees the place's fee of one
            that was never revealed; once the turn is final.
    """
    draw: Draw = self._draw(job, turn)
    attestation: Attestation = self.attestations[job][turn][unit][operator]
    assert attestation.status == SEALED or attestation.status == REVEALED, "audits: no attestation"
    assert (
        protocol_time._now(registry) > draw.drawn_at + draw.window_s // PHASES * PHASES
        and staticcall ISettlementViews(settlement).pending(job, turn) == 0
        and staticcall ISettlementViews(settlement).parked(job, self.units[job][turn][unit].claim_hash) != claims.PENDING
    ), "audits: not final"
    plan: Plan = self._plan(job)
    record: Unit = self.units[job][turn][unit]
    auditor: Auditor = self._auditor(operator)
    auditor.open -= 1
    false_leaf: uint256 = self.falsified[job][turn][unit // plan.segments]
    leaf: uint256 = unit % plan.segments + 1
    paid: uint256 = 0
    slashed: uint256 = 0
    if attestation.status == REVEALED:
        opened: bool = record.opener != empty(address)
        if opened and attestation.content != record.root:
            # It contradicts a claim that stood, or one that was convicted, and then was right for all we know.
            if (
                self.convicted[job][record.claim_hash]
                or staticcall ISettlementViews(settlement).parked(job, record.claim_hash) == claims.CONVICTED
            ):
                paid = plan.fee
            else:
                slashed = auditor.bond * FALSE_BPS // numbers.BPS
        elif false_leaf == 0 or leaf < false_leaf:
            paid = plan.fee
        elif opened and leaf == false_leaf:
            # It vouched for the very root that a dispute found false.
            slashed = auditor.bond * FALSE_BPS // numbers.BPS
    self._store_budget(job, plan.balance + plan.fee - paid, plan.reserved - plan.fee)
    to_opener: uint256 = slashed * OPENER_BPS // numbers.BPS
    auditor.bond -= slashed
    self._store_auditor(operator, auditor)
    self.bonded -= slashed
    self.burned += slashed - to_opener
    self.owed[zen][record.opener] += to_opener
    self.attestations[job][turn][unit][operator].status = SETTLED
    log AttestationSettled(job=job, operator=operator, turn=turn, unit=unit, paid=paid, slashed=slashed)
    if paid == 0:
        return
    token: address = (staticcall ITaskViews(tasks).jobs(job)).token
    self.owed[token][staticcall INodeRegistry(registry).owner_of(operator)] += paid
    if token == zen:
        # From the slot-round's start to the leaf: what it takes to find the root.
        flops: uint256 = (staticcall ISettlementViews(settlement).runs(job)).flops
        extcall IRewards(rewards).record_verification(operator, job, flops * leaf // plan.segments)


@external
def withdraw(token: address, account: address) -> uint256:
    """
    @notice Sends an account what it is owed.
    """
    amount: uint256 = self.owed[token][account]
    assert amount > 0, "audits: nothing owed"
    self.owed[token][account] = 0
    log Withdrawn(token=token, account=account, amount=amount)
    assert extcall IERC20(token).transfer(account, amount, default_return_value=True), "audits: transfer failed"
    return amount


@external
@view
def plans(job: uint256) -> Plan:
    """
    @notice What is offered for a job's audits, and what is left to pay them with.
    """
    return self._plan(job)


@external
@view
def draws(job: uint256, turn: uint256) -> Draw:
    """
    @notice A turn's draw.
    """
    return self._draw(job, turn)


@external
@view
def auditors(operator: uint256) -> Auditor:
    """
    @notice An operator as an auditor.
    """
    return self._auditor(operator)


@external
@view
def is_drawn(job: uint256, turn: uint256, unit: uint256) -> bool:
    """
    @notice Whether a unit is to be audited; of a turn that is not drawn, never.
    """
    draw: Draw = self._draw(job, turn)
    return draw.drawn_at != 0 and self._is_drawn(draw, self._plan(job).rate_bps, unit)


@external
@view
def is_selected(job: uint256, turn: uint256, unit: uint256, operator: uint256) -> bool:
    """
    @notice Whether an auditor may attest a unit in the first half of the time for it.
    """
    draw: Draw = self._draw(job, turn)
    auditor: Auditor = self._auditor(operator)
    return (
        draw.drawn_at != 0
        and auditor.since < draw.scheduled_at
        and self._is_selected(draw, unit, operator, auditor.bond)
    )


@internal
@pure
def _is_drawn(draw: Draw, rate_bps: uint256, unit: uint256) -> bool:
    return draw.stale or convert(keccak256(abi_encode(draw.seed, unit)), uint256) % numbers.BPS < rate_bps


@internal
@pure
def _is_selected(draw: Draw, unit: uint256, operator: uint256, bond: uint256) -> bool:
    """
    @dev With probability PLACES * bond / bonded, so that PLACES auditors are selected on average whoever they are: to split a
         bond among many operators changes nothing. 128 bits of hash against amounts below 2^127 cannot overflow.
    """
    ticket: uint256 = convert(keccak256(abi_encode(draw.seed, unit, operator)), uint256) >> 128
    return draw.stale or ticket * draw.bonded < (PLACES * bond) << 128


@internal
@view
def _plan(job: uint256) -> Plan:
    offer: uint256 = self.offers[job]
    budget: uint256 = self.budgets[job]
    return Plan(
        fee=offer >> 48,
        rate_bps=offer >> 32 & bits.U16,
        segments=offer & bits.U32,
        balance=budget >> 128,
        reserved=budget & bits.U128,
    )


@internal
def _store_budget(job: uint256, balance: uint256, reserved: uint256):
    self.budgets[job] = (
        convert(convert(balance, uint128), uint256) << 128 | convert(convert(reserved, uint128), uint256)
    )


@internal
@view
def _auditor(operator: uint256) -> Auditor:
    word: uint256 = self.auditor_words[operator]
    return Auditor(bond=word >> 80, since=word >> 40 & bits.U40, open=word & bits.U40)


@internal
def _store_auditor(operator: uint256, auditor: Auditor):
    # Bonds are ZEN, of which there are fewer than 2^96; nobody can open 2^40 attestations.
    self.auditor_words[operator] = (
        convert(convert(auditor.bond, uint96), uint256) << 80
        | convert(convert(auditor.since, uint40), uint256) << 40
        | auditor.open
    )


@internal
@view
def _draw(job: uint256, turn: uint256) -> Draw:
    word: uint256 = self.draw_words[job][turn]
    return Draw(
        scheduled_at=word >> 144 & bits.U40,
        block=word >> 80 & bits.U64,
        drawn_at=word >> 40 & bits.U40,
        window_s=word >> 8 & bits.U32,
        stale=word & 1 == 1,
        bonded=self.draw_bonds[job][turn],
        seed=self.seeds[job][turn],
    )


@internal
@pure
def _pack_draw(
    scheduled_at: uint256, number: uint256, drawn_at: uint256, window_s: uint256, stale: bool
) -> uint256:
    return (
        convert(convert(scheduled_at, uint40), uint256) << 144
        | convert(convert(number, uint64), uint256) << 80
        | convert(convert(drawn_at, uint40), uint256) << 40
        | convert(convert(window_s, uint32), uint256) << 8
        | convert(stale, uint256)
    )
