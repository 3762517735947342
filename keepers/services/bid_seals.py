"""The token of a bid, and its seal. The salt is derived from the operator's key, so a keeper can reveal even if it lost its files."""

from __future__ import annotations

from eth_abi.abi import encode
from eth_account.messages import encode_defunct
from eth_utils.crypto import keccak

from keepers.config import OperatorConfig
from zoo_compute.amounts import Token
from zoo_compute.chain.connection import Chain
from zoo_compute.chain.tokens import token_at

SECRET = encode_defunct(text="zoo: seals of this operator's bids")  # what the hot key signs of it is the bids' secret


def priced_token(config: OperatorConfig, chain: Chain, address: str) -> Token | None:
    """The token at an address; None where operator.json has no price in it.

    A token without a price is not called at all: its contract could answer anything.
    """
    if address != chain.network.contracts["zen"] and address not in config.priced_tokens:
        return None
    return token_at(chain, address)


class BidSealer:
    """Seals and salts from a 32-byte secret."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def salt(self, job: int, kind: int, attempt: int) -> bytes:
        """32 bytes nobody else can guess, the same every time they are asked for."""
        return keccak(self._secret + encode(["uint256"] * 3, [job, kind, attempt]))

    def seal(self, job: int, kind: int, attempt: int, operator: int, price: int, capacity: int) -> bytes:
        """What `Auction.bid` takes. Source: docs/protocol/auction.md."""
        values = [job, kind, attempt, operator, price, capacity, self.salt(job, kind, attempt)]
        return keccak(encode(["uint256"] * 6 + ["bytes32"], values))
