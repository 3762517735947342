"""Payment tokens: symbol and decimals, read from the chain once per connection."""

from __future__ import annotations

import re
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from eth_abi.abi import decode
from eth_abi.exceptions import DecodingError
from eth_utils.address import to_checksum_address
from web3 import Web3
from web3.exceptions import ContractLogicError

from zoo_compute.amounts import CREDIT, CREDITS, MAX_DECIMALS, ZEN, Token
from zoo_compute.chain.addresses import is_address
from zoo_compute.chain.events import scan
from zoo_compute.errors import UserError

if TYPE_CHECKING:
    from zoo_compute.chain.connection import Chain
    from zoo_compute.chain.sender import Sender

SYMBOL = "0x95d89b41"  # symbol()
DECIMALS = "0x313ce567"  # decimals()
LONGEST_SYMBOL = 12
_UNSAFE = re.compile(r"[^A-Za-z0-9.$_-]")
RATE_AGE_S = 30  # a rate is read again after that
_OURS = ("ZEN", "CREDIT", "COIN", "WEI", "UNIT", "UNITS")


def address_of(chain: Chain, text: str | None, *, what: str = "--token") -> str:
    """The payment token's address; ZEN by default, and `credits` by name. Raises UserError."""
    zen = chain.network.contracts["zen"]
    if text is None or text == zen or text.upper() == ZEN.symbol:
        return zen
    if text.lower() in (CREDITS, CREDIT.symbol.lower()):
        return chain.network.contracts["credits"]
    if not is_address(text):
        raise UserError(f"{what} takes an address or `{CREDITS}`, not {text!r}", hint="leave it out for ZEN")
    return str(to_checksum_address(text))


def token_at(chain: Chain, text: str | None = None, *, what: str = "--token") -> Token:
    """The token at an address; ZEN by default. Raises UserError where there is none."""
    address = address_of(chain, text, what=what)
    if address == chain.network.contracts["zen"]:
        return Token(ZEN.symbol, ZEN.decimals, address)
    if address == chain.network.contracts.get("credits"):
        return _credit(chain, address)
    tokens: dict[str, Token] = chain.cached("tokens", dict)
    if address not in tokens:
        raw = _call_view(chain, address, DECIMALS)
        try:
            (decimals,) = decode(["uint8"], raw)
        except DecodingError:
            raise UserError(
                f"no token at {address}: it does not return its decimals", hint="check the address and the network file"
            ) from None
        if decimals > MAX_DECIMALS:
            raise UserError(f"the token at {address} has {decimals} decimals; at most {MAX_DECIMALS} are supported")
        tokens[address] = Token(_symbol(_call_view(chain, address, SYMBOL), address), decimals, address)
    return tokens[address]


def _credit(chain: Chain, address: str) -> Token:
    """Credits with their posted rate, which is kept for RATE_AGE_S; with none while it is stale."""
    kept: dict[str, tuple[float, Token]] = chain.cached("credit rates", dict)
    read_at, token = kept.get(address, (float("-inf"), CREDIT))
    if time.monotonic() - read_at > RATE_AGE_S:
        rate = chain.credits.rate() if chain.credits.is_fresh() else 0
        token = replace(CREDIT, address=address, rate=rate)
        kept[address] = (time.monotonic(), token)
    return token


def allowed(chain: Chain, block: int) -> list[Token]:
    """The tokens in which new jobs can be paid, in the order in which they were first allowed."""
    events = scan(chain, chain.network.first_block, block, names=("TokenAllowed",))
    addresses = dict.fromkeys(str(event.args["token"]) for event in events)
    return [token_at(chain, address) for address in addresses if chain.tasks.is_allowed(address, block=block)]


def set_allowance(sender: Sender, token: str, spender: str, amount: int) -> None:
    """Let `spender` take exactly `amount` of the sender's tokens. Some tokens, as Tether's, change one amount only by way of zero."""
    binding = sender.chain.token(token)
    before = binding.allowance(sender.address, spender)
    if before and amount not in (before, 0):
        sender.send(binding.approve(spender, 0))
    if before != amount:
        sender.send(binding.approve(spender, amount))


def _call_view(chain: Chain, address: str, selector: str) -> bytes:
    try:
        return bytes(chain.w3.eth.call({"to": Web3.to_checksum_address(address), "data": selector}))  # type: ignore[typeddict-item]
    except ContractLogicError:
        return b""


def _symbol(raw: bytes, address: str) -> str:
    """A safe form of a symbol. Anyone can choose any symbol; one that imitates another token or contains control characters
    is printed with the token's address.
    """
    try:
        text = decode(["string"], raw)[0]
    except (DecodingError, UnicodeDecodeError, OverflowError):
        text = raw[:32].rstrip(b"\0").decode("ascii", "replace")  # old tokens return 32 bytes
    clean = _UNSAFE.sub("", text)[:LONGEST_SYMBOL]
    if clean and clean == text and clean.upper() not in _OURS:
        return clean
    return f"{clean or 'token'}@{address[:10]}"
