# pragma version ==0.4.3
# pragma nonreentrancy on
"""
@title What asks and answers show
@license Apache-2.0
@notice The openings of docs/protocol/referee.md, and what they lead to.
"""


from . import bits
from . import merkle
from . import numbers


# The most that one answer shows, six levels down: `exploration._span`.
CHILDREN: constant(uint256) = 64
MAX_SPAN: constant(uint256) = 6
WORD_BYTES: constant(uint256) = 4
WORDS_A_LEAF: constant(uint256) = 128
MAX_DESCRIPTOR: constant(uint256) = 2048
# Of a descriptor, before its extents: operator, dtype, rank, reduced rank, operands, attributes.
DTYPE_AT: constant(uint256) = 4
RANK_AT: constant(uint256) = 8
EXTENTS_AT: constant(uint256) = 24
MAX_RANK: constant(uint256) = 8
# Tags of hashes, beside those of `merkle`.
DESCRIPTOR_TAG: constant(bytes1) = 0x05
PROGRAM_TAG: constant(bytes1) = 0x07
TRACE_TAG: constant(bytes1) = 0x08
WORK_TAG: constant(bytes1) = 0x09


# Training, the update, and what each aggregator executes.
MAX_PROGRAMS: constant(uint256) = 2 + numbers.MAX_AGGREGATORS


# A job's programs and the shape of a slot-round: what its work root commits to.
struct Work:
    programs: DynArray[bytes32, MAX_PROGRAMS]
    inner_steps: uint256
    segment_steps: uint256
    rows: uint256
    # Rounds from one restart of private state to the next.
    carry: uint256


# What a slot's result leaf is made of besides the claim's `start_root`, and the path from it to the claim's root.
struct Result:
    segment_root: bytes32
    end_root: bytes32
    update_root: bytes32
    path: DynArray[bytes32, merkle.MAX_DEPTH]


# Opens a program's root. Head: version, nodes, state entries, batch entries, loss node, four bytes each.
struct Program:
    head: bytes20
    entries: bytes32
    nodes: bytes32


# The states before and after a leaf of a tree of states; the path is that of the leaf before.
struct States:
    before: bytes32
    after: bytes32
    path: DynArray[bytes32, merkle.MAX_DEPTH]


# The tree of the states in one segment.
struct Steps:
    root: bytes32
    first_path: DynArray[bytes32, merkle.MAX_DEPTH]
    last_path: DynArray[bytes32, merkle.MAX_DEPTH]
    children: DynArray[bytes32, CHILDREN]


# The tree of a step's nodes.
struct Trace:
    root: bytes32
    program: Program
    children: DynArray[bytes32, CHILDREN]


@internal
@pure
def _big_endian(number: uint256) -> bytes4:
    return convert(convert(number, uint32), bytes4)


@internal
@pure
def _work_root(work: Work) -> bytes32:
    aggregation: bytes32 = work.programs[2]
    for i: uint256 in range(3, len(work.programs), bound=MAX_PROGRAMS):
        aggregation = merkle._parent(aggregation, work.programs[i])
    return sha256(
        concat(
            WORK_TAG,
            work.programs[0],
            work.programs[1],
            aggregation,
            self._big_endian(work.inner_steps),
            self._big_endian(work.segment_steps),
            self._big_endian(work.rows),
            self._big_endian(work.carry),
        )
    )


@internal
@pure
def _program_root(program: Program) -> bytes32:
    return sha256(concat(PROGRAM_TAG, program.head, program.entries, program.nodes))


@internal
@pure
def _node_count(program: Program) -> uint256:
    return convert(program.head, uint256) >> 96 & bits.U32


@internal
@pure
def _state_count(program: Program) -> uint256:
    return convert(program.head, uint256) >> 64 & bits.U32


@internal
@pure
def _descriptor_leaf(descriptor: Bytes[MAX_DESCRIPTOR]) -> bytes32:
    return sha256(concat(DESCRIPTOR_TAG, descriptor))


@internal
@pure
def _trace_leaf(node: uint256, tensor_root: bytes32) -> bytes32:
    return sha256(concat(TRACE_TAG, merkle._little_endian(node), tensor_root))


@internal
@pure
def _head(descriptor: Bytes[MAX_DESCRIPTOR]) -> (Bytes[merkle.MAX_HEAD], uint256):
    """
    @notice What a tensor's root begins with, and its elements. A node has at most eight axes.
    """
    rank: uint256 = convert(slice(descriptor, RANK_AT, 4), uint256)
    count: uint256 = 1
    # Dimensions as eight little-endian bytes each: the upper four are zero.
    lanes: uint256[2] = [0, 0]
    for axis: uint256 in range(rank, bound=MAX_RANK):
        extent: uint256 = convert(slice(descriptor, EXTENTS_AT + 4 * axis, 4), uint256)
        count *= extent
        lanes[axis // 4] |= convert(merkle._little_endian(extent), uint256) << 224 - 64 * (axis % 4)
    # The lowest byte of each: rank and dtype codes are below 256 in every program that nodes accept.
    dtype: Bytes[1] = slice(descriptor, DTYPE_AT + 3, 1)
    axes: Bytes[1] = slice(descriptor, RANK_AT + 3, 1)
    whole: Bytes[merkle.MAX_HEAD] = concat(
        dtype, axes, convert(lanes[0], bytes32), convert(lanes[1], bytes32)
    )
    return slice(whole, 0, 2 + 8 * rank), count


@internal
@pure
def _root(children: DynArray[bytes32, CHILDREN]) -> bytes32:
    """
    @notice The root of a power of two of nodes.
    """
    level: DynArray[bytes32, CHILDREN] = children
    width: uint256 = len(children)
    for _: uint256 in range(MAX_SPAN):
        width = width >> 1
        for i: uint256 in range(width, bound=CHILDREN // 2):
            level[i] = sha256(concat(0x01, level[unsafe_mul(2, i)], level[unsafe_add(unsafe_mul(2, i), 1)]))
    return level[0]


@internal
@pure
def _word(leaf: Bytes[merkle.LEAF_BYTES], number: uint256) -> Bytes[WORD_BYTES]:
    return slice(leaf, WORD_BYTES * (number % WORDS_A_LEAF), WORD_BYTES)
