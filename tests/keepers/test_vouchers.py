"""When an operator shows a voucher on chain."""

from __future__ import annotations

import pytest

from keepers.decisions.vouchers import GAS_SHARE, Due, is_to_close, is_to_redeem

NOTICE_S, END, GAS = 1_000, 50_000, 7
SEEN = END - NOTICE_S + 200  # by every process of the operator, which looks ten times in a notice


def due(unpaid: int = GAS + 1, *, in_zen: bool = True, ends_at: int = END) -> Due:
    return Due(1, unpaid, in_zen, ends_at)


@pytest.mark.parametrize(
    ("case", "now", "closes"),
    [
        (due(), SEEN - 1, False),
        (due(), SEEN, True),
        (due(), END + 1, True),  # nobody called refund yet
        (due(GAS), SEEN, False),  # not worth it
        (due(GAS, in_zen=False), SEEN, True),
        (due(0, in_zen=False), SEEN, False),
        (due(ends_at=0), SEEN, False),
    ],
)
def test_a_channel__is_closed_once_no_process_accepts_its_vouchers(case: Due, now: int, closes: bool) -> None:
    assert is_to_close(case, now, NOTICE_S, GAS) is closes


def test_a_voucher__is_redeemed_where_gas_is_a_hundredth_of_it() -> None:
    assert not is_to_redeem(due(GAS_SHARE * GAS, ends_at=0), GAS)
    assert is_to_redeem(due(GAS_SHARE * GAS + 1, ends_at=0), GAS)
    assert not is_to_redeem(due(GAS_SHARE * GAS + 1, ends_at=0, in_zen=False), GAS)
    assert not is_to_redeem(due(GAS_SHARE * GAS + 1), GAS)
