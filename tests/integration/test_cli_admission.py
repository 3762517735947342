"""`zoo node admit` against a real chain and the real torch side: a trial is answered, stands its window, and admits."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.cli_kit import Place, Zoo, a_place

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory):
    with a_place(tmp_path_factory.mktemp("place")) as found:
        yield found


@pytest.fixture
def zoo(place: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Zoo:
    monkeypatch.setenv("ZOO_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("ZOO_NETWORK", str(place.devnet.network_file))
    monkeypatch.setenv("ZOO_ACCOUNT", str(place.account(f"owner-{tmp_path.name}")))
    monkeypatch.setenv("ZOO_PASSPHRASE_FILE", str(place.devnet.passphrase_file))
    monkeypatch.chdir(tmp_path)
    return Zoo(place, capsys)


def test_admit__answers_a_trial_and_settles_it_after_its_window(zoo: Zoo, place: Place) -> None:
    operator = int(zoo.json("node", "register", "--gpu-type", "a100", "--memory", "80GB")["operator"])
    chain = place.devnet.chain
    assert chain.registry.multiplier_of(operator) == 100
    answered = zoo.json("node", "admit", "--device", "cpu")
    assert (answered["admitted"], answered["score"]) == (False, 0)
    assert 1 <= answered["seconds"] <= chain.params.benchmark_s
    assert chain.admissions.claims(operator) != bytes(32)
    waiting = zoo.json("node", "admit")
    assert 0 < waiting["settles_in_s"] <= answered["settles_in_s"]
    place.devnet.warp(waiting["settles_in_s"] + 1)
    admitted = zoo.json("node", "admit")
    flops = chain.admissions.workload_of(operator).flops
    assert (admitted["admitted"], admitted["settles_in_s"]) == (True, 0)
    assert admitted["score"] == chain.admissions.scores(operator) == flops // answered["seconds"]
    assert chain.registry.multiplier_of(operator) == 300
    shown = zoo.json("node", "show")
    assert (shown["admitted"], shown["multiplier_percent"]) == (True, 300)
