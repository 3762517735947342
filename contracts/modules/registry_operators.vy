# pragma version ==0.4.3
# pragma nonreentrancy on
"""
@title Registration, admission and reputation in NodeRegistry
@license Apache-2.0
"""


from . import consent
from . import gpu_classes
from . import node_words as words
from . import numbers
from . import registry_collateral as collateral
from . import registry_state as state


uses: state
uses: collateral


MAX_VRAM_GB: constant(uint256) = 65_535
# In the census, above the count: the second until which registration is paused.
COUNT: constant(uint256) = 2**216 - 1


# May pause `register` and `register_for`, and nothing else.
guardian: public(immutable(address))


struct Operator:
    owner: address
    stake: uint256
    hot: address
    gpu_class: uint256
    vram_gb: uint256
    reputation: uint256
    locks: uint256
    exit_at: uint256


# paused until (40) | operator_count (216): operators are numbered from 1.
census: uint256
# owner -> registrations it consented to that were used
nonces: public(HashMap[address, uint256])


event OperatorRegistered:
    operator: indexed(uint256)
    owner: indexed(address)
    hot: address
    gpu_class: uint256
    vram_gb: uint256
    stake: uint256
    endpoint: String[128]


event AdmissionChanged:
    operator: indexed(uint256)
    admitted: bool


@deploy
def __init__(guardian_: address):
    guardian = guardian_


@external
def pause(until: uint256):
    """
    @notice Pauses registration, and nothing else, until a second below 2^40; one that is over resumes it.
    """
    if msg.sender != guardian:
        state._refuse("registry: not the guardian")
    self.census = until << 216 | self.census & COUNT


@external
def register(
    hot: address, gpu_class: uint256, vram_gb: uint256, stake: uint256, endpoint: String[128]
) -> uint256:
    """
    @notice Registers the caller as the owner of a new operator and pulls its stake.
    @param hot The key that bids, reveals, readies and commits.
    @param gpu_class 1 consumer, 2 professional, 3 datacenter, 4 apple silicon.
    @param vram_gb Memory of one worker, in GB.
    @param stake In 10^-18 ZEN, a multiple of 10^12.
    @param endpoint Where the operator's store serves blocks.
    @return The operator's number.
    """
    census: uint256 = self.census
    if block.timestamp < census >> 216:
        state._refuse("registry: intake paused")
    self._check_machine(hot, gpu_class, vram_gb, stake)
    return self._register((census & COUNT) + 1, msg.sender, hot, gpu_class, vram_gb, stake, endpoint)


@external
def register_for(
    owner: address,
    hot: address,
    gpu_class: uint256,
    vram_gb: uint256,
    stake: uint256,
    endpoint: String[128],
    deadline: uint256,
    owner_signature: Bytes[65],
    hot_signature: Bytes[65],
) -> uint256:
    """
    @notice Registers an operator for an owner who signed for it, as its hot key did. The caller sponsors gas and stake;
            the stake is the owner's from then on.
    @param deadline The last second at which the consent holds.
    @param owner_signature r | s | v of the EIP-712 `Registration`, with the owner's nonce.
    @param hot_signature The same, by the hot key.
    @return The operator's number.
    """
    census: uint256 = self.census
    if block.timestamp < census >> 216:
        state._refuse("registry: intake paused")
    self._check_machine(hot, gpu_class, vram_gb, stake)
    if block.timestamp > deadline:
        state._refuse("registry: consent expired")
    nonce: uint256 = self.nonces[owner]
    digest: bytes32 = consent._digest(owner, hot, gpu_class, vram_gb, stake, endpoint, nonce, deadline)
    if not consent._has_signed(owner, digest, owner_signature):
        state._refuse("registry: owner did not sign")
    if not consent._has_signed(hot, digest, hot_signature):
        state._refuse("registry: hot key did not sign")
    # INVARIANT consent: a pair of signatures registers one operator.
    self.nonces[owner] = nonce + 1
    return self._register((census & COUNT) + 1, owner, hot, gpu_class, vram_gb, stake, endpoint)


@external
def set_admitted(operator: uint256, admitted: bool):
    """
    @notice Whether the operator earns its class's multiplier.
    """
    state._check_admissions()
    account: words.Account = words._unpack_account(state.accounts[operator])
    account.is_admitted = admitted
    state.accounts[operator] = words._pack_account(account)
    log AdmissionChanged(operator=operator, admitted=admitted)


