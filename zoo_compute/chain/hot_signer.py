"""A keeper's hot key in a program of its own: web3signer or clef. What comes back is checked, so a signer that is taken over cannot have
another transaction sent than the keeper asked for.

Sources: docs.web3signer.consensys.io (JSON-RPC API); go-ethereum, cmd/clef (external API).
"""

from __future__ import annotations

import json
import socket
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from eth_account import Account
from eth_account.messages import SignableMessage, encode_typed_data
from eth_account.typed_transactions.typed_transaction import TypedTransaction
from eth_keys.constants import SECPK1_N
from eth_keys.exceptions import BadSignature
from eth_utils.address import to_checksum_address
from eth_utils.exceptions import ValidationError
from hexbytes import HexBytes
from rlp.exceptions import RLPException
from web3.types import RPCEndpoint

from zoo_compute.chain.provider import redacted
from zoo_compute.chain.rpc_http import Rpc, TooOften
from zoo_compute.chain.signer_places import CLEF, check_place
from zoo_compute.errors import SignerRefuses, SignerUnreachable
from zoo_compute.timed_sockets import TimedSocket

ANSWER_S = 20.0  # of a signer at a unix socket, for all of its answer; over HTTP it is an RPC's
MAX_ANSWER_BYTES = 2**20
PIECE_BYTES = 2**16
SIGNATURE_BYTES = 65
TEXT = b"E"  # EIP-191: a text, of which this is the version
Ask = Callable[[str, list[Any]], Any]  # method, parameters; the whole answer

_BAD = (ValueError, TypeError, KeyError, BadSignature, ValidationError, RLPException)


class Signature(NamedTuple):
    """As eth-account's, but for its hash. v: 27 or 28."""

    v: int
    r: int
    s: int
    signature: HexBytes


class SignedTransaction(NamedTuple):
    raw_transaction: HexBytes


