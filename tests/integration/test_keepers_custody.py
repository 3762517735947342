"""Custodians on a network of real processes: drawn, holding, signing, paid; the model comes from any of them."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from keepers.processes.local_network import LocalNetwork, OperatorPlan
from tests.support.local_jobs import TINY, text
from zoo_compute import Client
from zoo_compute.spec.params import ZEN

pytestmark = pytest.mark.integration

CUSTODIANS = ("epsilon", "zeta", "eta")
PLANS = (
    OperatorPlan("alpha", price="0.80", capacity=3),
    OperatorPlan("delta", roles=("aggregator",), aggregator_price="0.50"),
    *(OperatorPlan(name, roles=("custodian",)) for name in CUSTODIANS),
)
JOB: dict[str, Any] = {**TINY, "checkpoint": {"redundancy": 3}}


def test_custodians__are_drawn_hold_every_turn_and_are_paid(tmp_path_factory: pytest.TempPathFactory) -> None:
    with LocalNetwork(tmp_path_factory.mktemp("custody"), PLANS) as network:
        account = network.devnet.account("submitter", zen=200 * ZEN)
        client = Client(network=network.network_path, account=account, store=str(network.submitter_store))
        path = network.folder / "job.json"
        path.write_text(json.dumps(JOB))
        job = client.train(config=path, data=text(network.folder), max_budget=200)
        end = time.monotonic() + 300
        data: dict[str, Any] = {}
        while time.monotonic() < end:
            network.poll()
            data = job.custody() or {}
            print(job.view().state.name, json.dumps(data))
            if job.view().settled and all(place["reserve"] == "0" for place in data["places"]):
                break
            time.sleep(2)
        print(json.dumps(data, indent=1))
        assert data["paid"] != "0"
