"""A hosted signer: it keeps the key and signs transactions over JSON-RPC (`eth_signTransaction`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from eth_utils.address import to_checksum_address
from hexbytes import HexBytes
from web3.types import RPCEndpoint

from zoo_compute.chain.network import Network
from zoo_compute.chain.provider import authorization, redacted
from zoo_compute.chain.rpc_http import Rpc
from zoo_compute.errors import ConfigError, Unreachable

TypedData = tuple[dict[str, Any], dict[str, Any], dict[str, Any]]  # EIP-712: domain, types, message


class TypedSigner(Protocol):
    """eth-account's LocalAccount, or another signer of typed data."""

    def sign_typed_data(self, domain: Any, types: Any, message: Any, /) -> Any:
        """Something with `.signature`, `.v`, `.r` and `.s`."""


class HotKey(TypedSigner, Protocol):
    """What a keeper signs with."""

    @property
    def address(self) -> Any: ...

    def sign_transaction(self, transaction_dict: Any, /) -> Any: ...

    def sign_message(self, signable_message: Any, /) -> Any: ...


@dataclass(frozen=True)
class Signed:
    raw_transaction: HexBytes


class RemoteSigner:
    """The first account (`eth_accounts`) of a network file's signer; `Sender` takes it like a LocalAccount."""

    def __init__(self, network: Network, api_key: str | None = None) -> None:
        if network.signer is None:
            raise ConfigError(f"network {network.name!r} names no signer", hint="use a key file")
        self._url = network.signer
        self._provider = Rpc(self._url, authorization(api_key, [self._url]))
        self.address = to_checksum_address(self._first_account())

    def sign_transaction(self, transaction_dict: dict[str, Any]) -> Signed:
        quantities = {key: hex(value) if isinstance(value, int) else value for key, value in transaction_dict.items()}
        answer = self._ask("eth_signTransaction", [{**quantities, "from": self.address}])
        return Signed(HexBytes(answer["raw"] if isinstance(answer, dict) else answer))

    def _first_account(self) -> str:
        accounts = self._ask("eth_accounts", [])
        if not accounts:
            raise ConfigError(f"the signer {redacted(self._url)} has no account for this API key")
        return str(accounts[0])

    def _ask(self, method: str, params: list) -> Any:
        try:
            answer = self._provider.make_request(RPCEndpoint(method), params)
        except (OSError, ValueError) as error:  # requests' exceptions are OSErrors
            raise Unreachable(f"the signer {redacted(self._url)} does not answer: {type(error).__name__}") from None
        if "result" not in answer:
            raise ConfigError(f"the signer {redacted(self._url)} refuses {method}: {answer.get('error')}")
        return answer["result"]
