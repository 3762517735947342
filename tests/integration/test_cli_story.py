"""The whole story by the command line alone: join, deposit, start, train, follow, fetch, earn, leave."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from repops.files import load_state
from tests.integration.cli_network import CliNetwork, Zoo, zoo_fixture  # noqa: F401
from tests.support.waiting import HANG_S
from zoo_compute.spec.params import ZEN
from zoo_compute.subprocesses import tied_to_parent

pytestmark = [pytest.mark.integration, pytest.mark.network]


MODULE = """
import torch
from torch import nn

def build(context, width=12):
    module = nn.Sequential(nn.Embedding(256, width), nn.Linear(width, 256))
    loss = lambda logits, targets: nn.functional.cross_entropy(logits.transpose(1, 2), targets)
    return module, loss, torch.optim.AdamW(module.parameters(), lr=0.01)
"""


def test_register_and_start__are_enough_for_an_operator_to_train_a_job__until_it_unstakes(
    zoo: Zoo, place: CliNetwork, tmp_path: Path
) -> None:
    home = tmp_path / "node"
    account = ("--account", place.account("operator"))
    operator = zoo.json("register", "--home", home, *account)["operator"]
    command = [sys.executable, "-m", "zoo_compute.cli.main", "start", "--home", str(home), "--json"]
    daemon = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=tied_to_parent()
    )
    try:
        assert daemon.stdout is not None
        answer = json.loads(daemon.stdout.readline())
        assert answer["home"] == str(home)
        assert {"keeper", "worker-0", "spare-0"} <= set(answer["processes"])
        assert answer["needs"] == [], "two commands are enough"
        (place.folder / "model.py").write_text(MODULE)
        job = place.config(model={"module": "model.py:build", "context": 16}, rounds=2, slots=2, quorum=1)
        code, out, err = zoo.run("train", job, "--data", place.text, "--max-budget", "10", "--json")
        assert code == 0, err
        done = json.loads(out)
        assert (done["progress"]["state"], done["progress"]["nodes"], done["escrow"]) == (
            "ended",
            [operator],
            str(10 * ZEN),
        )
        assert done["progress"]["loss"] is not None
        assert "round 1/2" in err

        number = str(done["job"])
        code, out, err = zoo.run("job", "watch", number, "--settled", "--json")
        assert code == 0, err
        settled = json.loads(out.splitlines()[-1])
        assert (settled["pending"], settled["escrow"], settled["due"], settled["closed"]) == (0, "0", "0", True)

        job_view = once_released(zoo, number)
        money = job_view["account"]
        # the operator's two slots, the aggregator's seat
        assert [seat["count"] for seat in job_view["seats"].values()] == [2, 1]
        assert job_view["locked"] == {str(operator): "0"}
        assert (job_view["final_rounds"], job_view["disputes"], job_view["convictions"], job_view["rolled_back"]) == (
            2,
            0,
            0,
            [],
        )
        assert "checkpoints 1 to 2 final" in zoo.run("job", "show", number)[1]
        assert job_view["redundancy"] == {"wanted": 2, "confirmed": 1}  # one operator, one store
        assert "stored by 1 operator, 2 wanted" in zoo.run("job", "show", number)[1]
        amounts = {key: int(money[key]) for key in ("escrowed", "paid", "fee", "refunded", "held", "slashed")}
        assert (
            amounts["escrowed"] == amounts["paid"] + amounts["fee"] + amounts["refunded"] + amounts["held"] == 10 * ZEN
        )
        assert (amounts["held"], amounts["slashed"], len(money["claims"])) == (0, 0, 4)
        assert {claim["state"] for claim in money["claims"]} == {"paid"}

        before = zoo.json("account", "show")
        assert int(before["owed"]) == amounts["refunded"] > 0
        assert zoo.json("account", "withdraw")["withdrawn"] == before["owed"]
        assert int(zoo.json("account", "show")["zen"]) == int(before["zen"]) + amounts["refunded"]

        result = zoo.json(
            "job", "result", number, "--out", tmp_path / "model.safetensors", "--store", tmp_path / "fresh"
        )
        assert (result["round"], result["final"]) == (2, True)
        assert sum(array.size for array in load_state(tmp_path / "model.safetensors").values()) == result["parameters"]

        earned = zoo.json("node", "earnings", "--home", home, *account)
        assert int(earned["paid"]) == amounts["paid"]
        drained = zoo.json("node", "drain", "--home", home, *account)
        assert drained["locks"] == 0
    finally:
        daemon.send_signal(signal.SIGINT)
        _, err = daemon.communicate(timeout=HANG_S)
    assert (daemon.returncode, "Traceback" in err) == (0, False), err
    for pid in answer["processes"].values():
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
    place.devnet.warp_to(drained["exit_at"])
    assert zoo.json("node", "unstake", "--home", home, *account)["withdrawn"] == str(100 * ZEN)


def once_released(zoo: Zoo, number: str, timeout_s: float = HANG_S) -> dict[str, Any]:
    """The job as shown once its operator has released its lock, which follows the last payment by a block or more."""
    deadline = time.monotonic() + timeout_s
    while True:
        job_view = zoo.json("job", "show", number)
        if not any(int(locked) for locked in job_view["locked"].values()) or time.monotonic() > deadline:
            return job_view
        time.sleep(0.5)
