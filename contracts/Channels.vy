# pragma version ==0.4.3
# pragma nonreentrancy on
"""
@title Channels
@license Apache-2.0
@notice Escrow of what a client pays one operator by signed vouchers: one transaction to open, one to close, none for each request.
@dev A voucher says all that its channel owes so far, so the newest one is worth all before it. docs/protocol/channels.md says who
     can lose what.
"""


from ethereum.ercs import IERC20
from .interfaces import INodeRegistry
from .modules import bits
from .modules import consent
from .modules import numbers
from .modules import protocol_time


interface Tasks:
    def is_allowed(token: address) -> bool: view


# Of EIP-2612: permit(address,address,uint256,uint256,uint8,bytes32,bytes32).
PERMIT: constant(bytes4) = 0xd505accf
# Of ERC-20: transfer(address,uint256).
TRANSFER: constant(bytes4) = 0xa9059cbb
# A deposit shares its word with an address.
MAX_DEPOSIT: constant(uint256) = 2**96 - 1

# EIP-712
DOMAIN_TYPE_HASH: constant(bytes32) = keccak256(
    "EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)"
)
NAME_HASH: constant(bytes32) = keccak256("Zoo Channels")
VERSION_HASH: constant(bytes32) = keccak256("1")
VOUCHER_TYPE_HASH: constant(bytes32) = keccak256("Voucher(uint256 channel,uint256 total)")


registry: public(immutable(address))
tasks: public(immutable(address))
treasury: public(immutable(address))
# From a client's notice until it may take back what no voucher was shown for.
notice_s: public(immutable(uint256))


struct Channel:
    client: address
    operator: uint256
    token: address
    # Signs the vouchers.
    signer: address
    # All that the client paid in.
    deposit: uint256
    # Of the deposit, that left for the operator, the treasury's fee included.
    paid: uint256
    # When the client may take back the rest; 0: it gave no notice.
    ends_at: uint256


# Channels are numbered 1..channel_count. A closed one's number never comes again.
channel_count: public(uint256)
# channel -> client (160) | deposit (96); zero once closed, as the two below
clients: HashMap[uint256, uint256]
# channel -> signer (160) | paid (96)
signers: HashMap[uint256, uint256]
# channel -> token (160) | operator (56) | ends_at (40)
routes: HashMap[uint256, uint256]
# token -> account -> what a transfer could not deliver; `withdraw` sends it
owed: public(HashMap[address, HashMap[address, uint256]])


event ChannelOpened:
    channel: indexed(uint256)
    client: indexed(address)
    operator: indexed(uint256)
    token: address
    signer: address
    amount: uint256


event ChannelFunded:
    channel: indexed(uint256)
    amount: uint256


event NoticeGiven:
    channel: indexed(uint256)
    ends_at: uint256


event VoucherPaid:
    channel: indexed(uint256)
    operator: indexed(uint256)
    total: uint256
    net: uint256
    fee: uint256


event ChannelClosed:
    channel: indexed(uint256)
    refunded: uint256


event Owed:
    token: indexed(address)
    account: indexed(address)
    amount: uint256


event Withdrawn:
    token: indexed(address)
    account: indexed(address)
    amount: uint256


@deploy
def __init__(registry_: address, tasks_: address, treasury_: address, notice_s_: uint256):
    """
    @param registry_ Knows the operators' owners and hot keys, and the protocol's time.
    @param tasks_ Knows the allowed payment tokens.
    @param treasury_ Receives the fees.
    @param notice_s_ Seconds from a client's notice until it may take back the rest.
    """
    registry = registry_
    tasks = tasks_
    treasury = treasury_
    notice_s = notice_s_


@external
def open(operator: uint256, token: address, signer: address, amount: uint256) -> uint256:
    """
    @notice Opens a channel of the caller's to an operator, and pulls its deposit.
    @param signer Signs the channel's vouchers: a key that can spend the deposit on this operator, and nothing else.
    @return The channel's number.
    """
    channel: uint256 = self._open(operator, token, signer, amount)
    self._pull(token, amount)
    return channel


