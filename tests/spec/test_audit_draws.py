"""How often chance draws a lie, and to whom units fall: P(detection) = 1 - (1 - s)^n, whoever bonds in how many names."""

from __future__ import annotations

from collections import Counter

import pytest
from eth_utils.crypto import keccak

from zoo_compute.spec.auditing import Draw, Verdicts, assigned, is_drawn, lapse_s, units_in, verdicts_of, words_of
from zoo_compute.spec.params import DEVNET, PRODUCTION

LIES = 2_000  # simulated for each rate and number of units
TOLERANCE = 0.045  # four standard deviations of a share over so many lies


def seed_of(number: int) -> bytes:
    return bytes(keccak(number.to_bytes(32, "big")))


@pytest.mark.parametrize("rate_bps", [200, 500, 2_000])
@pytest.mark.parametrize("units", [1, 6, 20])
def test_a_lie_in_n_units__is_drawn_as_often_as_the_formula_says(rate_bps: int, units: int) -> None:
    caught = sum(any(is_drawn(seed_of(lie), 1 + unit, rate_bps) for unit in range(units)) for lie in range(LIES))
    expected = 1 - (1 - rate_bps / 10_000) ** units
    assert abs(caught / LIES - expected) < TOLERANCE, f"{caught / LIES:.3f} of {LIES} lies, {expected:.3f} expected"


def test_units__fall_to_operators_by_their_share_of_places_whatever_their_names() -> None:
    """Five places of ten, in one name or in five: the same share. Nobody audits its own work, or replaces itself."""
    alone, many = [1] * 5 + [9] * 5, [1, 2, 3, 4, 5] + [9] * 5
    shares = []
    for places in (alone, many):
        firsts: Counter[int] = Counter()
        for number in range(LIES):
            draw = Draw(1, 1, len(places), 100, 10_000, True, seed_of(number))
            auditor, replacement = assigned(draw, 1, 7, places.__getitem__)
            firsts[auditor] += 1
            assert auditor != replacement
        shares.append(sum(count for operator, count in firsts.items() if operator <= 5) / LIES)
    assert all(abs(share - 0.5) < TOLERANCE for share in shares), shares


def test_a_claims_own_operator__is_passed_over_though_it_holds_most_places() -> None:
    places = [7] * 3 + [9]
    found = Counter(
        assigned(Draw(1, 1, 4, 100, 10_000, True, seed_of(number)), 1, 7, places.__getitem__)[0]
        for number in range(LIES)
    )
    assert set(found) == {0, 9}
    assert abs(found[9] / LIES - (1 - 0.75**4)) < TOLERANCE  # four candidates; the rest falls to nobody


def test_a_unit_that_is_not_drawn__falls_to_nobody() -> None:
    undrawn = Draw(1, 1, 1, 100, 10_000)
    assert assigned(undrawn, 1, 7, lambda _: 9) == (0, 0)


def test_bitmaps__have_the_units_that_they_were_made_of() -> None:
    units = [0, 1, 255, 256, 16_384]
    assert list(units_in(words_of(units))) == units
    verdicts = verdicts_of(units, [2])
    assert verdicts.units == sorted([*units, 2])
    assert verdicts.without(256).units == [0, 1, 2, 255, 16_384]
    assert Verdicts().units == []
    assert words_of([]) == ()


def test_verdicts__lapse_after_disputes_age_and_seals_are_opened() -> None:
    for preset in (DEVNET, PRODUCTION):
        clocks = preset.clocks
        assert lapse_s(clocks) == 2 * (clocks.committer_s + clocks.asker_s) + 2 * clocks.opening_s
