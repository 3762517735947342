# pragma version ==0.4.3
# pragma nonreentrancy on
"""
@title Consent to a registration, by EIP-712
@license Apache-2.0
@notice What an operator's owner and its hot key both sign, so that a sponsor may register them.
@dev The domain is built at each use: it binds the chain, also one that forks off, and the contract.
"""


DOMAIN_TYPE: constant(bytes32) = keccak256(
    "EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)"
)
NAME: constant(bytes32) = keccak256("Zoo NodeRegistry")
VERSION: constant(bytes32) = keccak256("1")
REGISTRATION_TYPE: constant(bytes32) = keccak256(
    "Registration(address owner,address hot,uint256 gpu_class,uint256 vram_gb,uint256 stake,string endpoint,uint256 nonce,uint256 deadline)"
)
# Half the order of secp256k1: the other of the two `s` that verify is refused (EIP-2).
MOST_S: constant(uint256) = 57896044618658097711785492504343953926418782139537452191302581570759080747168


@internal
@view
def _digest(
    owner: address,
    hot: address,
    gpu_class: uint256,
    vram_gb: uint256,
    stake: uint256,
    endpoint: String[128],
    nonce: uint256,
    deadline: uint256,
) -> bytes32:
    domain: bytes32 = keccak256(abi_encode(DOMAIN_TYPE, NAME, VERSION, chain.id, self))
    message: bytes32 = keccak256(
        abi_encode(
            REGISTRATION_TYPE, owner, hot, gpu_class, vram_gb, stake, keccak256(endpoint), nonce, deadline
        )
    )
    return keccak256(concat(x"1901", domain, message))


@internal
@view
def _has_signed(signer: address, digest: bytes32, signature: Bytes[65]) -> bool:
    """
    @notice Whether `signature` is `r | s | v` of the digest by the signer, who is not the zero address.
    """
    if len(signature) != 65 or signer == empty(address):
        return False
    r: uint256 = convert(slice(signature, 0, 32), uint256)
    s: uint256 = convert(slice(signature, 32, 32), uint256)
    v: uint256 = convert(slice(signature, 64, 1), uint256)
    # `ecrecover` gives the zero address for any other `v`, and for points that are none.
    return s <= MOST_S and ecrecover(digest, v, r, s) == signer