@external
def open_permitted(
    operator: uint256,
    token: address,
    signer: address,
    amount: uint256,
    deadline: uint256,
    v: uint8,
    r: bytes32,
    s: bytes32,
) -> uint256:
    """
    @notice As `open`, with an allowance of exactly the deposit that is signed (EIP-2612) instead of approved before.
    @dev A permit that the token refuses is no refusal here, as in TaskRegistry: where there is no allowance, the transfer is refused.
    @return The channel's number.
    """
    channel: uint256 = self._open(operator, token, signer, amount)
    taken: bool = raw_call(
        token,
        abi_encode(msg.sender, self, amount, deadline, v, r, s, method_id=PERMIT),
        revert_on_failure=False,
    )
    self._pull(token, amount)
    return channel


@external
def add(channel: uint256, amount: uint256):
    """
    @notice Adds to the deposit of the caller's channel, unless notice was given.
    """
    record: Channel = self._channel(channel)
    assert msg.sender == record.client, "channels: not the client"
    assert record.ends_at == 0, "channels: notice given"
    assert amount > 0 and amount <= MAX_DEPOSIT - record.deposit, "channels: amount out of range"
    self.clients[channel] = self._pack(record.client, record.deposit + amount)
    log ChannelFunded(channel=channel, amount=amount)
    self._pull(record.token, amount)


@external
def redeem(channel: uint256, voucher_total: uint256, signature: Bytes[65]) -> uint256:
    """
    @notice Pays the operator's owner what a voucher adds to those paid before. The channel stays open.
    @return What left the deposit.
    """
    record: Channel = self._channel(channel)
    due: uint256 = self._due(channel, record, voucher_total, signature)
    assert due > 0, "channels: nothing new"
    self.signers[channel] = self._pack(record.signer, record.paid + due)
    self._pay(channel, record, voucher_total, due)
    return due


@external
def close(channel: uint256, voucher_total: uint256, signature: Bytes[65]) -> uint256:
    """
    @notice Pays the operator's owner what the last voucher adds, the rest of the deposit to the client, and ends the channel.
    @dev For the operator only: with an older voucher a client would take back what it owes. Where the last voucher is paid
         already, or there was none, `voucher_total` is what was paid and the signature is empty.
    @return What left the deposit for the operator.
    """
    record: Channel = self._channel(channel)
    due: uint256 = self._due(channel, record, voucher_total, signature)
    # INVARIANT channels: of a deposit, what is paid and what is returned sum to it; both leave once.
    refunded: uint256 = record.deposit - record.paid - due
    self._end(channel, refunded)
    if due > 0:
        self._pay(channel, record, voucher_total, due)
    self._send(record.token, record.client, refunded)
    return due


@external
def leave(channel: uint256):
    """
    @notice Gives notice: `notice_s` from now the client may take back the rest. Until it does, the operator may show its last voucher.
    """
    record: Channel = self._channel(channel)
    assert msg.sender == record.client, "channels: not the client"
    assert record.ends_at == 0, "channels: notice given"
    ends_at: uint256 = protocol_time._now(registry) + notice_s
    self.routes[channel] |= convert(convert(ends_at, uint40), uint256)
    log NoticeGiven(channel=channel, ends_at=ends_at)


@external
def refund(channel: uint256) -> uint256:
    """
    @notice Ends a channel whose notice is over: what was not paid goes to the client. Anyone may.
    @return What went back.
    """
    record: Channel = self._channel(channel)
    assert record.ends_at > 0, "channels: no notice given"
    # INVARIANT notice: an operator that looks once in `notice_s` of the protocol's time is paid its last voucher.
    assert protocol_time._now(registry) > record.ends_at, "channels: notice not over"
    refunded: uint256 = record.deposit - record.paid
    self._end(channel, refunded)
    self._send(record.token, record.client, refunded)
    return refunded


@external
def withdraw(token: address, account: address) -> uint256:
    """
    @notice Sends an account what a transfer to it could not deliver.
    @return The amount.
    """
    amount: uint256 = self.owed[token][account]
    assert amount > 0, "channels: nothing owed"
    self.owed[token][account] = 0
    log Withdrawn(token=token, account=account, amount=amount)
    assert extcall IERC20(token).transfer(account, amount, default_return_value=True), "channels: transfer failed"
    return amount


@external
@view
def channels(channel: uint256) -> Channel:
    """
    @notice Everything stored of a channel; zeros when there is none, or it is closed.
    """
    return self._record(channel)


