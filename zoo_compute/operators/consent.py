"""Consent to a registration, signed by an operator's owner and its hot key, with which a sponsor can register them.

EIP-712 data, as `NodeRegistry.register_for` checks it. The file contains no keys. It registers one operator, once, before its deadline.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from repops import fields
from zoo_compute.atomic import write_atomically
from zoo_compute.errors import ConfigError

if TYPE_CHECKING:
    from zoo_compute.chain.call import Call
    from zoo_compute.chain.connection import Chain
    from zoo_compute.chain.signer import TypedData

MOST_BYTES = 4_096
DOMAIN = {"name": "Zoo NodeRegistry", "version": "1"}
REGISTRATION = [
    {"name": "owner", "type": "address"},
    {"name": "hot", "type": "address"},
    {"name": "gpu_class", "type": "uint256"},
    {"name": "vram_gb", "type": "uint256"},
    {"name": "stake", "type": "uint256"},
    {"name": "endpoint", "type": "string"},
    {"name": "nonce", "type": "uint256"},
    {"name": "deadline", "type": "uint256"},
]


@dataclass(frozen=True)
class Consent:
    """The registration, its chain and contract, and both signatures in hex. stake: in wei, as text."""

    chain_id: int
    registry: str
    owner: str
    hot: str
    gpu_class: int
    vram_gb: int
    stake: str
    endpoint: str
    nonce: int
    deadline: int
    owner_signature: str = ""
    hot_signature: str = ""
    version: int = 1

    def signed_by(self, owner: Any, hot: Any) -> Consent:
        """A copy with both signatures. owner, hot: eth-account accounts that sign typed data."""
        return dataclasses.replace(self, owner_signature=self._sign(owner), hot_signature=self._sign(hot))

    def call(self, chain: Chain) -> Call:
        """The transaction that a sponsor sends."""
        return chain.registry.register_for(
            self.owner,
            self.hot,
            self.gpu_class,
            self.vram_gb,
            int(self.stake),
            self.endpoint,
            self.deadline,
            bytes.fromhex(self.owner_signature),
            bytes.fromhex(self.hot_signature),
        )

    def save(self, path: Path) -> None:
        write_atomically(path, (json.dumps(dataclasses.asdict(self), indent=2) + "\n").encode(), mode=0o644)

    @classmethod
    def load(cls, path: Path) -> Consent:
        """Raises ConfigError."""
        try:
            data = path.read_bytes()
            if len(data) > MOST_BYTES:
                raise fields.BadField(f"{len(data)} bytes are too many for a consent")
            consent = fields.read(cls, fields.parse_json(data, "consent"), "consent")
            if consent.version != 1 or not consent.stake.isdigit():
                raise fields.BadField("expected version 1, and the stake in wei as decimal text")
            bytes.fromhex(consent.owner_signature + consent.hot_signature)
        except OSError as error:
            raise ConfigError(
                f"{path}: cannot be read ({error.strerror})", hint="make it with `zoo node consent`"
            ) from error
        except ValueError as error:
            raise ConfigError(f"{path}: not a consent: {error}", hint="make it with `zoo node consent`") from error
        return consent

    def _sign(self, account: Any) -> str:
        if not hasattr(account, "sign_typed_data"):
            raise ConfigError(
                "this account's signer can sign transactions only", hint="sign with a key file: --account FILE"
            )
        return bytes(account.sign_typed_data(*self.typed_data()).signature).hex()

    def typed_data(self) -> TypedData:
        """Domain, types and message, as they are signed."""
        domain = {**DOMAIN, "chainId": self.chain_id, "verifyingContract": self.registry}
        message = {part["name"]: getattr(self, part["name"]) for part in REGISTRATION} | {"stake": int(self.stake)}
        return domain, {"Registration": REGISTRATION}, message
