# pragma version ==0.4.3
# pragma nonreentrancy on
"""
@title Openings that ConsistencyProofs reads
@license Apache-2.0
@notice The structs of docs/protocol/evidence.md, of the kinds 1 to 7, and what they lead to.
"""


from ..interfaces import IEvidence
from ..interfaces import ISettlementViews
from . import merkle
from . import openings


MAX_ENTRY: constant(uint256) = 272
MAX_PRESENT: constant(uint256) = 128
ENTRY_TAG: constant(bytes1) = 0x06
# Where the name of an entry begins, after its length: behind kind, before and after of the state's, the batch's node.
STATE_NAME_AT: constant(uint256) = 12
BATCH_NAME_AT: constant(uint256) = 4
# In `updates/FIRST/NAME`: decimal digits.
FIRST_AT: constant(uint256) = 8
FIRST_DIGITS: constant(uint256) = 10
ZERO_DIGIT: constant(uint256) = 48


# An entry of the disputed program.
struct Entry:
    program: openings.Program
    data: Bytes[MAX_ENTRY]
    path: DynArray[bytes32, merkle.MAX_DEPTH]


# A tensor of a state, and its place among the names there.
struct Tensor:
    root: bytes32
    index: uint256
    path: DynArray[bytes32, merkle.MAX_DEPTH]


# A leaf of a tensor of a state.
struct Words:
    head: Bytes[merkle.MAX_HEAD]
    leaf: Bytes[merkle.LEAF_BYTES]
    leaf_path: DynArray[bytes32, merkle.MAX_DEPTH]
    index: uint256
    path: DynArray[bytes32, merkle.MAX_DEPTH]


# A claim of slots; turn and round are the aggregation's.
struct Present:
    seat: uint256
    operator: uint256
    scope: uint256
    price: uint256
    start_root: bytes32
    root: bytes32


struct End:
    state: bytes32
    path: DynArray[bytes32, merkle.MAX_DEPTH]


# From `claim` on: the disputed one, what Settlement keeps of the aggregation of the turn before, claims in its mask, and the
# slot's result in the one that holds it.
struct Begin:
    entry: Entry
    tensor: Tensor
    descriptor: Bytes[openings.MAX_DESCRIPTOR]
    path: DynArray[bytes32, merkle.MAX_DEPTH]
    claim: ISettlementViews.Claim
    aggregation: ISettlementViews.Claim
    present: DynArray[Present, MAX_PRESENT]
    result: openings.Result


struct Output:
    entry: Entry
    root: bytes32
    path: DynArray[bytes32, merkle.MAX_DEPTH]


struct Input:
    descriptor: Bytes[openings.MAX_DESCRIPTOR]
    entry: Entry
    tensor: Tensor


struct ConstantNode:
    descriptor: Bytes[openings.MAX_DESCRIPTOR]


struct Data:
    descriptor: Bytes[openings.MAX_DESCRIPTOR]
    entry: Entry
    leaf: Bytes[merkle.LEAF_BYTES]
    element: uint256
    is_tokens: bool
    words: Words


struct Update:
    descriptor: Bytes[openings.MAX_DESCRIPTOR]
    entry: Entry
    leaf: Bytes[merkle.LEAF_BYTES]
    element: uint256
    claim: ISettlementViews.Claim
    present: DynArray[Present, MAX_PRESENT]
    result: openings.Result
    words: Words


@internal
@pure
def _number(data: Bytes[openings.MAX_DESCRIPTOR], at: uint256) -> uint256:
    """
    @notice Four big-endian bytes of an entry or a descriptor.
    """
    return convert(slice(data, at, 4), uint256)


@internal
@pure
def _name(entry: Entry, at: uint256) -> Bytes[MAX_ENTRY]:
    return slice(entry.data, at + 4, self._number(entry.data, at))


@internal
@pure
def _first(name: Bytes[MAX_ENTRY]) -> uint256:
    """
    @notice Which word of its tensor a batch of an aggregation begins with, by its name.
    """
    first: uint256 = 0
    for i: uint256 in range(FIRST_DIGITS):
        first = 10 * first + convert(slice(name, FIRST_AT + i, 1), uint256) - ZERO_DIGIT
    return first


@internal
@pure
def _check_entry(frame: IEvidence.Frame, entry: Entry, number: uint256):
    assert openings._program_root(entry.program) == frame.program_root, "evidence: other program"
    leaf: bytes32 = sha256(concat(ENTRY_TAG, entry.data))
    assert merkle._climb(leaf, number, entry.path) == entry.program.entries, "evidence: other entry"


@internal
@pure
def _check_descriptor(frame: IEvidence.Frame, descriptor: Bytes[openings.MAX_DESCRIPTOR]):
    assert keccak256(descriptor) == frame.descriptor, "evidence: other descriptor"


@internal
@pure
def _check_tensor(state: bytes32, name: Bytes[MAX_ENTRY], tensor: Tensor):
    """
    @notice That a state holds the tensor under its name.
    """
    leaf: bytes32 = merkle._state_leaf(name, tensor.root)
    assert merkle._climb(leaf, tensor.index, tensor.path) == state, "evidence: state does not match"


@internal
@pure
def _word_of(state: bytes32, name: Bytes[MAX_ENTRY], words: Words, number: uint256) -> bytes4:
    """
    @notice Word `number` of the tensor of a state, as it is committed.
    """
    elements: bytes32 = merkle._climb(
        merkle._leaf(words.leaf), number // openings.WORDS_A_LEAF, words.leaf_path
    )
    root: bytes32 = merkle._tensor_root(words.head, elements)
    self._check_tensor(state, name, Tensor(root=root, index=words.index, path=words.path))
    return self._word(words.leaf, number)


@internal
@pure
def _shown(position: IEvidence.Position, leaf: Bytes[merkle.LEAF_BYTES], element: uint256) -> bytes4:
    """
    @notice The disputed word, as it is committed in the shown leaf.
    """
    assert merkle._leaf(leaf) == position.open_leaf, "evidence: bytes do not match"
    assert element // openings.WORDS_A_LEAF == position.index, "evidence: no such element"
    return self._word(leaf, element)


@internal
@pure
def _word(leaf: Bytes[merkle.LEAF_BYTES], number: uint256) -> bytes4:
    at: uint256 = openings.WORD_BYTES * (number % openings.WORDS_A_LEAF)
    assert at < len(leaf), "evidence: no such element"
    return convert(slice(leaf, at, openings.WORD_BYTES), bytes4)


@internal
@pure
def _extent(head: Bytes[merkle.MAX_HEAD], axis: uint256) -> uint256:
    """
    @notice A dimension from a tensor's head: eight bytes, the lowest first.
    """
    extent: uint256 = 0
    for i: uint256 in range(8):
        extent |= convert(slice(head, 2 + 8 * axis + i, 1), uint256) << 8 * i
    return extent


@internal
@pure
def _float32(number: uint256) -> bytes4:
    """
    @notice A number from 1 to 2^24 as a float32, as it is committed.
    """
    exponent: uint256 = 0
    for i: uint256 in range(24):
        if number >> i + 1 == 0:
            break
        exponent = i + 1
    fraction: uint256 = (number << 23 - exponent) - (1 << 23)
    return merkle._little_endian((127 + exponent) << 23 | fraction)
