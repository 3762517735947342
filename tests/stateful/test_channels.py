"""Random walks over channels alone, from fixed seeds: they touch jobs nowhere, so walks over jobs would only make these rarer."""

from __future__ import annotations

import pytest

from tests.stateful.channels import Channels
from tests.stateful.machine import WalkFailed, walk_from
from tests.support.lockstep.coverage import Coverage
from zoo_compute.spec import channels
from zoo_compute.spec.world import EXTERNAL

SEEDS, STEPS = range(24), 120
NEVER = {"channels: zero signer"}  # the directed sequences meet it


def test_random_walks__contract_and_specification_agree_and_money_is_conserved() -> None:
    coverage = Coverage()
    for seed in SEEDS:
        walk_from(seed, STEPS, coverage, Channels)
    print(coverage.summary())
    assert {f"channels.{name}" for name in EXTERNAL["channels"]} <= set(coverage.accepts)
    reasons = {reason for reason in coverage.reasons if reason.startswith("channels: ")}
    listed = {reason for reason in coverage.reached()["reasons"][1] if reason.startswith("channels: ")}
    assert reasons == listed - NEVER
    transitions = {each for each in coverage.transitions if each.startswith("channel: ")}
    assert transitions == {"channel: NONE>OPEN", "channel: OPEN>LEAVING"}


def test_a_specification_that_pays_a_unit_too_much__is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channels, "fee_of", lambda amount: amount // 20)  # rounded for the payee
    with pytest.raises(WalkFailed):
        walk_from(0, STEPS, Coverage(), Channels)
