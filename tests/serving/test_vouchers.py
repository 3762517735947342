"""Vouchers: what a signature is bound to, and what strangers may send in its place. tests/contracts/test_channels.py has the contract's part."""

from __future__ import annotations

import pytest
from eth_account import Account
from hypothesis import given
from hypothesis import strategies as st

from repops.fields import BadField
from tests.support.consent import HALF_ORDER, ORDER
from zoo_compute.serving.vouchers import SignedVoucher, Voucher, domain_of, sign, verify

KEY = b"\x05" * 32
SIGNER = Account.from_key(KEY).address
CONTRACT = "0x" + 20 * "c0"
DOMAIN = domain_of(31_337, CONTRACT)
VOUCHER = Voucher(3, 500)
GOOD = sign(DOMAIN, VOUCHER, KEY)
TYPES = {"Voucher": [{"name": "channel", "type": "uint256"}, {"name": "total", "type": "uint256"}]}


@given(
    st.integers(0, 2**256 - 1), st.integers(0, 2**256 - 1), st.integers(1, 2**63), st.binary(min_size=20, max_size=20)
)
def test_sign__is_what_a_wallet_signs_of_typed_data(channel: int, total: int, chain_id: int, contract: bytes) -> None:
    address = "0x" + contract.hex()
    domain = {"name": "Zoo Channels", "version": "1", "chainId": chain_id, "verifyingContract": address}
    expected = Account.from_key(KEY).sign_typed_data(domain, TYPES, {"channel": channel, "total": total})
    ours, voucher = domain_of(chain_id, address), Voucher(channel, total)
    assert sign(ours, voucher, KEY) == bytes(expected.signature)
    assert verify(ours, voucher, bytes(expected.signature), SIGNER)


def test_verify__of_anything_else__is_false() -> None:
    s = int.from_bytes(GOOD[32:64], "big")
    assert s <= HALF_ORDER
    other_s = GOOD[:32] + (ORDER - s).to_bytes(32, "big") + bytes([55 - GOOD[64]])
    assert verify(DOMAIN, VOUCHER, GOOD, SIGNER)
    assert verify(DOMAIN, VOUCHER, GOOD, SIGNER.lower())
    for voucher in (Voucher(4, 500), Voucher(3, 501), Voucher(500, 3), Voucher(-1, 500), Voucher(3, 2**256)):
        assert not verify(DOMAIN, voucher, GOOD, SIGNER)
    for domain in (domain_of(1, CONTRACT), domain_of(31_337, "0x" + 20 * "c1")):
        assert not verify(domain, VOUCHER, GOOD, SIGNER)
    assert not verify(DOMAIN, VOUCHER, GOOD, "0x" + 40 * "0")
    assert not verify(DOMAIN, VOUCHER, GOOD, CONTRACT)
    nobody = bytes(64) + b"\x1b"
    beyond = ORDER.to_bytes(32, "big") + GOOD[32:]
    for signature in (other_s, GOOD[:64], GOOD + b"\0", GOOD[:64] + b"\0", b"", nobody, beyond, b"\xff" * 65):
        assert not verify(DOMAIN, VOUCHER, signature, SIGNER)


@given(st.binary(min_size=65, max_size=65))
def test_verify__of_any_bytes__raises_nothing(signature: bytes) -> None:
    assert not verify(DOMAIN, VOUCHER, signature, SIGNER)


def test_sign__a_number_that_is_no_uint256__is_refused() -> None:
    for voucher in (Voucher(-1, 0), Voucher(1, 2**256)):
        with pytest.raises(ValueError, match="no uint256"):
            sign(DOMAIN, voucher, KEY)


def test_a_signed_voucher__is_json_and_back() -> None:
    signed = SignedVoucher(Voucher(3, 2**255), sign(DOMAIN, Voucher(3, 2**255), KEY))
    assert SignedVoucher.of_dict(signed.to_dict()) == signed
    assert signed.to_dict() == {"channel": 3, "total": str(2**255), "signature": "0x" + signed.signature.hex()}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"channel": 0}, "channel is 0"),
        ({"channel": 2**63}, "expected a channel's number"),
        ({"channel": "3"}, "channel"),
        ({"channel": True}, "channel"),
        ({"total": 500}, "total"),
        ({"total": "-1"}, "no decimal text"),
        ({"total": "0500"}, "no decimal text"),
        ({"total": "٣"}, "no decimal text"),
        ({"total": str(2**256)}, "below 2\\^256"),
        ({"signature": "0x" + GOOD.hex()[:-2]}, "130 hex digits"),
        ({"signature": GOOD.hex()}, "130 hex digits"),
        ({"more": 1}, "unknown key 'more'"),
    ],
)
def test_what_a_stranger_sends__is_refused_with_what_was_expected(change: dict, message: str) -> None:
    with pytest.raises(BadField, match=message):
        SignedVoucher.of_dict({**SignedVoucher(VOUCHER, GOOD).to_dict(), **change})


def test_what_lacks_a_field__or_is_no_object__is_refused() -> None:
    for raw in (None, [], "voucher", {}, {"channel": 3, "total": "5"}):
        with pytest.raises(BadField):
            SignedVoucher.of_dict(raw)
