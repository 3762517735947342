"""The devnet's life: it starts, resumes, guards its folder, and never leaves an anvil behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from web3 import Web3
from web3.types import RPCEndpoint, RPCResponse

from tests.support.waiting import HANG_S, wait_until
from zoo_compute.chain import keystore
from zoo_compute.chain.connection import Chain, connect
from zoo_compute.chain.deployment import Web3Deployer, deploy
from zoo_compute.chain.generated.bindings.task_registry import Terms
from zoo_compute.chain.network import load
from zoo_compute.chain.provider import FailoverProvider
from zoo_compute.chain.roles import Roles
from zoo_compute.chain.sender import Sender
from zoo_compute.chain.wiring import check_wiring
from zoo_compute.devnet.anvil import find
from zoo_compute.devnet.devnet import COIN, Devnet
from zoo_compute.errors import DevnetError, UserError
from zoo_compute.governance.timelock import calls_for_multisigs
from zoo_compute.jobs.submission import posting_deposit
from zoo_compute.spec.params import PRESETS, ZEN

pytestmark = pytest.mark.integration

ROOT = Path(__file__).resolve().parents[2]
TOM = "0x00000000000000000000000000000000000070aa"


def alive(pid: int) -> bool:
    """Running, and not a zombie that waits to be reaped."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_accounts__have_coin_zen_and_key_files(tmp_path: Path):
    with Devnet(tmp_path) as devnet:
        alice = devnet.account("alice", coin=3 * COIN, zen=5 * ZEN)
        assert devnet.chain.coin(alice.address) == 3 * COIN
        assert devnet.chain.zen.balanceOf(alice.address) == 5 * ZEN
        assert devnet.account("alice", coin=3 * COIN, zen=5 * ZEN).address == alice.address
        assert devnet.chain.zen.balanceOf(alice.address) == 5 * ZEN
        unlocked = keystore.unlock(devnet.key_file("alice"), devnet.passphrase_file.read_text())
        assert unlocked.address == alice.address
        assert {path.stat().st_mode & 0o077 for path in (devnet.key_file("alice"), devnet.passphrase_file)} == {0}
        assert load(devnet.network_file) == devnet.network
        assert devnet.chain.tasks.is_allowed(devnet.chain.zen.address)
        assert devnet.chain.rewards.pool() > 0
        assert devnet.url.startswith("http://127.0.0.1:")


def test_a_restart__resumes_state_time_and_port(tmp_path: Path):
    with Devnet(tmp_path) as devnet:
        alice, url = devnet.account("alice", zen=7), devnet.url
        devnet.warp(100_000)
        before = devnet.chain.now()
    with Devnet(tmp_path) as devnet:
        assert devnet.url == url
        assert devnet.chain.zen.balanceOf(alice.address) == 7
        assert devnet.account("alice").address == alice.address
        Sender(devnet.chain, alice, folder=tmp_path).send(devnet.chain.zen.transfer(TOM, 7))
        wait_until("a second after the restart", lambda: devnet.chain.now() > before)
        assert devnet.chain.now() - before < 50_000, "neither the wall clock's time nor what was warped"


def test_a_folder__holds_one_devnet_of_one_preset(tmp_path: Path):
    with Devnet(tmp_path), pytest.raises(DevnetError, match="a devnet is already running there"):
        Devnet(tmp_path).start()
    with pytest.raises(DevnetError, match="contains a devnet of preset 'devnet'"):
        Devnet(tmp_path, preset="production").start()
    with pytest.raises(DevnetError, match="no preset 'tiny'"):
        Devnet(tmp_path, preset="tiny")


def test_a_taken_port__is_said(tmp_path: Path):
    with Devnet(tmp_path / "one") as devnet:
        port = int(devnet.url.rpartition(":")[2])
        with pytest.raises(DevnetError, match=f"port {port} is taken"):
            Devnet(tmp_path / "two", port=port).start()


def test_an_absent_anvil__says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("zoo_compute.devnet.anvil.__file__", str(tmp_path / "zoo_compute" / "devnet" / "anvil.py"))
    monkeypatch.setenv("ZOO_HOME", str(tmp_path / "home"))
    with pytest.raises(DevnetError, match="anvil, the local chain, is not installed") as caught:
        find({"PATH": str(tmp_path)})
    assert "make setup" in caught.value.hint
    with pytest.raises(DevnetError, match="which is not a program"):
        find({"ZOO_ANVIL": str(tmp_path)})


def test_a_program_that_is_no_anvil__is_said_with_its_output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    fake = tmp_path / "anvil"
    fake.write_text("#!/bin/sh\necho I am no anvil; exit 3\n")
    fake.chmod(0o755)
    monkeypatch.setenv("ZOO_ANVIL", str(fake))
    with pytest.raises(DevnetError, match="I am no anvil"):
        Devnet(tmp_path / "chain").start()


def test_a_used_devnet_that_is_not_started__says_so(tmp_path: Path):
    with pytest.raises(DevnetError, match="not started"):
        _ = Devnet(tmp_path).chain


@pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_no_anvil__outlives_its_starter(tmp_path: Path, ending: signal.Signals):
    script = (
        "import sys, time; from zoo_compute.devnet.devnet import Devnet\n"
        "d = Devnet(sys.argv[1]).start(); print(d._anvil.process.pid, flush=True); time.sleep(3600)"
    )
    command = [sys.executable, "-c", script, str(tmp_path)]
    starter = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert starter.stdout is not None
    pid = int(starter.stdout.readline())
    assert alive(pid)
    os.kill(starter.pid, ending)
    starter.wait(HANG_S)
    starter.stdout.close()
    wait_until("anvil's end", lambda: not alive(pid))
    with Devnet(tmp_path) as devnet:  # anvil wrote its state when it was told to end
        assert devnet.chain.rewards.pool() > 0


