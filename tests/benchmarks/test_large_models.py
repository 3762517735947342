"""What is reckoned for models that nobody trains here: the same functions on a small one, by hand."""

from __future__ import annotations

import pytest

from benchmarks.scaling import large_models
from benchmarks.scaling.large_models import AGGREGATORS, CUSTODIANS, NODE_CORES, Case

SMALL = Case("small", "llama-1m", nodes=8, nodes_a_slot=2, operators=2)
PACKED = {"ratio": 100.0, "encode_mb_s": 50.0, "decode_mb_s": 100.0}


@pytest.fixture(scope="module")
def measured() -> dict:
    return large_models.measure(SMALL, PACKED)


def test_bytes__are_of_updates_shares_and_checkpoints(measured: dict) -> None:
    update, parameters = measured["update_bytes"], measured["parameters"]
    assert (measured["slots"], parameters) == (4, 955_776)
    assert update == round(4 * parameters / 100)
    whole = measured["checkpoint_bytes"]
    assert 8 * parameters <= whole <= 8 * parameters + 2**20, "the module, and the outer optimizer's momentum"
    into = measured["into"]
    assert into["custodian"] == 4 * update + whole
    assert measured["busiest_receiver_bytes"] == max(into.values())
    checks = 5 * CUSTODIANS * AGGREGATORS * (256 * 1024 + 8_710)
    assert into["aggregator"] == round(4 * update * measured["largest_share"]) + checks
    assert into["holder of a slot"] == 4 * update + checks == measured["one_aggregator_bytes"] + checks
    assert 1 / AGGREGATORS <= measured["largest_share"] < 0.5
    assert measured["out"]["holder of a slot"] == update * (CUSTODIANS + 1 + 3)


def test_times__follow_from_bytes_links_and_the_codec(measured: dict) -> None:
    decode_s = 4 * 4 * measured["parameters"] / 100e6
    assert measured["decode_s"]["custodian"] == pytest.approx(decode_s / NODE_CORES)
    assert measured["decode_s"]["holder of a slot"] == pytest.approx(2 * decode_s / NODE_CORES)
    for mbit, link in measured["links"].items():
        wait = 8 * measured["into"]["custodian"] / (int(mbit) * 1e6) + decode_s / NODE_CORES
        assert link["custodian_s"] == pytest.approx(wait)
        slowest = max(link[f"{who}_s"] for who in measured["into"])
        assert link["round_s"] == pytest.approx(measured["train_s"] + slowest)
        assert link["round_hidden_s"] == pytest.approx(max(measured["train_s"], slowest))
        assert link["utilisation"] <= link["utilisation_hidden"] <= 1


def test_gas__grows_with_seats_and_has_every_aggregator() -> None:
    few, many = large_models.gas(10), large_models.gas(20)
    assert many["seats"] == 2 * few["seats"]
    assert many["aggregators"] == few["aggregators"]
    assert few["all"] == few["seats"] + few["custodians"] + few["aggregators"]


def test_the_codec__is_measured_on_what_a_job_of_signs_sends() -> None:
    packed = large_models.measured_codec()
    assert 100 < packed["ratio"] < 110
    assert packed["encode_mb_s"] > 0 < packed["decode_mb_s"]
