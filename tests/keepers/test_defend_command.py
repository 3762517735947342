"""Why `zoo defend` leaves an ask open."""

from __future__ import annotations

import pytest

from keepers.cli.defend import why_open
from zoo_compute.spec import clocks
from zoo_compute.spec.clocks import PRODUCTION


@pytest.mark.parametrize(
    ("after_s", "reason"),
    [
        (0, "for 30 min its operator alone is paid for it"),
        (PRODUCTION.exclusive_s - 1, "for 1 s its operator alone is paid for it"),
        (PRODUCTION.exclusive_s, "not computed"),
        (PRODUCTION.committer_s, "not computed"),
        (PRODUCTION.committer_s + 1, "out of time"),
    ],
)
def test_an_ask_that_was_not_tried__says_for_how_long_nobody_else_is_paid(after_s, reason):
    asked = clocks.asked(clocks.first(0, PRODUCTION), 100, 10**6, False, 0, 1, 60, PRODUCTION)
    assert why_open(asked, 100 + after_s, PRODUCTION) == reason
