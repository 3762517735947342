"""What an operator is, against what a job asks for: every part on its own, and at its edge."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zoo_compute.spec.requirements import Capability, Requirements, is_known, is_met, requirements_of, unmet

EU, EU_DE, EU_FR = 0x45550000, 0x45554445, 0x45554652
HAS = Capability(gpu_class=3, vram_gb=80, is_admitted=True, region=EU_DE, tier=2, hours=12)
ASKS = Requirements(region=EU_DE, vram_gb=80, classes=1 << 3, hours=12, tier=2, admitted=True)


def test_an_operator_that_is_exactly_what_is_asked_for__meets_it() -> None:
    assert is_met(ASKS, HAS)
    assert is_met(Requirements(), Capability())


@pytest.mark.parametrize(
    ("name", "less"),
    [
        ("classes", {"gpu_class": 2}),
        ("vram_gb", {"vram_gb": 79}),
        ("admitted", {"is_admitted": False}),
        ("region", {"region": EU_FR}),
        ("region", {"region": EU}),
        ("region", {"region": 0}),
        ("tier", {"tier": 1}),
        ("hours", {"hours": 11}),
    ],
)
def test_an_operator_that_lacks_one_part__does_not(name: str, less: dict[str, int]) -> None:
    lacking = replace(HAS, **less)  # type: ignore[arg-type]
    assert unmet(ASKS, lacking) == (name,)
    asked = {name: getattr(ASKS, name)}
    assert unmet(Requirements(**asked), lacking) == (name,)
    assert is_met(replace(ASKS, **{name: getattr(Requirements(), name)}), lacking)


@pytest.mark.parametrize(("asked", "met"), [(EU, True), (EU_DE, True), (EU_FR, False), (0x41530000, False), (0, True)])
def test_a_region__is_met_by_each_country_in_it(asked: int, met: bool) -> None:
    assert is_met(Requirements(region=asked), HAS) is met


@given(
    st.builds(
        Requirements,
        region=st.integers(0, 2**32 - 1),
        vram_gb=st.integers(0, 2**16 - 1),
        classes=st.integers(0, 15).map(lambda bits: bits << 1),
        hours=st.integers(0, 24),
        tier=st.integers(0, 3),
        admitted=st.booleans(),
    )
)
def test_a_word__is_read_back_as_it_was_written(asks: Requirements) -> None:
    assert is_known(asks.word)
    assert requirements_of(asks.word) == asks
