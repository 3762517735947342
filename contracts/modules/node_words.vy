# pragma version ==0.4.3
# pragma nonreentrancy on
"""
@title The storage words of NodeRegistry
@license Apache-2.0
@notice What is kept of an operator (a node, an account and a declaration), and of its collateral in a token.
@dev What a bid asks of an operator is in the node's word alone; what it writes is the collateral's word alone.
"""


from . import bits


# Stake is kept in units of 10^12 smallest units of ZEN, so that it shares a word with the hot key.
STAKE_UNIT: constant(uint256) = 10**12
# Reputation is kept in thousandths of a point; one is a fee of a thousandth of a ZEN.
PARTS_A_POINT: constant(uint256) = 1_000
REPUTATION_UNIT: constant(uint256) = 10**15
# In the collateral's word: one lot, and that the token is among those `withdraw_stake` looks through.
ONE_LOT: constant(uint256) = 2
LISTED: constant(uint256) = 1
U31: constant(uint256) = 2**31 - 1
# Masks of an account's fields.
U20: constant(uint256) = 2**20 - 1
U3: constant(uint256) = 2**3 - 1


# hot (160) | stake (64) | tokens (8) | is_exiting (1)
struct Node:
    hot: address
    # In STAKE_UNITs.
    stake: uint256
    # In which anything was ever locked.
    tokens: uint256
    is_exiting: bool


# owner (160) | reputation (20) | halved_at (16) | exit_at (40) | class (3) | vram_gb (16) | is_admitted (1)
struct Account:
    owner: address
    # In thousandths of a point, when it was written.
    reputation: uint256
    # How many times reputations had halved by then, modulo 2^16.
    halved_at: uint256
    exit_at: uint256
    gpu_class: uint256
    vram_gb: uint256
    # Whether it earns its class's multiplier.
    is_admitted: bool


# region (32) | barred_from (40) | the newest declaration, in force from epoch `since` on, and the one before it: each tier (8) | hours (24)
# | since (40)
struct Declaration:
    tier: uint256
    hours: uint256
    since: uint256
    last_tier: uint256
    last_hours: uint256
    last_since: uint256
    # From this epoch on no tier binds that was declared for an epoch before it; 0: none was lost by a breach.
    barred_from: uint256
    # Where it says it is: four letters, of a region and of a country in it. Binds from when it is said, and nobody checks it.
    region: uint256


# balance (112) | locked (112) | lots (31) | is_listed (1)
struct Collateral:
    balance: uint256
    locked: uint256
    # Bids and seats it is locked behind.
    lots: uint256
    is_listed: bool


@internal
@pure
def _pack_node(node: Node) -> uint256:
    # Each conversion to a narrower type reverts when the value does not fit.
    return (
        convert(node.hot, uint256) << 96
        | convert(convert(node.stake, uint64), uint256) << 32
        | convert(convert(node.tokens, uint8), uint256) << 8
        | convert(node.is_exiting, uint256)
    )


@internal
@pure
def _unpack_node(word: uint256) -> Node:
    return Node(
        hot=convert(word >> 96, address),
        stake=word >> 32 & bits.U64,
        tokens=word >> 8 & bits.U8,
        is_exiting=word & 1 != 0,
    )


@internal
@pure
def _is_eligible(word: uint256, hot: address, least_stake: uint256) -> bool:
    """
    @notice Whether the hot key matches, no exit is requested and the stake is enough. No operator has the word 0.
    """
    return (
        word != 0
        and word >> 96 == convert(hot, uint256)
        and word & 1 == 0
        # At most 2^64 * 10^12.
        and unsafe_mul(word >> 32 & bits.U64, STAKE_UNIT) >= least_stake
    )


@internal
@pure
def _pack_account(account: Account) -> uint256:
    return (
        convert(account.owner, uint256) << 96
        # At most a million, below 2^20; masked to 16 bits; classes are 1 to 4.
        | account.reputation << 76
        | account.halved_at << 60
        | convert(convert(account.exit_at, uint40), uint256) << 20
        | account.gpu_class << 17
        | convert(convert(account.vram_gb, uint16), uint256) << 1
        | convert(account.is_admitted, uint256)
    )


@internal
@pure
def _unpack_account(word: uint256) -> Account:
    return Account(
        owner=convert(word >> 96, address),
        reputation=word >> 76 & U20,
        halved_at=word >> 60 & bits.U16,
        exit_at=word >> 20 & bits.U40,
        gpu_class=word >> 17 & U3,
        vram_gb=word >> 1 & bits.U16,
        is_admitted=word & 1 != 0,
    )


@internal
@pure
def _pack_declaration(declaration: Declaration) -> uint256:
    # Tier, hours and region were checked; epochs are counted by the block's timestamp.
    return (
        declaration.region << 184
        | declaration.barred_from << 144
        | declaration.tier << 136
        | declaration.hours << 112
        | convert(convert(declaration.since, uint40), uint256) << 72
        | declaration.last_tier << 64
        | declaration.last_hours << 40
        | declaration.last_since
    )


@internal
@pure
def _unpack_declaration(word: uint256) -> Declaration:
    return Declaration(
        tier=word >> 136 & bits.U8,
        hours=word >> 112 & bits.U24,
        since=word >> 72 & bits.U40,
        last_tier=word >> 64 & bits.U8,
        last_hours=word >> 40 & bits.U24,
        last_since=word & bits.U40,
        barred_from=word >> 144 & bits.U40,
        region=word >> 184,
    )


@internal
@pure
def _pack_collateral(collateral: Collateral) -> uint256:
    return (
        convert(convert(collateral.balance, uint112), uint256) << 144
        | convert(convert(collateral.locked, uint112), uint256) << 32
        # Counted one by one, each lot paid for.
        | collateral.lots << 1
        | convert(collateral.is_listed, uint256)
    )


@internal
@pure
def _unpack_collateral(word: uint256) -> Collateral:
    return Collateral(
        balance=word >> 144, locked=word >> 32 & bits.U112, lots=word >> 1 & U31, is_listed=word & LISTED != 0
    )
