"""What a job costs that says a budget alone, in ZEN and in a coin with six decimals, on an operator that asks its own price."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.integration.cli_network import CliNetwork, Zoo, zoo_fixture  # noqa: F401
from tests.integration.test_cli_tokens import USDC, Coin, deployer
from tests.support.waiting import HANG_S
from zoo_compute.spec.params import ZEN
from zoo_compute.subprocesses import tied_to_parent

pytestmark = [pytest.mark.integration, pytest.mark.network]


def budget_only(place: CliNetwork, **market: Any) -> Path:
    """The kit's job, two slots for two rounds, without prices."""
    path = place.config(rounds=2, slots=2, quorum=1)
    sections = json.loads(path.read_text())
    del sections["market"]
    path.write_text(json.dumps(sections | ({"market": market} if market else {})))
    return path


def job_in_state(zoo: Zoo, number: str, state: str) -> dict[str, Any]:
    deadline = time.monotonic() + HANG_S
    while (job_view := zoo.json("job", "show", number))["state"] != state:
        assert time.monotonic() < deadline, f"job {number} is still {job_view['state']}: {job_view['waiting_for']}"
        time.sleep(1)
    return job_view


def test_a_budget__is_what_a_job_may_cost_and_not_what_it_costs(zoo: Zoo, place: CliNetwork, tmp_path: Path) -> None:
    home, account = ("--home", tmp_path / "node"), ("--account", place.account("operator", zen=5_000 * ZEN))
    coin = Coin(place, "USDC", 6)
    coin.mint(zoo.json("account", "show")["address"], 12 * USDC)
    coin.mint(zoo.json("account", "show", *account)["address"], 1_000 * USDC)
    zoo.json("network", "allow", coin.address, *deployer(place))
    zoo.json("node", "register", "--gpu-type", "rtx4090", "--memory", "24GB", *home, *account)
    zoo.json("node", "deposit", "1500", *home, *account)
    zoo.json("node", "deposit", "1000", "--token", coin.address, *home, *account)
    zoo.json("node", "configure", "--role", "provider", "--role", "aggregator", *home)
    zoo.json("node", "configure", "--price", "0.8", "--aggregator-price", "0.1", "--token", coin.address, *home)
    command = [sys.executable, "-m", "zoo_compute.cli.main", "node", "start", *map(str, home), "--json"]
    daemon = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, preexec_fn=tied_to_parent()
    )
    try:
        assert daemon.stdout is not None
        daemon.stdout.readline()
        train = ("--data", place.text, "--no-watch", "--max-budget")
        in_zen = str(zoo.json("train", budget_only(place), *train, "60")["job"])
        job_view = job_in_state(zoo, in_zen, "ended")
        assert {int(seat["price"]) for seat in job_view["seats"].values()} == {ZEN}  # of at most 10
        assert {lot.attempt for lot in _lots(place, int(in_zen))} == {1}

        in_coin = str(zoo.json("train", budget_only(place, token=coin.address), *train, "12")["job"])
        job_view = job_in_state(zoo, in_coin, "ended")
        assert {int(seat["price"]) for seat in job_view["seats"].values()} == {USDC}  # of at most 2
        assert job_view["symbol"] == "USDC"
        zoo.run("job", "watch", in_coin, "--settled", "--json")
        earned = zoo.json("node", "earnings", "--token", coin.address, *home, *account)
        assert int(earned["paid"]) == 6 * USDC * 95 // 100
    finally:
        daemon.send_signal(signal.SIGINT)
        daemon.communicate(timeout=HANG_S)


def _lots(place: CliNetwork, job: int) -> list[Any]:
    return [place.devnet.chain.auction.lots(job, kind) for kind in (0, 1)]
