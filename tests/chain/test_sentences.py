"""What a transaction does, in words, and how it is written for wallets."""

from __future__ import annotations

import json
from dataclasses import astuple
from types import SimpleNamespace
from typing import Any

import pytest

from zoo_compute.chain import argument_units, sentences
from zoo_compute.chain.call import Call, functions_of
from zoo_compute.chain.network import CONTRACTS
from zoo_compute.chain.unsigned import UnsignedAccount, UnsignedTransaction
from zoo_compute.chain.unsigned_forms import checksum_of, safe_batch, to_json
from zoo_compute.spec.params import COIN, ZEN, Terms

ADDRESSES = {name: "0x" + f"{index + 1:040x}" for index, name in enumerate(CONTRACTS)}
CHAIN: Any = SimpleNamespace(
    network=SimpleNamespace(contracts=ADDRESSES, chain_id=31_337, name="devnet"),
    tasks=SimpleNamespace(jobs=lambda _: SimpleNamespace(token=ADDRESSES["zen"])),
)
ME = "0x" + "11" * 20
UNITS = ("MONEY", "DOLLARS", "SECONDS", "MOMENTS", "PERCENT", "BYTES", "WORDS", "COUNTS")


def call(name: str, *args: Any) -> Call:
    contract, function = name.split(".")
    return Call(CONTRACTS[contract], ADDRESSES[contract], function, args, functions_of(CONTRACTS[contract])[function])


def uints(entries: Any) -> set[str]:
    names = {each["name"] for each in entries if each["type"].startswith("uint")}
    return names.union(*(uints(each["components"]) for each in entries if "components" in each))


@pytest.mark.parametrize("name", sentences.SENTENCES)
def test_a_sentence__names_arguments_of_its_function__and_each_number_has_one_unit(name: str) -> None:
    contract, function = name.split(".")
    inputs = functions_of(contract)[function]["inputs"]
    words = {each["name"]: "x" for each in inputs}
    assert sentences.SENTENCES[name].format(**words)
    for number in uints(inputs):
        assert [unit for unit in UNITS if number in getattr(argument_units, unit)] != [], number


def test_no_number__has_two_units() -> None:
    names = [name for unit in UNITS for name in getattr(argument_units, unit)]
    assert len(names) == len(set(names))


TERMS = Terms(
    token=ADDRESSES["zen"], work_root=b"w" * 32, state_root=b"s" * 32, data_root=b"d" * 32, manifest=b"\xab" * 32, rounds=4, slots=3,
    quorum=2, reserve=ZEN, max_price=2 * ZEN, aggregator_reserve=ZEN, aggregator_max_price=ZEN // 2, slot_s=90, aggregate_s=90,
    reexecute_s=60, flops=10**12, depth=1, policy=0, audit_bps=100,
)  # fmt: skip


@pytest.mark.parametrize(
    ("made", "sentence"),
    [
        (call("tasks.withdraw", COIN, ME), f"send what is owed to {ME} in coin to that account"),
        (call("audits.fund", 7, 3 * ZEN), "pay 3 ZEN for audits of job 7"),
        (
            call("tasks.post", astuple(TERMS)),
            "post a job and pay its escrow: 4 rounds of 3 slots, each for at most 2 ZEN a round, and an aggregator for at most 0.5 ZEN a "
            f"round; 26 ZEN in escrow, of which what is not spent comes back; manifest 0x{'ab' * 32}",
        ),
        (call("registry.declare", 3, 2, 0b111), "promise that operator 3 is available in hours 0-2, at tier silver"),
        (call("registry.announce", 3, "http://x\n"), "announce that operator 3 serves its store at 'http://x\\n'"),
        (call("guardian.appoint", ME), f"call Guardian.appoint with account {ME}"),
        (call("datasets.contribute", b"\1" * 32, b"\2" * 32, 2_500, b"fox".ljust(32, b"\0")), "record a dataset of 2.5 kB named 'fox'"),
    ],
)  # fmt: skip
def test_a_call_in_words(made: Call, sentence: str) -> None:
    assert sentences.describe(CHAIN, made).startswith(sentence)


