"""EIP-2612 permits: a signature instead of an approval transaction, if both the token and the account support it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from eth_abi.abi import decode
from eth_abi.exceptions import DecodingError
from eth_account.messages import encode_typed_data
from web3 import Web3
from web3.exceptions import ContractLogicError

from zoo_compute.chain.simulate import request_of
from zoo_compute.chain.typed_sentences import typed_sentence

if TYPE_CHECKING:
    from zoo_compute.chain.generated.bindings import ZenToken
    from zoo_compute.chain.sender import Sender

VALID_S = 3_600  # after signing; a transaction not mined by then is sent again with an approval
VERSION = "0x54fd4d50"  # version()
_FIELDS = (
    ("owner", "address"),
    ("spender", "address"),
    ("value", "uint256"),
    ("nonce", "uint256"),
    ("deadline", "uint256"),
)
TYPES = {"Permit": [{"name": name, "type": kind} for name, kind in _FIELDS]}
# Raised if a token lacks a function or returns nonsense.
_ABSENT = (ContractLogicError, DecodingError, OverflowError, UnicodeDecodeError)


@dataclass(frozen=True)
class PermitTerms:
    """The signed fields besides owner, spender and amount. The same terms and key give the same signature."""

    nonce: int
    deadline: int

    def to_dict(self) -> dict[str, int]:
        return asdict(self)


def can_sign(sender: Sender) -> bool:
    """Whether the account can sign typed data; a hosted signer cannot."""
    return hasattr(sender.account, "sign_typed_data")


def next_terms(sender: Sender, address: str) -> PermitTerms | None:
    """The terms of the sender's next permit for this token; None if the token or the account does not support permits."""
    token = sender.chain.token(address)
    if not can_sign(sender) or domain_of(sender, token) is None:
        return None
    nonce = _or_none(lambda: token.nonces(sender.address))
    return None if nonce is None else PermitTerms(nonce, sender.chain.now() + VALID_S)


def sign_permit(
    sender: Sender, address: str, spender: str, value: int, terms: PermitTerms, say: Callable[[str], None]
) -> tuple[int, int, bytes, bytes] | None:
    """(deadline, v, r, s) of a permit, as contracts take it; None if the token or the account does not support permits.

    say: gets what the signature allows, in words.
    """
    domain = domain_of(sender, sender.chain.token(address)) if can_sign(sender) else None
    if domain is None:
        return None
    message = {"owner": sender.address, "spender": spender, "value": value, **terms.to_dict()}
    account: Any = sender.account
    say(f"signing: {typed_sentence(sender.chain, domain, TYPES, message)}")
    made = account.sign_typed_data(domain, TYPES, message)
    return terms.deadline, made.v, made.r.to_bytes(32, "big"), made.s.to_bytes(32, "big")


def is_usable(sender: Sender, address: str, spender: str, value: int, permit: tuple[int, int, bytes, bytes]) -> bool:
    """Whether the token would accept the permit after the newest block. Ignores pending transactions."""
    call = sender.chain.token(address).permit(sender.address, spender, value, *permit)
    request: Any = request_of(call, sender.address).params
    try:
        sender.chain.w3.eth.call(request, "latest")
    except ContractLogicError:
        return False
    return True


def domain_of(sender: Sender, token: ZenToken) -> dict[str, Any] | None:
    """The EIP-712 domain of the token's signatures. None unless its hash matches the token's DOMAIN_SEPARATOR: unusual domains
    are not supported.
    """
    separator = _or_none(token.DOMAIN_SEPARATOR)
    if separator is None:
        return None
    fields = _or_none(token.eip712Domain)
    name, version = (fields[1], fields[2]) if fields else (_or_none(token.name), _version(token))
    domain = {
        "name": name,
        "version": version,
        "chainId": sender.chain.network.chain_id,
        "verifyingContract": Web3.to_checksum_address(token.address),
    }
    empty = {"owner": token.address, "spender": token.address, "value": 0, "nonce": 0, "deadline": 0}
    if name is None or encode_typed_data(domain, TYPES, empty).header != bytes(separator):
        return None
    return domain


def _version(token: ZenToken) -> str:
    raw = _or_none(lambda: token.w3.eth.call({"to": token.address, "data": VERSION}))  # type: ignore[typeddict-item]
    return str(_or_none(lambda: decode(["string"], bytes(raw or b""))[0]) or "1")


def _or_none(ask: Callable[[], Any]) -> Any:
    try:
        return ask()
    except _ABSENT:
        return None
