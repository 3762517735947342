# pragma version ==0.4.3
# pragma nonreentrancy on
"""
@title Places of auditors in Audits
@license Apache-2.0
@notice Units fall to an operator by its share of all places. Each place is behind the same bond, and remembers its holders.
"""


from ..interfaces import INodeRegistry
from . import audit_money as money
from . import audit_state as state
from . import bits
from . import protocol_time


uses: state
uses: money


MAX_PLACES: constant(uint256) = 32
MAX_HOLDERS: constant(uint256) = 256


place_count: public(uint256)
# place -> operator (56) | since (40) | changes before (32)
place_words: HashMap[uint256, uint256]
# place -> number of a change -> the word that it had until then
past_words: HashMap[uint256, HashMap[uint256, uint256]]
# operator -> places
held: public(HashMap[uint256, uint256])


event PlacesChanged:
    operator: indexed(uint256)
    held: uint256
    places: uint256


@external
def offer(operator: uint256, count: uint256):
    """
    @notice Takes places, each behind a bond from the operator's deposit: units fall to it by its share of all places, in draws whose
            block is named later.
    """
    state._check_owner(operator)
    assert count > 0 and count <= MAX_PLACES, "audits: places out of range"
    hot: address = staticcall INodeRegistry(state.registry).hot_key(operator)
    assert staticcall INodeRegistry(state.registry).is_eligible(operator, hot), "audits: not eligible"
    money._reserve(operator, state.zen, count * state.place_bond)
    places: uint256 = self.place_count
    for i: uint256 in range(count, bound=MAX_PLACES):
        self._change(places + i, operator)
    self.place_count = places + count
    self._hold(operator, self.held[operator] + count)


@external
def leave(operator: uint256, places: DynArray[uint256, MAX_PLACES]):
    """
    @notice Gives places up, one after the other; the last place there is moves to where each was. Who was drawn before stays drawn.
    """
    state._check_owner(operator)
    assert len(places) > 0, "audits: places out of range"
    last: uint256 = self.place_count
    for place: uint256 in places:
        assert place < last and self._operator_of(self.place_words[place]) == operator, "audits: not its place"
        last -= 1
        if place != last:
            self._change(place, self._operator_of(self.place_words[last]))
        self._change(last, 0)
    self.place_count = last
    money._release(operator, state.zen, len(places) * state.place_bond, 0)
    self._hold(operator, self.held[operator] - len(places))


@external
@view
def holders(start: uint256, count: uint256, at: uint256) -> DynArray[uint256, MAX_HOLDERS]:
    """
    @notice The operators of `count` places from `start` on, just before a second.
    """
    found: DynArray[uint256, MAX_HOLDERS] = []
    for i: uint256 in range(count, bound=MAX_HOLDERS):
        found.append(self._holder(start + i, at))
    return found


@internal
@view
def _holder(place: uint256, at: uint256) -> uint256:
    """
    @notice Who held a place just before a second: whoever takes or leaves it in that second or later changes nothing.
    """
    word: uint256 = self.place_words[place]
    # Whoever changed a place so often within one window paid for each change; then it counts as nobody's.
    for _: uint256 in range(MAX_HOLDERS):
        if word >> 32 & bits.U40 < at:
            return self._operator_of(word)
        changes: uint256 = word & bits.U32
        if changes == 0:
            break
        word = self.past_words[place][changes - 1]
    return 0


@internal
def _change(place: uint256, operator: uint256):
    word: uint256 = self.place_words[place]
    changes: uint256 = 0
    if word != 0:
        changes = (word & bits.U32) + 1
        self.past_words[place][changes - 1] = word
    self.place_words[place] = (
        convert(convert(operator, uint56), uint256) << 72 | protocol_time._now(state.registry) << 32 | changes
    )


@internal
@pure
def _operator_of(word: uint256) -> uint256:
    return word >> 72


@internal
def _hold(operator: uint256, count: uint256):
    self.held[operator] = count
    log PlacesChanged(operator=operator, held=count, places=self.place_count)