def test_the_timelock__governs_payment_tokens_outside_a_devnet(tmp_path: Path):
    params = PRESETS["production"]
    with Devnet(tmp_path) as devnet:
        account = devnet.account("deployer")
        deployer = Web3Deployer(Web3(Web3.HTTPProvider(devnet.url)), account)
        with pytest.raises(UserError, match="the deployer is proposer"):
            deploy(deployer, params)
        # Any contracts with accounts of their own stand for multisigs.
        guardian, proposer, executor, canceller, holder = (deployer.deploy("ZenToken", 0) for _ in range(5))
        deployment = deploy(deployer, params, roles=Roles(guardian, (proposer,), (executor,), (canceller,), holder))
        chain = connect(deployment.describe("main", params, 31337, [devnet.url]))
        check_wiring(chain)
        assert chain.zen.balanceOf(account.address) == 0
        assert f"zoo network govern tasks.allow {chain.zen.address} true" in deployment.pending[0]
        call = chain.tasks.allow(chain.zen.address, True, params.window_value)
        steps = calls_for_multisigs(chain, call)
        as_account(chain, proposer, steps["proposer"])
        with pytest.raises(AssertionError, match="reverted"):
            as_account(chain, executor, steps["executor"])
        assert not chain.tasks.is_allowed(chain.zen.address)
        devnet.warp(params.timelock_s)
        as_account(chain, executor, steps["executor"])
        assert chain.tasks.is_allowed(chain.zen.address)


def as_account(chain: Chain, account: str, step: dict[str, str]) -> None:
    """Anvil sends for any account; a multisig would."""
    provider = chain.w3.provider
    provider.make_request("anvil_setBalance", [account, hex(10**20)])  # type: ignore[arg-type]
    provider.make_request("anvil_impersonateAccount", [account])  # type: ignore[arg-type]
    digest = chain.w3.eth.send_transaction({"from": account, "gas": 500_000, **step})  # type: ignore[typeddict-item]
    assert chain.w3.eth.wait_for_transaction_receipt(digest)["status"] == 1, "reverted"


@pytest.mark.long
def test_the_ape_scripts__deploy_fund_and_inspect(tmp_path: Path):
    """On a running anvil: `ape run deploy`, then the network file works for web3 clients."""
    with Devnet(tmp_path / "chain") as devnet:
        alice = devnet.account("alice")
        out = tmp_path / "network.json"
        environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{find().parent}:{os.environ['PATH']}"}
        environment["APE_FOUNDRY_HOST"] = devnet.url

        def ape(*arguments: str, refused: bool = False) -> str:
            command = [str(Path(sys.executable).parent / "ape"), "run", *arguments]
            command += ["--network", "ethereum:local:foundry"]
            done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300)
            assert (done.returncode != 0) == refused, done.stdout + done.stderr
            return done.stdout + done.stderr * refused

        refusal = ape("deploy", "--preset", "production", "--out", str(out), refused=True)
        assert "unsafe for production" in refusal
        assert "the deployer is guardian; expected a multisig" in refusal
        assert not out.exists()
        said = ape("deploy", "--preset", "devnet", "--out", str(out), "--json")
        done = json.loads(said[said.index("{") :])
        assert done["roles"]["guardian"] == done["roles"]["proposers"][0] == done["deployer"]
        assert done["contracts"] == json.loads(out.read_text())["contracts"]
        network = json.loads(out.read_text())
        assert network["chain_id"] == 31337
        ape("fund", alice.address, "--zen", "12.5", "--network-file", str(out))
        chain = connect(load(out))
        assert chain.zen.balanceOf(alice.address) == 125 * ZEN // 10
        # On the devnet's own deployment the first test account holds the supply too.
        ape("fund", alice.address, "--zen", "20", "--network-file", str(devnet.network_file))
        sender = Sender(devnet.chain, alice, folder=tmp_path)
        sender.send(devnet.chain.zen.approve(devnet.chain.tasks.address, 20 * ZEN))
        job = (
            sender.send(devnet.chain.tasks.post(terms(devnet)), value=posting_deposit(devnet.chain))
            .event("JobPosted")
            .job
        )
        output = ape("inspect_job", str(job), "--network-file", str(devnet.network_file))
        assert f"job {job} is OPEN" in output
        assert f"submitter {alice.address}, escrow 46 of token {devnet.chain.zen.address}" in output


def terms(devnet: Devnet) -> Terms:
    return Terms(
        token=devnet.chain.zen.address,
        work_root=b"p" * 32,
        state_root=b"s" * 32,
        data_root=b"d" * 32,
        manifest=b"m" * 32,
        rounds=1,
        slots=2,
        quorum=2,
        reserve=10,
        max_price=20,
        aggregator_reserve=5,
        aggregator_max_price=6,
        slot_s=600,
        aggregate_s=600,
        reexecute_s=100,
        flops=10**12,
        depth=4,
        policy=0,
        audit_bps=500,
        requirements=0,
    )


def test_a_start__asks_the_chain_for_little(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Every test of a devnet waits for it, and so does everyone who tries the network: once it was 460 requests."""
    asked: list[str] = []
    real = FailoverProvider.make_request

    def counted(self: FailoverProvider, method: RPCEndpoint, params: Any) -> RPCResponse:
        asked.append(method)
        return real(self, method, params)

    monkeypatch.setattr(FailoverProvider, "make_request", counted)
    with Devnet(tmp_path) as devnet:
        sent = asked.count("eth_sendRawTransaction")
        assert devnet.chain.head().number >= sent >= 30
        assert len(asked) <= 4 * sent + 60  # the code of each contract, and what it is wired to
