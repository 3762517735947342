"""Why `zoo defend` leaves an ask open, and whether that was this account's to answer."""

from __future__ import annotations

import pytest

from keepers.cli.defend import ANYONE, FALSE_EXIT_CODE, NOBODY, NOT_ANSWERED, OPERATOR, exit_code, why_open
from zoo_compute.disputes.roles import AUTHORS
from zoo_compute.errors import NeedsOperator
from zoo_compute.spec import clocks
from zoo_compute.spec.clocks import PRODUCTION

NOT_COMPUTED = "not computed: this machine lacks the data, or needs longer"
CLOCKS = clocks.asked(clocks.first(0, PRODUCTION), 100, 10**6, False, 0, 1, 60, PRODUCTION)


@pytest.mark.parametrize(
    ("after_s", "by", "reason"),
    [
        (0, ANYONE, "for 30 min its operator alone is paid for it"),
        (PRODUCTION.exclusive_s - 1, ANYONE, "for 1 s its operator alone is paid for it"),
        (PRODUCTION.exclusive_s, ANYONE, NOT_COMPUTED),
        (PRODUCTION.committer_s, ANYONE, NOT_COMPUTED),
        (PRODUCTION.committer_s + 1, NOBODY, "out of time"),
    ],
)
def test_an_ask_that_was_not_tried__says_for_how_long_nobody_else_is_paid(after_s, by, reason):
    assert why_open(CLOCKS, 100 + after_s, PRODUCTION) == (by, reason)


def test_an_ask_for_a_new_commitment__is_its_operators_alone():
    assert why_open(CLOCKS, 101, PRODUCTION, AUTHORS) == (OPERATOR, AUTHORS)
    assert why_open(CLOCKS, 101 + PRODUCTION.committer_s, PRODUCTION, AUTHORS) == (NOBODY, "out of time")
    assert why_open(CLOCKS, 101, PRODUCTION, "something failed") == (ANYONE, "something failed")


def test_an_ask_whose_answer_could_not_be_paid__says_so():
    """It is not that this machine lacks the data."""
    poor, later = NeedsOperator("0xab has 0 coin"), 100 + PRODUCTION.exclusive_s
    assert why_open(CLOCKS, later, PRODUCTION, "", poor) == (ANYONE, "not sent: 0xab has 0 coin")
    assert why_open(CLOCKS, later, PRODUCTION, AUTHORS, poor) == (OPERATOR, AUTHORS)
    assert why_open(CLOCKS, later - 1, PRODUCTION, "", poor)[1].startswith("for 1 s its operator")


@pytest.mark.parametrize(
    ("open_to", "is_false", "code"),
    [
        ([], False, 0),
        ([OPERATOR, NOBODY], False, 0),
        ([OPERATOR, ANYONE], False, NOT_ANSWERED),
        ([ANYONE], True, FALSE_EXIT_CODE),
    ],
)
def test_the_exit_code__counts_asks_that_this_account_could_answer(open_to, is_false, code):
    disputes = [{"false": False, "left": []}, {"false": is_false, "left": [{"by": each} for each in open_to]}]
    assert exit_code({"disputes": disputes}) == code