@external
def reward_outcome(operator: uint256, fee: uint256) -> address:
    """
    @notice Adds a point of reputation for each ZEN that the treasury is paid of the operator's work, up to the most.
    @param fee In 10^-18 ZEN: reputation costs what it counts. What is below a thousandth of a ZEN is left out.
    @return The operator's owner, who is paid.
    """
    if msg.sender != state.settlement:
        state._refuse("registry: not a protocol contract")
    earned: uint256 = fee // words.REPUTATION_UNIT
    account: words.Account = state._account(operator)
    if earned > 0:
        account.reputation = min(account.reputation + earned, numbers.MAX_REPUTATION * words.PARTS_A_POINT)
        state.accounts[operator] = words._pack_account(account)
    return account.owner


@external
@view
def operator_count() -> uint256:
    """
    @notice How many operators were ever registered: they are numbered 1..operator_count.
    """
    return self.census & COUNT


@external
@view
def paused_until() -> uint256:
    """
    @notice The second before which nobody registers.
    """
    return self.census >> 216


@external
@view
def operators(operator: uint256) -> Operator:
    """
    @notice Everything known of an operator but what it declared; zeros when there is none.
    """
    node: words.Node = words._unpack_node(state.nodes[operator])
    account: words.Account = state._account(operator)
    return Operator(
        owner=account.owner,
        stake=node.stake * words.STAKE_UNIT,
        hot=node.hot,
        gpu_class=account.gpu_class,
        vram_gb=account.vram_gb,
        reputation=account.reputation // words.PARTS_A_POINT,
        locks=collateral._locks(operator),
        exit_at=account.exit_at,
    )


@external
@view
def discount_bps(operator: uint256) -> uint256:
    """
    @notice What an operator's score is discounted by: one basis point a point of reputation.
    """
    return state._account(operator).reputation // words.PARTS_A_POINT


@external
@view
def multiplier(gpu_class: uint256) -> uint256:
    """
    @notice The reward multiplier of a class in percent; 0 when unknown.
    """
    return gpu_classes._multiplier(gpu_class)


@external
@view
def multiplier_of(operator: uint256) -> uint256:
    """
    @notice What an operator's verified compute weighs, in percent: its class's multiplier once it is admitted, until then
            at most a consumer's.
    """
    account: words.Account = words._unpack_account(state.accounts[operator])
    percent: uint256 = gpu_classes._multiplier(account.gpu_class)
    return percent if account.is_admitted else min(percent, gpu_classes.UNSHOWN_PERCENT)


@external
@view
def vram_of(operator: uint256) -> uint256:
    """
    @notice The declared memory of one worker, in GB; 0 when there is no such operator.
    """
    return words._unpack_account(state.accounts[operator]).vram_gb


@external
@view
def is_admitted(operator: uint256) -> bool:
    """
    @notice Whether the operator's machine passed admission.
    """
    return words._unpack_account(state.accounts[operator]).is_admitted


@external
@view
def reference_price(tier: uint256) -> uint256:
    """
    @notice What a GPU-hour of a tier is expected to cost, in 10^-18 ZEN; 0 when unknown. Binds nobody.
    """
    return gpu_classes._reference_price(tier)


@internal
@view
def _check_machine(hot: address, gpu_class: uint256, vram_gb: uint256, stake: uint256):
    if hot == empty(address):
        state._refuse("registry: zero hot key")
    if gpu_class < gpu_classes.CONSUMER or gpu_class > gpu_classes.APPLE_SILICON:
        state._refuse("registry: unknown class")
    if vram_gb < gpu_classes._least_vram_gb(gpu_class):
        state._refuse("registry: too little VRAM for the class")
    if vram_gb > MAX_VRAM_GB:
        state._refuse("registry: VRAM out of range")
    if stake < state.min_stake:
        state._refuse("registry: stake below the minimum")
    if stake % words.STAKE_UNIT != 0:
        state._refuse("registry: stake has dust")


@internal
def _register(
    census: uint256,
    owner: address,
    hot: address,
    gpu_class: uint256,
    vram_gb: uint256,
    stake: uint256,
    endpoint: String[128],
) -> uint256:
    """
    @dev `census` counts the new operator, and is its number. Registration is not paused: the end of a pause that is over is
         forgotten.
    """
    self.census = census
    state.nodes[census] = words._pack_node(
        words.Node(hot=hot, stake=stake // words.STAKE_UNIT, tokens=0, is_exiting=False)
    )
    state.accounts[census] = words._pack_account(
        words.Account(
            owner=owner,
            reputation=0,
            halved_at=0,
            exit_at=0,
            gpu_class=gpu_class,
            vram_gb=vram_gb,
            is_admitted=False,
        )
    )
    log OperatorRegistered(
        operator=census,
        owner=owner,
        hot=hot,
        gpu_class=gpu_class,
        vram_gb=vram_gb,
        stake=stake,
        endpoint=endpoint,
    )
    state._pull(state.zen, stake)
    return census
