"""How unsigned transactions are written: as JSON for wallets, and as a batch for the Transaction Builder of a Safe."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from eth_utils.crypto import keccak

from zoo_compute.chain.sentences import arguments_of, sentence_of

if TYPE_CHECKING:
    from zoo_compute.chain.connection import Chain
    from zoo_compute.chain.unsigned import UnsignedAccount, UnsignedTransaction

SAFE_FORMAT = "1.0"
BUILDER = "1.18.0"  # the release of the Transaction Builder whose files these are like


def to_json(chain: Chain, transaction: UnsignedTransaction) -> dict[str, Any]:
    """What `eth_sendTransaction` takes, and what it means: contract, function, arguments with units, and one sentence."""
    call = transaction.call
    return {
        **transaction.to_rpc(),
        "description": sentence_of(chain, transaction),
        "contract": call.contract if call else None,
        "function": call.function if call else None,
        "arguments": arguments_of(chain, call) if call else [],
    }


def safe_batch(chain: Chain, account: UnsignedAccount, sentences: Sequence[str]) -> dict[str, Any]:
    """A file that the Transaction Builder of a Safe opens. It checks the checksum; the calldata is exact."""
    batch = {
        "version": SAFE_FORMAT,
        "chainId": str(chain.network.chain_id),
        "createdAt": int(time.time() * 1000),
        "meta": {
            "name": f"Zoo Compute, network {chain.network.name}",
            "description": "\n".join(f"{number}. {each}" for number, each in enumerate(sentences, 1)),
            "txBuilderVersion": BUILDER,
            "createdFromSafeAddress": account.address,
            "createdFromOwnerAddress": "",
        },
        "transactions": [
            {
                "to": each.to,
                "value": str(each.value),
                "data": each.data,
                "contractMethod": None,
                "contractInputsValues": None,
            }
            for each in account.transactions
        ],
    }
    batch["meta"]["checksum"] = checksum_of(batch)  # type: ignore[index]
    return batch


def checksum_of(batch: dict[str, Any]) -> str:
    """The Transaction Builder's checksum of a batch, without its name and without a checksum in it."""
    meta = {key: value for key, value in batch["meta"].items() if key != "checksum"} | {"name": None}
    return "0x" + keccak(text=_serialized({**batch, "meta": meta})).hex()


def _serialized(value: Any) -> str:
    """As the Transaction Builder writes a file before it hashes it: keys in order, in front of the values."""
    if isinstance(value, list):
        return f"[{','.join(map(_serialized, value))}]"
    if isinstance(value, dict):
        keys = sorted(value)
        return "{" + _json(keys) + "".join(f"{_serialized(value[key])}," for key in keys) + "}"
    return _json(value)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
