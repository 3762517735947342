"""The demo's model comes from a custodian, while the operator that aggregated it is dead."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from keepers.config import OperatorConfig
from keepers.processes.daemon import Daemon, SupervisedProcess
from repops import commitments, files
from scripts.demo import __main__ as demo
from scripts.demo import delivery
from scripts.demo.report_text import delivery_line
from tests.client.test_results import published
from zoo_compute.chain.views import JobState
from zoo_compute.errors import ZooError
from zoo_compute.store import BlockStore, Gateway
from zoo_compute.subprocesses import LOOPBACK, free_port

STATE = {"w": np.arange(6, dtype=np.float32).reshape(2, 3)}


def test_the_model__comes_from_the_custodian_that_has_it(tmp_path: Path) -> None:
    store = BlockStore(tmp_path / "store")
    job = published(store, STATE, commitments.state_root(STATE))
    gone = f"http://{LOOPBACK}:{free_port()}"
    with Gateway(BlockStore(tmp_path / "empty")) as empty, Gateway(store) as full:
        custodians = {"gone": gone, "empty": empty.url, "full": full.url}
        name, result = delivery.from_a_custodian(job, custodians, tmp_path / "model")
        assert (name, result.parameters) == ("full", 6)
        assert np.array_equal(files.load_state(tmp_path / "model")["w"], STATE["w"])
        with pytest.raises(ZooError, match="no custodian delivered the model of job 5"):
            delivery.from_a_custodian(job, {"gone": gone, "empty": empty.url}, tmp_path / "none")
    assert not (tmp_path / "none").exists()


def test_an_operator_without_power__runs_nothing_until_it_is_back(tmp_path: Path) -> None:
    daemon = Daemon(OperatorConfig(name="delta", network="n", operator=4, folder=tmp_path))
    command = [sys.executable, "-c", "import time; time.sleep(60)"]
    for name in ("gateway", "keeper"):
        daemon.children[name] = SupervisedProcess(name, command, tmp_path / f"{name}.log")
    try:
        daemon.poll()
        assert running(daemon) == 2
        delivery.cut_power(daemon)
        daemon.poll()
        assert running(daemon) == 0
        delivery.restore_power(daemon)
        while running(daemon) < 2:  # after its pause
            daemon.poll()
            time.sleep(0.05)
    finally:
        daemon.stop()


def running(daemon: Daemon) -> int:
    return sum(child.running for child in daemon.children.values())


@pytest.fixture
def course(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> tuple[demo.Demo, list[str]]:
    """A demo whose network notes what is done to it."""
    done: list[str] = []
    made = demo.Demo(tmp_path, demo.CONFIG, tmp_path, kill=True, cheat=True, with_replay=False)
    made.network = SimpleNamespace(operators={2: "beta", 3: "gamma", 4: "delta"}, daemons={"delta": "delta"})  # type: ignore[assignment]
    monkeypatch.setattr(delivery, "cut_power", lambda daemon: done.append(f"kill {daemon}"))
    monkeypatch.setattr(delivery, "restore_power", lambda daemon: done.append(f"resume {daemon}"))
    monkeypatch.setattr(delivery, "deliver", lambda *_: done.append("deliver") or SimpleNamespace(custodian="alpha"))
    return made, done


def ended(*, slot_4: int = 2, settled: bool = False) -> Any:
    """slot_4: the operator that trained it in the round of the newest checkpoint."""
    made, claim = SimpleNamespace(turn=7, operator=4), SimpleNamespace(operator=slot_4)
    return SimpleNamespace(
        state=JobState.ENDED,
        settled=settled,
        completed_rounds=8,
        checkpoint_of={8: made}.get,
        committed={7: {demo.LIE_IN_SLOT: claim}}.get,
    )


def test_the_aggregator__is_dead_from_the_last_checkpoint_until_the_model_is_delivered(course: Any) -> None:
    made, done = course
    made.deliver(ended(slot_4=3))
    assert done == []  # its round rests on the lie, and will be done again
    made.deliver(ended())
    made.deliver(ended())
    assert done == ["kill delta"]
    made.deliver(ended(settled=True))
    made.deliver(ended(settled=True))
    assert done == ["kill delta", "deliver", "resume delta"]


def test_an_aggregator_that_was_alive__fails_the_demo(course: Any) -> None:
    made, _ = course
    with pytest.raises(ZooError, match="the model was not delivered"):
        made.finish(1, 0.0)
    made.delivery = delivery.Delivery("alpha", "delta", 3, "0x", 6, True)
    with pytest.raises(ZooError, match="delta was alive"):
        made.finish(1, 0.0)


def test_the_report__says_who_delivered_and_who_was_dead() -> None:
    delivered = delivery.Delivery("alpha", "delta", 0, "0x", 1_234_567, True).to_dict()
    line = "alpha, a custodian, sent the model (1,234,567 parameters, final) while delta, which aggregated it, was "
    assert delivery_line(delivered) == "Delivery: " + line + "dead"
    assert delivery_line(delivered | {"aggregator_runs": 1}).endswith("was alive")
