# pragma version ==0.4.3
# pragma nonreentrancy on
"""
@title Draws of units in Audits
@license Apache-2.0
@notice Which units of a turn are audited, and by which places, by a block that was named after the work was committed.
"""


from ..interfaces import ISettlementViews
from ..interfaces import ITaskRegistry
from . import audit_money as money
from . import audit_places
from . import audit_state as state
from . import bits
from . import chance
from . import numbers
from . import protocol_time


uses: state
uses: money
uses: audit_places


# Whose turn it is: the unit's auditor in the first half of what is left of the window, its replacement in the second.
AUDITOR: constant(uint256) = 0
REPLACEMENT: constant(uint256) = 1
# Places that a unit's ticket names: the claim's own operator, and one named twice, are passed over.
CANDIDATES: constant(uint256) = 4
U56: constant(uint256) = 2**56 - 1


struct Draw:
    # The block whose hash draws; when it was named, among how many places.
    block: uint256
    named_at: uint256
    places: uint256
    # Of the turn's claims.
    deadline: uint256
    rate_bps: uint256
    is_drawn: bool
    seed: bytes32


# job -> turn -> block (64) | named_at (40) | deadline (40) | places (32) | rate_bps (16) | drawn (1)
draw_words: HashMap[uint256, HashMap[uint256, uint256]]
# job -> turn -> what all choices of the turn follow from
seeds: HashMap[uint256, HashMap[uint256, bytes32]]


event DrawNamed:
    job: indexed(uint256)
    turn: uint256
    block: uint256


event UnitsDrawn:
    job: indexed(uint256)
    turn: uint256
    seed: bytes32


@external
def draw_units(job: uint256, turn: uint256):
    """
    @notice Draws the units of a closed turn, in two calls. The first names the next block; the second, once that block is buried, reads
            its hash. A hash too old for the chain to know is given up: the call names another block.
    """
    draw: Draw = self._draw(job, turn)
    assert not draw.is_drawn, "audits: already drawn"
    if draw.block != 0:
        assert block.number > draw.block + state.draw_blocks, "audits: draw block not buried"
        found: bytes32 = chance._hash_of(draw.block)
        if found != empty(bytes32):
            seed: bytes32 = keccak256(abi_encode(found, job, turn))
            self.draw_words[job][turn] |= 1
            self.seeds[job][turn] = seed
            log UnitsDrawn(job=job, turn=turn, seed=seed)
            return
    assert money.budget_words[job] != 0, "audits: nothing funded"
    places: uint256 = audit_places.place_count
    assert places > 0, "audits: no auditors"
    deadline: uint256 = staticcall ISettlementViews(state.settlement).claim_deadline(job, turn)
    assert deadline != max_value(uint256), "audits: turn still open"
    now: uint256 = protocol_time._now(state.registry)
    assert now < deadline, "audits: window over"
    number: uint256 = block.number + 1
    self.draw_words[job][turn] = (
        convert(convert(number, uint64), uint256) << 192
        | convert(convert(now, uint40), uint256) << 152
        | convert(convert(deadline, uint40), uint256) << 112
        | convert(convert(places, uint32), uint256) << 80
        | (staticcall ITaskRegistry(state.tasks).schedules(job)).audit_bps << 64
    )
    log DrawNamed(job=job, turn=turn, block=number)


@external
@view
def draws(job: uint256, turn: uint256) -> Draw:
    """
    @notice A turn's draw.
    """
    return self._draw(job, turn)


@external
@view
def assigned(job: uint256, turn: uint256, unit: uint256, author: uint256, role: uint256) -> uint256:
    """
    @notice Whom a unit of an operator's claim falls to; 0 where it is not drawn, or falls to nobody.
    """
    draw: Draw = self._draw(job, turn)
    if not draw.is_drawn:
        return 0
    return self._assigned(draw, unit, author, role)


@internal
@view
def _assigned(draw: Draw, unit: uint256, author: uint256, role: uint256) -> uint256:
    """
    @dev The lowest 32 bits of the ticket say whether the unit is drawn, 56 more each name a place: what a remainder favours is nothing.
    """
    ticket: uint256 = convert(keccak256(abi_encode(draw.seed, unit)), uint256)
    if (ticket & bits.U32) % numbers.BPS >= draw.rate_bps:
        return 0
    auditor: uint256 = 0
    for i: uint256 in range(CANDIDATES):
        place: uint256 = (ticket >> 32 + 56 * i & U56) % draw.places
        candidate: uint256 = audit_places._holder(place, draw.named_at)
        if candidate == 0 or candidate == author or candidate == auditor:
            continue
        if role == AUDITOR or auditor != 0:
            return candidate
        auditor = candidate
    return 0


@internal
@view
def _draw(job: uint256, turn: uint256) -> Draw:
    word: uint256 = self.draw_words[job][turn]
    return Draw(
        block=word >> 192,
        named_at=word >> 152 & bits.U40,
        places=word >> 80 & bits.U32,
        deadline=word >> 112 & bits.U40,
        rate_bps=word >> 64 & bits.U16,
        is_drawn=word & 1 == 1,
        seed=self.seeds[job][turn],
    )
