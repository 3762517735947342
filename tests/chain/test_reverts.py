"""Every reason a contract can give has one hint, and every hint has a reason that docs/protocol lists."""

from __future__ import annotations

import pickle
import re
from pathlib import Path

import pytest
from eth_abi import encode
from web3.exceptions import ContractLogicError

from zoo_compute import errors
from zoo_compute.chain.reverts import CLASSES, HINTS, reason_of, refusal, refusal_of
from zoo_compute.documentation import place_of

ROOT = Path(__file__).resolve().parents[2]
CONTRACTS = (
    *("registry", "tasks", "auction", "settlement", "rewards"),
    *("datasets", "channels", "availability", "custody", "audits", "admissions", "treasury"),
    *("referee", "evidence", "executor", "guardian", "pool"),
)
WIRED = ("registry", "tasks", "auction", "settlement", "rewards", "audits", "admissions")
GENERAL = {  # what docs/protocol writes as `CONTRACT: ...` -> where it applies
    "not the guardian": ("registry", "tasks", "auction"),
    "not the deployer": WIRED,
    "already wired": WIRED,
    "transfer failed": ("registry", "tasks", "rewards", "audits", "custody", "treasury", "channels"),
}


def listed() -> set[str]:
    """The reasons of docs/protocol; one written with CONTRACT counts for each contract it applies to."""
    text = "".join(page.read_text() for page in (ROOT / "docs" / "protocol").glob("*.md"))
    reasons = set(re.findall(rf"`((?:{'|'.join(CONTRACTS)}): [^`.]+)`", text))
    for general in re.findall(r"`CONTRACT: ([^`]+)`", text):
        reasons |= {f"{name}: {general}" for name in GENERAL[general]}
    return reasons


def test_the_protocol__lists_reasons_at_all():
    assert len(listed()) > 80


def test_every_reason_of_the_protocol__has_a_hint():
    assert sorted(listed() - HINTS.keys()) == []


def test_no_hint__is_for_a_reason_that_is_gone():
    ours = {reason for reason in HINTS if reason.partition(":")[0] in CONTRACTS}
    assert sorted(ours - listed()) == []


def test_every_reason_in_the_contracts__is_in_the_protocol():
    sources = [path for path in (ROOT / "contracts").rglob("*.vy") if "mocks" not in path.parts]
    reasons = {
        reason for path in sources for reason in re.findall(rf'"((?:{"|".join(CONTRACTS)}): [^"]+)"', path.read_text())
    }
    assert sorted(reasons - listed()) == []


@pytest.mark.parametrize(
    ("reason", "type_"),
    [
        ("registry: zero amount", errors.RegistryRefusal),
        ("tasks: not open", errors.TasksRefusal),
        ("auction: no bid", errors.AuctionRefusal),
        ("settlement: no claims", errors.SettlementRefusal),
        ("rewards: nothing to claim", errors.RewardsRefusal),
        ("treasury: unknown bucket", errors.TreasuryRefusal),
        ("referee: out of time", errors.RefereeRefusal),
        ("evidence: not here", errors.EvidenceRefusal),
        ("executor: no such part", errors.ExecutorRefusal),
        ("erc20: insufficient allowance", errors.TokenRefusal),
        ("timelock_controller: operation is not ready", errors.TimelockRefusal),
        ("something else", errors.BareRevert),
    ],
)
def test_a_reason__is_one_exception_with_a_hint(reason: str, type_: type[errors.Refusal]):
    error = refusal(reason, "Contract.function")
    assert type(error) is type_
    assert error.reason == reason
    assert str(error) == f"Contract.function: {reason}"
    assert error.hint or type_ is errors.BareRevert


def test_every_refusal_class__is_in_the_tree():
    assert all(issubclass(type_, errors.Refusal) for type_ in CLASSES.values())
    assert not issubclass(errors.Refusal, errors.Retryable)
    assert issubclass(errors.Unreachable, errors.Retryable)
    assert issubclass(errors.NotFunded, errors.NeedsOperator)


def test_a_refusal__survives_pickling():
    """Task queues carry exceptions between processes."""
    error = refusal("auction: not due", "Auction.clear")
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), copy.reason, copy.hint, str(copy)) == (type(error), error.reason, error.hint, str(error))


def test_return_data__is_read_as_a_reason():
    data = bytes.fromhex("08c379a0") + encode(["string"], ["settlement: no claims"])
    assert reason_of(data) == "settlement: no claims"
    assert reason_of(b"") == "reverted without a reason"
    assert reason_of(bytes.fromhex("4e487b71") + encode(["uint256"], [0x11])) == "panic 0x11"
    assert reason_of(data[:20]) == f"reverted with 0x{data[:20].hex()}"
    assert reason_of(bytes.fromhex("deadbeef")) == "reverted with 0xdeadbeef"


def test_an_error_of_web3__is_read_by_its_data_before_its_words():
    data = "0x08c379a0" + encode(["string"], ["auction: not due"]).hex()
    assert refusal_of(ContractLogicError("execution reverted: other", data=data), "op").reason == "auction: not due"
    assert refusal_of(ContractLogicError("execution reverted: auction: not due"), "op").reason == "auction: not due"
    assert refusal_of(ContractLogicError("execution reverted"), "op").reason == "execution reverted"


def test_a_hint__names_no_command_that_a_plain_install_lacks() -> None:
    assert [reason for reason, hint in HINTS.items() if "ape " in hint] == []


def entries(page: str) -> set[str]:
    """The anchors of a page of docs/reference."""
    text = (ROOT / "docs" / "reference" / page).read_text()
    return {place_of(heading) for heading in re.findall(r"^## (.+)$", text, re.M)}


def test_every_refusal__prints_the_address_of_its_entry():
    addresses = [refusal(reason).see for reason in HINTS]
    assert len(set(addresses)) == len(HINTS)
    assert [each for each in addresses if not re.fullmatch(r"docs/reference/errors/\w+\.md#[\w-]+", each)] == []
    places = {page: entries(f"errors/{page}") for page in {each.split("/")[3].split("#")[0] for each in addresses}}
    assert [each for each in addresses if each.split("#")[1] not in places[each.split("/")[3].split("#")[0]]] == []


def test_every_exception_that_says_one_thing__has_an_entry():
    kinds = [each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, errors.ZooError)]
    plain = [each for each in kinds if not issubclass(each, errors.Refusal) and each.__name__ not in errors.GENERAL]
    assert len(plain) > 12
    assert {each.__name__.lower() for each in plain} <= entries("errors.md")
    assert errors.WrongPassphrase("no").see == "docs/reference/errors.md#wrongpassphrase"
    assert errors.UserError("no").see == ""


def test_an_address__is_the_sites_where_it_is_served(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("ZOO_DOCS", "https://zoo.example/docs/")
    assert refusal("erc20: invalid signature").see == (
        "https://zoo.example/docs/reference/errors/erc20.html#erc20-invalid-signature"
    )
    assert "see https://zoo.example/docs/" in refusal("erc20: invalid signature").__notes__[1]