class HotSigner(ABC):
    """One account of a signer; a Sender takes it as it takes a LocalAccount. Methods raise SignerUnreachable, SignerRefuses.

    address: the account that must have signed.
    """

    def __init__(self, name: str, ask: Ask) -> None:
        self._name, self._ask = name, ask
        self.address = ""

    def use(self, address: str) -> None:
        """Sign with this account; without one, with the only account of the signer."""
        accounts = self.accounts()
        if not address and len(accounts) != 1:
            raise SignerRefuses(
                f"{self._name} has {len(accounts)} accounts, and nothing says which one is the hot key's",
                hint="let it have one account",
            )
        chosen = to_checksum_address(address or accounts[0])
        if chosen not in accounts:
            raise SignerRefuses(
                f"{self._name} does not have the operator's hot key {chosen}, but {', '.join(accounts) or 'no account'}",
                hint="load that key into the signer (hot.json is a keystore file that it reads), or make it the operator's: zoo node hot-key",
            )
        self.address = chosen

    def accounts(self) -> list[str]:
        """The addresses that it signs for."""
        answer = self._result(*self._accounts())
        try:  # an early clef lists records
            return [to_checksum_address(each["address"] if isinstance(each, dict) else each) for each in answer]
        except _BAD:
            raise self._odd("its accounts", answer) from None

    def sign_transaction(self, transaction_dict: Mapping[str, Any]) -> SignedTransaction:
        """Exactly this transaction: the signature is the signer's, all else is written here."""
        asked = {key: hex(value) if isinstance(value, int) else value for key, value in transaction_dict.items()}
        answer = self._result(*self._transaction({**asked, "from": self.address}))
        raw = answer.get("raw") if isinstance(answer, dict) else answer
        return SignedTransaction(self._exactly(transaction_dict, raw))

    def _exactly(self, asked: Mapping[str, Any], raw: Any) -> HexBytes:
        try:
            signed = TypedTransaction.from_bytes(HexBytes(raw)).as_dict()
            signature = {key: signed[key] for key in ("v", "r", "s")}
            ours = HexBytes(TypedTransaction.from_dict({**asked, **signature}).encode())
            if Account.recover_transaction(ours) == self.address:
                return ours
        except _BAD:
            raise self._odd("a signed transaction", raw) from None
        differ = [key for key in asked if key != "type" and _plain(signed.get(key)) != _plain(asked[key])]
        what = f"another one: its {', '.join(differ)} differ" if differ else "it with another key"
        raise SignerRefuses(
            f"{self._name} was asked to sign a transaction and signed {what}; it is not sent",
            hint="check the signer's chain id and account; if both are right, somebody else controls it: stop it",
        )

    def sign_message(self, signable_message: SignableMessage) -> Signature:
        """A text (EIP-191)."""
        assert signable_message.version == TEXT, "a keeper signs texts and typed data"
        answer = self._result(*self._text("0x" + signable_message.body.hex()))
        return self._checked(answer, signable_message)

    def sign_typed_data(self, domain: dict[str, Any], types: dict[str, Any], message: dict[str, Any]) -> Signature:
        """EIP-712."""
        signable = encode_typed_data(domain, types, message)
        return self._checked(self._result(*self._typed(typed_json(domain, types, message))), signable)

    def _checked(self, answer: Any, asked: SignableMessage) -> Signature:
        try:
            signature = signature_of(HexBytes(answer))
            signer = Account.recover_message(asked, signature=signature.signature)
        except _BAD:
            raise self._odd("a signature", answer) from None
        if signer != self.address:
            raise SignerRefuses(
                f"{self._name} signed something else than it was asked to, or with another key than {self.address}",
                hint="check its account; if that is right, somebody else controls the signer: stop it",
            )
        return signature

    def _result(self, method: str, params: list[Any]) -> Any:
        answer = self._ask(method, params)
        if not isinstance(answer, dict):
            raise self._odd("a JSON-RPC answer", answer)
        if "result" not in answer:
            error = answer.get("error")
            said = error.get("message", error) if isinstance(error, dict) else error
            raise SignerRefuses(f"{self._name} refuses {method}: {str(said)[:300]!r}", hint=self._refused_hint)
        return answer["result"]

    def _odd(self, what: str, answer: Any) -> SignerRefuses:
        return SignerRefuses(
            f"{self._name}: expected {what}, got {str(answer)[:100]!r}",
            hint="check that `signer` names the right program",
        )

    # -- what each program calls it

    _refused_hint = "its log says why"

    @abstractmethod
    def _accounts(self) -> tuple[str, list[Any]]: ...

    @abstractmethod
    def _transaction(self, transaction: dict[str, Any]) -> tuple[str, list[Any]]: ...

    @abstractmethod
    def _text(self, data: str) -> tuple[str, list[Any]]: ...

    @abstractmethod
    def _typed(self, document: dict[str, Any]) -> tuple[str, list[Any]]: ...


class Web3Signer(HotSigner):
    """web3signer's eth1 mode. It takes the chain's id from its own options, and typed data as text."""

    _refused_hint = "its log says why; the key must be loaded, and `--chain-id` the network's"

    def _accounts(self) -> tuple[str, list[Any]]:
        return "eth_accounts", []

    def _transaction(self, transaction: dict[str, Any]) -> tuple[str, list[Any]]:
        return "eth_signTransaction", [transaction]

    def _text(self, data: str) -> tuple[str, list[Any]]:
        return "eth_sign", [self.address, data]

    def _typed(self, document: dict[str, Any]) -> tuple[str, list[Any]]:
        return "eth_signTypedData", [self.address, json.dumps(document)]


class Clef(HotSigner):
    """geth's signer. It asks a person about each request for which it has no rule."""

    _refused_hint = "clef must have a rule that approves it (`clef --rules`), for nobody is there to do so"

    def _accounts(self) -> tuple[str, list[Any]]:
        return "account_list", []

    def _transaction(self, transaction: dict[str, Any]) -> tuple[str, list[Any]]:
        return "account_signTransaction", [{key: value for key, value in transaction.items() if key != "type"}]

    def _text(self, data: str) -> tuple[str, list[Any]]:
        return "account_signData", ["text/plain", self.address, data]

    def _typed(self, document: dict[str, Any]) -> tuple[str, list[Any]]:
        return "account_signTypedData", [self.address, document]