@internal
def _open(operator: uint256, token: address, signer: address, amount: uint256) -> uint256:
    assert staticcall Tasks(tasks).is_allowed(token), "channels: token not allowed"
    assert staticcall INodeRegistry(registry).owner_of(operator) != empty(address), "channels: no such operator"
    assert signer != empty(address), "channels: zero signer"
    assert amount > 0 and amount <= MAX_DEPOSIT, "channels: amount out of range"
    channel: uint256 = self.channel_count + 1
    self.channel_count = channel
    self.clients[channel] = self._pack(msg.sender, amount)
    self.signers[channel] = self._pack(signer, 0)
    # There is an operator of this number, so it is far below 2^56.
    self.routes[channel] = convert(token, uint256) << 96 | operator << 40
    log ChannelOpened(
        channel=channel, client=msg.sender, operator=operator, token=token, signer=signer, amount=amount
    )
    return channel


@internal
@view
def _due(channel: uint256, record: Channel, total: uint256, signature: Bytes[65]) -> uint256:
    """
    @notice What a voucher adds to what was paid, of what the deposit covers. Refuses anyone but the operator, and vouchers that are none.
    """
    owner: address = staticcall INodeRegistry(registry).owner_of(record.operator)
    if msg.sender != owner:
        assert msg.sender == staticcall INodeRegistry(registry).hot_key(record.operator), "channels: not the operator"
    assert total >= record.paid, "channels: already paid more"
    if total > record.paid:
        assert consent._has_signed(record.signer, self._digest(channel, total), signature), "channels: voucher not signed"
    # INVARIANT deposits: paid <= deposit. What a voucher promises beyond is paid if the client adds it.
    return min(total, record.deposit) - record.paid


@internal
def _pay(channel: uint256, record: Channel, total: uint256, due: uint256):
    # Rounded against the payee, as in TaskRegistry: the fee is the rest.
    net: uint256 = due * (numbers.BPS - numbers.FEE_BPS) // numbers.BPS
    log VoucherPaid(channel=channel, operator=record.operator, total=total, net=net, fee=due - net)
    self._send(record.token, staticcall INodeRegistry(registry).owner_of(record.operator), net)
    self._send(record.token, treasury, due - net)


@internal
def _end(channel: uint256, refunded: uint256):
    self.clients[channel] = 0
    self.signers[channel] = 0
    self.routes[channel] = 0
    log ChannelClosed(channel=channel, refunded=refunded)


@internal
def _pull(token: address, amount: uint256):
    assert extcall IERC20(token).transferFrom(
        msg.sender, self, amount, default_return_value=True
    ), "channels: transfer failed"


@internal
def _send(token: address, to: address, amount: uint256):
    """
    @notice Transfers; what the token does not deliver is owed, so that no account holds up another's money.
    """
    if amount == 0:
        return
    is_done: bool = False
    answer: Bytes[32] = b""
    is_done, answer = raw_call(
        token, abi_encode(to, amount, method_id=TRANSFER), max_outsize=32, revert_on_failure=False
    )
    # Some tokens answer nothing.
    if is_done and (len(answer) == 0 or convert(answer, uint256) != 0):
        return
    # INVARIANT channels: balance(token) == sum(deposit - paid) + sum(owed).
    self.owed[token][to] += amount
    log Owed(token=token, account=to, amount=amount)


@internal
@view
def _channel(channel: uint256) -> Channel:
    record: Channel = self._record(channel)
    assert record.client != empty(address), "channels: no such channel"
    return record


@internal
@view
def _record(channel: uint256) -> Channel:
    client: uint256 = self.clients[channel]
    signer: uint256 = self.signers[channel]
    route: uint256 = self.routes[channel]
    return Channel(
        client=convert(client >> 96, address),
        operator=route >> 40 & (2**56 - 1),
        token=convert(route >> 96, address),
        signer=convert(signer >> 96, address),
        deposit=client & bits.U96,
        paid=signer & bits.U96,
        ends_at=route & bits.U40,
    )


@internal
@pure
def _pack(account: address, amount: uint256) -> uint256:
    """
    @param amount At most MAX_DEPOSIT, as every deposit is, and what is paid of one.
    """
    return convert(account, uint256) << 96 | amount


@internal
@view
def _digest(channel: uint256, total: uint256) -> bytes32:
    """
    @notice What a channel's signer signs. The domain is built at each use: it binds the chain, also one that forks off, and the contract.
    """
    domain: bytes32 = keccak256(abi_encode(DOMAIN_TYPE_HASH, NAME_HASH, VERSION_HASH, chain.id, self))
    voucher: bytes32 = keccak256(abi_encode(VOUCHER_TYPE_HASH, channel, total))
    return keccak256(concat(x"1901", domain, voucher))
