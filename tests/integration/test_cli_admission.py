"""`zoo node admit` against a real chain and the real torch side: a trial is answered, stands its window, and admits; disputed, it is
defended by the operator's keeper.
"""

from __future__ import annotations

from dataclasses import astuple
from pathlib import Path
from typing import Any, cast

import pytest

from keepers.queue.work_queue import WorkStatus
from keepers.services.disputing import Disputing
from node.disputes.player import run_dispute
from tests.integration.cli_network import CliNetwork, Zoo
from zoo_compute.chain.connection import Chain
from zoo_compute.chain.events import Event, scan
from zoo_compute.chain.sender import Sender
from zoo_compute.cli.node.options import folder_of
from zoo_compute.operators.admission import SEAT, trial_answers
from zoo_compute.operators.hot_key import hot_account
from zoo_compute.spec.admissions import work_of
from zoo_compute.spec.frames import Kind
from zoo_compute.spec.trials import TRIALS, Workload

pytestmark = pytest.mark.integration


@pytest.fixture
def zoo(place: CliNetwork, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Zoo:
    monkeypatch.setenv("ZOO_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("ZOO_NETWORK", str(place.devnet.network_file))
    monkeypatch.setenv("ZOO_ACCOUNT", str(place.account(f"owner-{tmp_path.name}")))
    monkeypatch.setenv("ZOO_PASSPHRASE_FILE", str(place.devnet.passphrase_file))
    monkeypatch.chdir(tmp_path)
    return Zoo(place, capsys)


def test_admit__answers_a_trial_and_settles_it_after_its_window(zoo: Zoo, place: CliNetwork) -> None:
    operator = int(zoo.json("node", "register", "--gpu-type", "a100", "--memory", "80GB")["operator"])
    chain = place.devnet.chain
    assert chain.registry.multiplier_of(operator) == 100
    trial_answers = zoo.json("node", "admit", "--device", "cpu")
    assert (trial_answers["admitted"], trial_answers["score"]) == (False, 0)
    assert 1 <= trial_answers["seconds"] <= chain.params.benchmark_s
    assert chain.admissions.claims(TRIALS, SEAT, operator) != bytes(32)
    waiting = zoo.json("node", "admit")
    assert 0 < waiting["settles_in_s"] <= trial_answers["settles_in_s"]
    place.devnet.warp(waiting["settles_in_s"] + 1)
    admitted = zoo.json("node", "admit")
    flops = chain.admissions.workload_of(operator).flops
    assert (admitted["admitted"], admitted["settles_in_s"]) == (True, 0)
    assert admitted["score"] == chain.admissions.scores(operator) == flops // trial_answers["seconds"]
    assert chain.registry.multiplier_of(operator) == 300
    facts = zoo.json("node", "show")
    assert (facts["admitted"], facts["multiplier_percent"]) == (True, 300)


def test_an_honest_trial_that_a_stranger_asks_about__is_defended_and_admits(
    zoo: Zoo, place: CliNetwork, tmp_path: Path
) -> None:
    devnet, chain = place.devnet, place.devnet.chain
    operator = int(zoo.json("node", "register", "--gpu-type", "a100", "--memory", "80GB")["operator"])
    zoo.json("node", "admit", "--device", "cpu")
    (trial,) = trial_answers(chain, operator)
    workload, event = Workload(*trial.workload), event_of(chain, operator)
    stranger = Sender(chain, devnet.account("stranger"), folder=tmp_path / "stranger")
    nothing: Any = (0, (bytes(32), bytes(32), []), [])
    about: Any = (int(Kind.TRAINING), 0, astuple(work_of(workload)))
    result = (event.args["segment_root"], bytes(32), bytes(32), [])
    stranger.send(chain.referee.ask_claim(TRIALS, trial.claim, *about, result, *nothing), value=10**16)
    name = f"trial:{operator}"
    assert facts(zoo, name) == ("exploring", "committer", 1)

    keeper = Sender(chain, hot_account(folder_of(None)), folder=folder_of(None))
    lane = Disputing(chain, keeper, answer_now, operator=operator, folder=tmp_path)
    lane.poll_once()
    assert facts(zoo, name) == ("exploring", "askers", 0)
    devnet.warp_to(max(trial.deadline, chain.now()) + chain.params.clocks.asker_s + 1)
    assert "in dispute" in zoo.refused("node", "admit")
    assert facts(zoo, name) == ("exploring", "anybody", 0)
    lane.poll_once()
    assert facts(zoo, name) == ("final", None, 0)
    replayed = zoo.json("dispute", "replay", name)
    assert [entry["function"] for entry in replayed["entries"]] == ["ask_claim", "answer", "close"]
    assert [entry["by"] for entry in replayed["entries"]] == ["asker", "committer", "committer"]
    assert (replayed["verdict"], replayed["conclusion"]) == (None, "final: nobody proved an error")
    assert zoo.json("node", "admit")["admitted"] is True
    lane.poll_once()
    assert not (tmp_path / "disputes").exists() or not any((tmp_path / "disputes").iterdir())


def event_of(chain: Chain, operator: int) -> Event:
    (event,) = scan(
        chain, chain.network.first_block, chain.head("latest").number, ("TrialAnswered",), operator=operator
    )
    return event


def answer_now(task: str, name: str, request: dict[str, Any]) -> WorkStatus:
    """As a worker that has nothing else to do."""
    return WorkStatus("done", result=run_dispute({**request, "device": "cpu"}, cast(Any, None)))


def facts(zoo: Zoo, name: str) -> tuple[Any, ...]:
    about = zoo.json("dispute", "show", name)
    assert (about["dispute"], about["job"], about["round"]) == (name, TRIALS, None)
    return about["status"], about["owes"], about["open_asks"]