def open_signer(where: str) -> HotSigner:
    """where: as `signer` of operator.json. Asks it nothing yet. Raises ConfigError."""
    check_place(where)
    if not where.startswith(CLEF):
        return Web3Signer(f"the signer {redacted(where)}", _http(where))
    at = where.removeprefix(CLEF)
    return Clef(f"clef at {redacted(at)}", _http(at)) if "://" in at else Clef(f"clef at {at}", _unix(at))


def check_repeats(account: Any, message: SignableMessage) -> Any:
    """The account's signature of a message, which must be the same every time: bids are sealed by it. Raises SignerRefuses."""
    first, again = (account.sign_message(message) for _ in range(2))
    if bytes(first.signature) != bytes(again.signature):
        raise SignerRefuses(
            "the signer gives another signature each time, so that no bid could be opened after a restart",
            hint="use a signer whose signatures follow RFC 6979: web3signer with a key file, or clef; not a cloud's key service",
        )
    return first


def typed_json(domain: dict[str, Any], types: dict[str, Any], message: dict[str, Any]) -> dict[str, Any]:
    """Typed data as signers take it. Numbers are decimal texts: as JSON numbers those above 2^53 would lose digits."""
    kinds = {"name": "string", "version": "string", "chainId": "uint256", "verifyingContract": "address"}
    (primary,) = types
    return {
        "types": {"EIP712Domain": [{"name": key, "type": kinds[key]} for key in kinds if key in domain], **types},
        "primaryType": primary,
        "domain": {key: _text_of(value) for key, value in domain.items()},
        "message": {key: _text_of(value) for key, value in message.items()},
    }


def signature_of(data: bytes) -> Signature:
    """Of r, s and v; `s` in the lower half, as contracts and nodes want it. Raises ValueError."""
    if len(data) != SIGNATURE_BYTES:
        raise ValueError(f"expected {SIGNATURE_BYTES} bytes")
    r, s, v = int.from_bytes(data[:32], "big"), int.from_bytes(data[32:64], "big"), data[64] % 27
    if v > 1:
        raise ValueError("expected v of 0, 1, 27 or 28")
    if s > SECPK1_N // 2:
        s, v = SECPK1_N - s, 1 - v
    return Signature(v + 27, r, s, HexBytes(r.to_bytes(32, "big") + s.to_bytes(32, "big") + bytes([v + 27])))


def _text_of(value: Any) -> str:
    return "0x" + value.hex() if isinstance(value, bytes) else str(value)


def _plain(value: Any) -> Any:
    return bytes(HexBytes(value)) if isinstance(value, str | bytes) else value


# -- the ways to it


def _http(url: str) -> Ask:
    provider = Rpc(url, {})

    def ask(method: str, params: list[Any]) -> Any:
        try:
            return provider.make_request(RPCEndpoint(method), params)
        except (OSError, ValueError, TooOften) as error:  # requests' exceptions are OSErrors
            raise _silent(redacted(url), error) from None

    return ask


def _unix(path: str) -> Ask:
    def ask(method: str, params: list[Any]) -> Any:
        question = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as opened:
                timed = TimedSocket(opened)
                timed.deadline = time.monotonic() + ANSWER_S
                timed.arm()
                opened.connect(path)
                timed.sendall(question + b"\n")
                return _document(timed)
        except (OSError, ValueError) as error:
            raise _silent(path, error) from None

    return ask


def _document(timed: TimedSocket) -> Any:
    """The first JSON document that comes, which geth ends with a line's end. Raises OSError, ValueError."""
    body = bytearray()
    while not body.endswith(b"\n"):
        timed.arm()
        piece = timed.recv(PIECE_BYTES)
        if not piece:
            break
        body += piece
        if len(body) > MAX_ANSWER_BYTES:
            raise ValueError(f"its answer is larger than {MAX_ANSWER_BYTES:,} bytes")
    return json.loads(body)


def _silent(where: str, error: Exception) -> SignerUnreachable:
    return SignerUnreachable(f"the signer at {where} does not answer: {type(error).__name__}: {str(error)[:200]}")
