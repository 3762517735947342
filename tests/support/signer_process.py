"""A signer as a process of its own: web3signer's JSON-RPC (eth1) or clef's external API, with eth-account behind it.

    python -m tests.support.signer_process web3signer|clef KEYFILE PASSPHRASE --chain-id N (--port N | --socket PATH)

It takes what the real ones take and no more: web3signer takes the chain's id from its own options and typed data as text, clef takes
typed data as an object, and both want numbers in hex. The method `test_lie` has it do what a signer that was taken over does.
"""

from __future__ import annotations

import argparse
import json
import secrets
import socketserver
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from eth_account import Account
from eth_account.messages import encode_defunct, encode_typed_data
from eth_account.signers.local import LocalAccount
from eth_keys.constants import SECPK1_N
from hexbytes import HexBytes

OTHER = "0x" + "22" * 20
# Of a transaction.
CHANGES: dict[str, dict[str, Any]] = {
    "to": {"to": OTHER},
    "value": {"value": 10**18},
    "nonce": {"nonce": 77},
    "data": {"data": "0x00"},
    "gas": {"gas": 999_999},
    "fee": {"maxFeePerGas": 10**15},
    "tip": {"maxPriorityFeePerGas": 10**9 + 1},
    "chain": {"chainId": 5},
    "access": {"accessList": [{"address": OTHER, "storageKeys": []}]},
}


class Refused(Exception):
    """What the caller reads as an error."""


class Signer:
    """lie: one of CHANGES, or what else is asked for below."""

    def __init__(self, account: LocalAccount, chain_id: int) -> None:
        self.account, self.chain_id, self.lie = account, chain_id, ""

    def answer(self, question: dict[str, Any]) -> dict[str, Any]:
        whole = {"jsonrpc": "2.0", "id": question["id"]}
        if question["method"] == "test_lie":
            (self.lie,) = question["params"]
            return {**whole, "result": None}
        if self.lie == "other answer":
            return {**whole, "result": {"something": "else"}}
        try:
            if self.lie == "refuse":
                raise Refused("Request denied")
            return {**whole, "result": self.result(question["method"], question["params"])}
        except (Refused, KeyError, ValueError, TypeError, AssertionError) as error:
            return {**whole, "error": {"code": -32000, "message": f"{type(error).__name__}: {error}"}}

    def result(self, method: str, params: list[Any]) -> Any:
        raise NotImplementedError

    def accounts(self) -> list[str]:
        return [OTHER if self.lie == "another account" else self.account.address.lower()]

    def sign(self, asked: dict[str, Any]) -> str:
        """asked: a transaction with numbers in hex."""
        numbers = ("nonce", "gas", "value", "maxFeePerGas", "maxPriorityFeePerGas")
        transaction = {name: int(asked[name], 16) for name in numbers}
        transaction |= {"type": 2, "chainId": self.chain_id, "to": asked["to"], "data": asked["data"]}
        transaction |= CHANGES.get(self.lie, {})
        signer = Account.create() if self.lie == "key" else self.account
        return "0x" + signer.sign_transaction(transaction).raw_transaction.hex()

    def signature(self, address: str, message: Any) -> str:
        if address.lower() != self.account.address.lower():
            raise Refused("not an unlocked account")
        signer = Account.create() if self.lie == "key" else self.account
        if self.lie == "random":
            message = message._replace(body=message.body + secrets.token_bytes(1))
        made = signer.sign_message(message)
        data = bytes(made.signature)
        if self.lie == "high s":
            data = data[:32] + (SECPK1_N - made.s).to_bytes(32, "big") + bytes([55 - made.v])
        return "0x" + {"no signature": b"", "short": data[:64]}.get(self.lie, data).hex()


class Web3Signer(Signer):
    def result(self, method: str, params: list[Any]) -> Any:
        match method, params:
            case "eth_accounts", []:
                return self.accounts()
            case "eth_signTransaction", [{"from": sender} as asked] if sender.lower() == self.account.address.lower():
                return self.sign(asked)
            case "eth_sign", [str() as address, str() as data]:
                return self.signature(address, encode_defunct(hexstr=data))
            case "eth_signTypedData", [str() as address, str() as document]:
                return self.signature(address, typed(json.loads(document)))
        raise Refused("INVALID_PARAMS")


class Clef(Signer):
    def result(self, method: str, params: list[Any]) -> Any:
        match method, params:
            case "account_list", []:
                return self.accounts()
            case "account_signTransaction", [{"from": _, "chainId": chain} as asked] if int(chain, 16) == self.chain_id:
                raw = self.sign(asked)
                return {"raw": raw, "tx": {"hash": "0x" + Account.recover_transaction(raw)[2:]}}
            case "account_signData", ["text/plain", str() as address, str() as data]:
                signature = HexBytes(self.signature(address, encode_defunct(hexstr=data)))
                return "0x" + (signature[:-1] + bytes([signature[-1] % 27]) if signature else signature).hex()
            case "account_signTypedData", [str() as address, dict() as document]:
                return self.signature(address, typed(document))
        raise Refused("the method does not exist, or has other parameters")


def typed(document: dict[str, Any]) -> Any:
    """Read as those programs do: every number a text, the domain's type listed."""
    types = document["types"]
    assert [each["name"] for each in types["EIP712Domain"]] == list(document["domain"])
    for values, fields in (
        (document["domain"], types["EIP712Domain"]),
        (document["message"], types[document["primaryType"]]),
    ):
        for field in fields:
            assert isinstance(values[field["name"]], str), f"{field['name']} is not a text"
            if field["type"].startswith("uint"):
                values[field["name"]] = int(values[field["name"]], 0)
    return encode_typed_data(full_message=document)


def served(signer: Signer, body: bytes) -> bytes:
    if signer.lie == "hang" and b"test_lie" not in body:
        time.sleep(3_600)
    answer = json.dumps(signer.answer(json.loads(body))).encode() + b"\n"
    return b" " * 2**27 + answer if signer.lie == "large" and b"null" not in answer else answer


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("kind", choices=("web3signer", "clef"))
    parser.add_argument("keyfile", type=Path)
    parser.add_argument("passphrase")
    parser.add_argument("--chain-id", type=int, required=True)
    parser.add_argument("--port", type=int)
    parser.add_argument("--socket")
    options = parser.parse_args()
    account = Account.from_key(Account.decrypt(json.loads(options.keyfile.read_text()), options.passphrase))
    signer = {"web3signer": Web3Signer, "clef": Clef}[options.kind](account, options.chain_id)

    class Http(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = served(signer, self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            for at in range(len(body)) if signer.lie == "drip" and b"null" not in body else ():
                self.wfile.write(body[at : at + 1])
                time.sleep(1)
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None: ...

    class Unix(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            self.wfile.write(served(signer, self.rfile.readline()))

    server: socketserver.BaseServer
    if options.socket:
        server = socketserver.ThreadingUnixStreamServer(options.socket, Unix)
    else:
        server = ThreadingHTTPServer(("127.0.0.1", options.port), Http)
    print("ready", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
