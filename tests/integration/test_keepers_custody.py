"""Custodians on a network of real processes: drawn, holding, signing, paid; the model comes from each of them alone."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from keepers.processes.local_network import LocalNetwork, OperatorPlan
from tests.support.local_jobs import TINY, text
from tests.support.waiting import HANG_S
from zoo_compute import Client
from zoo_compute.chain.custody import read_custody
from zoo_compute.cli import main as cli
from zoo_compute.client.job import Job
from zoo_compute.client.results import fetch_result
from zoo_compute.spec.params import ZEN
from zoo_compute.store import BlockStore

pytestmark = [pytest.mark.integration, pytest.mark.network]

CUSTODIANS = ("epsilon", "zeta", "eta")
PLANS = (
    OperatorPlan("alpha", price="0.80", capacity=3),
    OperatorPlan("delta", roles=("aggregator",), aggregator_price="0.50"),
    *(OperatorPlan(name, roles=("custodian",)) for name in CUSTODIANS),
)
JOB: dict[str, Any] = {**TINY, "checkpoint": {"redundancy": 3}}
LONGEST_S = 2 * HANG_S
SPARE = 1_000  # in the escrow beyond all signatures


def finished(network: LocalNetwork, job: Job) -> dict[str, Any]:
    """What `zoo job custody` says once all is paid and every reserve is back."""
    end, data = time.monotonic() + LONGEST_S, dict[str, Any]()
    while time.monotonic() < end:
        network.poll()
        data = job.custody() or {}
        is_back = bool(data["places"]) and all(place["reserve"] == "0" for place in data["places"])
        if job.view().settled and is_back:
            return data
        time.sleep(1)
    raise AssertionError(f"not over after {LONGEST_S} s: {job.view().state!r}, {data}; logs in {network.folder}")


def test_custodians__are_drawn_hold_what_is_committed_and_are_paid__and_each_has_the_model(
    tmp_path_factory: pytest.TempPathFactory, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with LocalNetwork(tmp_path_factory.mktemp("custody"), PLANS) as network:
        account = network.devnet.account("submitter", zen=200 * ZEN)
        client = Client(network=network.network_path, account=account, store=str(network.submitter_store))
        path = network.folder / "job.json"
        path.write_text(json.dumps(JOB))
        job = client.train(config=path, data=text(network.folder), max_budget=200)
        job.fund_custody(SPARE)
        escrow = int((job.custody() or {})["escrow"])
        data = finished(network, job)
        chain, view = network.devnet.chain, job.view()

        drawn = {place["operator"] for place in data["places"]}
        assert {network.operators[operator] for operator in drawn} == set(CUSTODIANS)
        assert data["started"]
        assert [turn["turn"] for turn in data["turns"]] == list(range(view.terms.rounds)), "no turn closed without them"
        for turn in data["turns"]:
            made = next(made for made in view.checkpoints if made.turn == turn["turn"])
            assert sum(1 << seat for seat in turn["seats"]) == made.mask
            assert len(turn["inputs"]) >= data["majority"]
            assert len(turn["checkpoint"]) >= data["majority"]
        signed = sum(len(turn["inputs"]) + len(turn["checkpoint"]) for turn in data["turns"])
        assert int(data["paid"]) == signed * int(data["fee"]) > 0
        assert int(data["escrow"]) == escrow - int(data["paid"]) >= SPARE

        custody = read_custody(chain, view)
        assert custody is not None
        for operator in drawn:
            earned = custody.paid.get(operator, 0)
            assert chain.custody.funds(chain.zen.address, operator) == PLANS[-1].custody_deposit + earned
            status = zoo(capsys, "node", "custody", "status", "--operator", str(operator), network=network)
            assert (status["reserved"], status["paid"], status["counts_in_s"]) == ("0", str(earned), 0)
            # Nobody else serves it: not the network's storage, not the aggregator.
            home = network.folder / network.operators[operator]
            endpoint = json.loads((home / "operator.json").read_text())["endpoint"]
            store = BlockStore(tmp_path / f"reader-{operator}", [endpoint])
            got = fetch_result(view, store, tmp_path / f"model-{operator}.safetensors")
            assert (got.round, got.final) == (view.terms.rounds, True)

        assert job.refund_custody().event("CustodyRefunded").args["amount"] == int(data["escrow"])


def zoo(capsys: pytest.CaptureFixture[str], *arguments: str, network: LocalNetwork) -> dict[str, Any]:
    capsys.readouterr()
    assert cli.run([*arguments, "--network", str(network.network_path), "--json"]) == 0, capsys.readouterr().err
    answer: dict[str, Any] = json.loads(capsys.readouterr().out)
    return answer
