"""Every message that the project signs, in words: all fields, with their units."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from keepers.decisions import custody_statements, receipts
from zoo_compute.amounts import ZEN as TOKEN
from zoo_compute.amounts import Token
from zoo_compute.chain import argument_units, permits, typed_sentences
from zoo_compute.chain.network import CONTRACTS
from zoo_compute.chain.typed_sentences import typed_sentence
from zoo_compute.operators.consent import REGISTRATION, Consent
from zoo_compute.spec.params import ZEN

ROOT = Path(__file__).resolve().parents[2]
ADDRESSES = {name: "0x" + f"{index + 1:040x}" for index, name in enumerate(CONTRACTS)}
CHAIN: Any = SimpleNamespace(network=SimpleNamespace(contracts=ADDRESSES, chain_id=31_337))
ME, HOT = "0x" + "11" * 20, "0x" + "22" * 20
TYPE = re.compile(r"\"(\w+)\(((?:\w+ \w+,?)+)\)\"")


def types_in(folder: Path) -> dict[str, list[tuple[str, str]]]:
    """The typed messages that contracts check, by name: (name, type) of each field."""
    found = {}
    for path in folder.rglob("*.vy"):
        for name, fields in TYPE.findall(path.read_text()):
            if name[0].isupper() and name != "EIP712Domain":
                found[name] = [tuple(each.split()[::-1]) for each in fields.split(",")]
    return found  # type: ignore[return-value]


SIGNED = types_in(ROOT / "contracts") | {"Permit": [(each["name"], each["type"]) for each in permits.TYPES["Permit"]]}


def test_every_message_that_a_contract_checks__has_a_sentence_with_all_its_fields() -> None:
    assert set(SIGNED) == set(typed_sentences.SENTENCES)
    assert len(SIGNED) == 7
    for name, fields in SIGNED.items():
        named = set(re.findall(r"\{(\w+)\}", typed_sentences.SENTENCES[name]))
        assert named == {field for field, _ in fields}, name


def test_every_number_of_a_message__has_a_unit() -> None:
    known = frozenset[str]().union(
        *(getattr(argument_units, unit) for unit in ("MONEY", "SECONDS", "MOMENTS", "BYTES", "WORDS", "COUNTS"))
    )
    assert {field for fields in SIGNED.values() for field, kind in fields if kind == "uint256"} <= known


def test_what_is_signed__is_what_the_contracts_check() -> None:
    assert [(each["name"], each["type"]) for each in REGISTRATION] == SIGNED["Registration"]
    assert [(name, "uint256") for name in receipts._FIELDS] == SIGNED["Receipt"]
    for title, fields in custody_statements.TYPES.values():
        assert [("job", "uint256"), *fields] == SIGNED[title]


def domain(contract: str) -> dict[str, Any]:
    return {"name": "x", "version": "1", "chainId": 31_337, "verifyingContract": ADDRESSES[contract]}


def test_a_voucher_in_words__is_in_its_channels_token(monkeypatch: pytest.MonkeyPatch) -> None:
    tokens = {HOT: Token("USDC", 6, HOT)}
    monkeypatch.setattr(typed_sentences, "token_of", lambda _, address: tokens[address])
    chain: Any = SimpleNamespace(
        network=CHAIN.network, channels=SimpleNamespace(channels=lambda _: SimpleNamespace(token=HOT))
    )
    types = {"Voucher": [{"name": name, "type": kind} for name, kind in SIGNED["Voucher"]]}
    said = typed_sentence(chain, domain("channels"), types, {"channel": 3, "total": 2_500_000})
    assert said.startswith("say that channel 3 owes its operator 2.5 USDC in all; only Channels (0x")


def test_a_permit_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(typed_sentences, "token_of", lambda *_: TOKEN)
    message = {"owner": ME, "spender": ADDRESSES["tasks"], "value": 14 * ZEN, "nonce": 3, "deadline": 1_795_000_000}
    said = typed_sentence(CHAIN, domain("zen"), permits.TYPES, message)
    assert said == (
        f"let TaskRegistry ({ADDRESSES['tasks']}) take up to 14 ZEN from {ME}, once, until 2026-11-18 11:06:40 UTC (permit 3); "
        f"only ZenToken ({ADDRESSES['zen']}) on chain 31337 accepts it"
    )


def test_a_consent_in_words() -> None:
    consent = Consent(31_337, ADDRESSES["registry"], ME, HOT, 3, 80, str(1_000 * ZEN), "", 0, 1_795_000_000)
    said = typed_sentence(CHAIN, *consent.typed_data())
    assert (
        f"registers {ME} as the owner of an operator of class datacenter with 80 GB, hot key {HOT}, endpoint none, and pays 1,000 ZEN"
        in said
    )
    assert said.endswith(f"only NodeRegistry ({ADDRESSES['registry']}) on chain 31337 accepts it")


def test_what_a_hot_key_signs__in_words() -> None:
    chain: Any = SimpleNamespace(network=CHAIN.network)
    held = custody_statements.Signed(custody_statements.INPUTS, 5, f"{0b1011:064x}")
    assert "hold what seats 0, 1, 3 of job 7 committed in turn 5" in typed_sentence(
        CHAIN, *custody_statements._typed(chain, 7, held)
    )
    receipt = receipts.Receipt(server=2, client=9, epoch=40, total=3_000_000)
    assert "operator 2 sent operator 9 3 MB in epoch 40" in typed_sentence(CHAIN, *receipts._typed(chain, receipt))


def test_a_message_of_another_type__is_listed_field_by_field() -> None:
    types = {"Vote": [{"name": "job", "type": "uint256"}, {"name": "account", "type": "address"}]}
    said = typed_sentence(CHAIN, domain("tasks"), types, {"job": 4, "account": ME})
    assert said.startswith(f"Vote: job 4, account {ME}; only TaskRegistry")
