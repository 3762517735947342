# pragma version ==0.4.3
# pragma nonreentrancy on
"""
@title What custodians sign, by EIP-712
@license Apache-2.0
@dev The domain is built at each use: it binds the chain, also one that forks off, and the contract. Signatures are compact
     (EIP-2098): the top bit of `vs` is the parity, the rest `s`.
"""


DOMAIN_TYPE: constant(bytes32) = keccak256(
    "EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)"
)
NAME: constant(bytes32) = keccak256("Zoo Custody")
VERSION: constant(bytes32) = keccak256("1")
START_TYPE: constant(bytes32) = keccak256("Start(uint256 job)")
INPUTS_TYPE: constant(bytes32) = keccak256("Inputs(uint256 job,uint256 turn,uint256 seats)")
CHECKPOINT_TYPE: constant(bytes32) = keccak256(
    "Checkpoint(uint256 job,uint256 turn,uint256 seat,bytes32 root,bytes32 cid)"
)
# Half the order of secp256k1: the other of the two `s` that verify is refused (EIP-2).
MOST_S: constant(uint256) = 57896044618658097711785492504343953926418782139537452191302581570759080747168
PARITY_AT: constant(uint256) = 255


# The custodian at place `index` holds the update and the bundle of each of these seats.
struct InputsSignature:
    index: uint256
    seats: uint256
    r: bytes32
    vs: bytes32


struct Signature:
    index: uint256
    r: bytes32
    vs: bytes32


@internal
@view
def _domain() -> bytes32:
    return keccak256(abi_encode(DOMAIN_TYPE, NAME, VERSION, chain.id, self))


@internal
@pure
def _start_digest(domain: bytes32, job: uint256) -> bytes32:
    return self._digest(domain, keccak256(abi_encode(START_TYPE, job)))


@internal
@pure
def _inputs_digest(domain: bytes32, job: uint256, turn: uint256, seats: uint256) -> bytes32:
    return self._digest(domain, keccak256(abi_encode(INPUTS_TYPE, job, turn, seats)))


@internal
@pure
def _checkpoint_message(job: uint256, turn: uint256, seat: uint256, root: bytes32, cid: bytes32) -> bytes32:
    """
    @notice What is signed, without the domain.
    """
    return keccak256(abi_encode(CHECKPOINT_TYPE, job, turn, seat, root, cid))


@internal
@pure
def _digest(domain: bytes32, message: bytes32) -> bytes32:
    return keccak256(concat(x"1901", domain, message))


@internal
@view
def _has_signed(key: uint256, digest: bytes32, r: bytes32, vs: bytes32) -> bool:
    """
    @notice Whether the signature is the key's. The key of a vacant place is zero: it has signed nothing.
    """
    compact: uint256 = convert(vs, uint256)
    s: uint256 = compact & (1 << PARITY_AT) - 1
    return (
        key != 0
        and s <= MOST_S
        and ecrecover(digest, 27 + (compact >> PARITY_AT), convert(r, uint256), s) == convert(key, address)
    )
