"""Coin that a submitter needs to post a job, beside the escrow."""

from types import SimpleNamespace
from typing import Any

import pytest

from zoo_compute.amounts import ZEN
from zoo_compute.errors import NotFunded
from zoo_compute.jobs.submission import check_funds, posting_deposit

GWEI = 10**9


def chain(coin: int, base_fee: int) -> Any:
    return SimpleNamespace(
        tasks=SimpleNamespace(is_allowed=lambda _: True),
        token=lambda _: SimpleNamespace(balanceOf=lambda _: 10**18),
        coin=lambda _: coin,
        w3=SimpleNamespace(eth=SimpleNamespace(get_block=lambda _: {"baseFeePerGas": base_fee})),
    )


@pytest.mark.parametrize(("base_fee", "deposit"), [(0, 4 * 10**15), (GWEI // 2, 4 * 10**15), (8 * GWEI, 36 * 10**15)])
def test_the_deposit_is_twice_what_the_next_blocks_base_fee_asks_for(base_fee: int, deposit: int) -> None:
    assert posting_deposit(chain(0, base_fee)) == deposit
    check_funds(chain(deposit + 1, base_fee), "0xA", ZEN, 10**18)
    with pytest.raises(NotFunded, match="posting takes a deposit of"):
        check_funds(chain(deposit, base_fee), "0xA", ZEN, 10**18)