def test_a_scheduled_call__says_what_will_be_called() -> None:
    inner = call("treasury.spend", ADDRESSES["zen"], 3, ME, 5 * ZEN)
    scheduled = call("timelock.schedule", inner.address, 0, inner.encode(), bytes(32), bytes(32), 3_600)
    said = sentences.describe(CHAIN, scheduled)
    assert said.startswith("schedule through the timelock, for 1 h from now on: pay 5 ZEN from the treasury's bucket")
    unknown = call("timelock.schedule", ADDRESSES["treasury"], 0, b"\1\2\3\4" + bytes(32), bytes(32), bytes(32), 3_600)
    assert "36 bytes 0x0102030400000000" in sentences.describe(CHAIN, unknown)


def transaction(made: Call | None, value: int = 0) -> UnsignedTransaction:
    to, data = (made.address, "0x" + made.encode().hex()) if made else (ME, "0x")
    return UnsignedTransaction(ME, to, data, value, 31_337, 60_000, made)


def test_json_for_wallets__has_quantities_in_hex_and_arguments_with_units() -> None:
    made = to_json(CHAIN, transaction(call("audits.fund", 7, 3 * ZEN), value=5))
    assert (made["value"], made["chainId"], made["gas"], made["from"]) == ("0x5", "0x7a69", "0xea60", ME)
    assert made["arguments"] == [
        {"name": "job", "type": "uint256", "value": "7", "text": "7"},
        {"name": "amount", "type": "uint256", "value": str(3 * ZEN), "text": "3 ZEN"},
    ]
    assert made["description"].endswith(f"; sends 5 wei along (Audits.fund at {ADDRESSES['audits']})")
    assert json.loads(json.dumps(made)) == made
    assert to_json(CHAIN, transaction(None, value=ZEN))["description"] == f"send 1 coin to {ME}"


# A file that the Transaction Builder 1.18.2 wrote, as published.
PUBLISHED = {
    "version": "1.0",
    "chainId": "1",
    "createdAt": 1761326849944,
    "meta": {
        "name": "Transactions Batch",
        "description": "",
        "txBuilderVersion": "1.18.2",
        "createdFromSafeAddress": "0xA77DE01e157f9f57C7c4A326eeE9C4874D0598b6",
        "createdFromOwnerAddress": "",
        "checksum": "0x8b5032f716845c8b08bab3d63dbd9ba92e056f3557793cd041e59b84e16aa989",
    },
    "transactions": [
        {
            "to": "0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48",
            "value": "0",
            "data": None,
            "contractMethod": {
                "inputs": [
                    {"internalType": "address", "name": "spender", "type": "address"},
                    {"internalType": "uint256", "name": "value", "type": "uint256"},
                ],
                "name": "approve",
                "payable": False,
            },
            "contractInputsValues": {
                "spender": "0x474e5Ded6b5D078163BFB8F6dBa355C3aA5478C8",
                "value": "100000000000",
            },
        }
    ],
}


def test_the_checksum_of_a_safe_batch__is_the_transaction_builders() -> None:
    assert checksum_of(PUBLISHED) == PUBLISHED["meta"]["checksum"]  # type: ignore[index]


def test_a_safe_batch__has_exact_calldata__and_its_own_checksum() -> None:
    account = UnsignedAccount(ME)
    account.transactions += [transaction(call("audits.fund", 7, 3 * ZEN)), transaction(None, value=9)]
    batch = safe_batch(CHAIN, account, ["pay 3 ZEN", "send 9 wei"])
    assert (batch["version"], batch["chainId"], batch["meta"]["createdFromSafeAddress"]) == ("1.0", "31337", ME)
    assert [each["value"] for each in batch["transactions"]] == ["0", "9"]
    assert batch["transactions"][0]["data"] == account.transactions[0].data
    assert batch["meta"]["description"] == "1. pay 3 ZEN\n2. send 9 wei"
    assert checksum_of(batch) == batch["meta"]["checksum"]
    assert checksum_of({**batch, "chainId": "1"}) != batch["meta"]["checksum"]
