"""A deployment on a public test network: what it would cost is said before, and whoever reads its code can compare it with the sources.

The network is an anvil with the chain id of Base Sepolia, whose roles are contracts.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from eth_account import Account
from vyper.cli.vyper_json import compile_json
from web3 import HTTPProvider, Web3

from scripts import budget, verify_sources
from scripts.generate.compiled import compile_contract
from tests.support.waiting import HANG_S
from zoo_compute.chain import artifacts
from zoo_compute.chain.deployment import Deployer, Deployment, Web3Deployer, deploy
from zoo_compute.chain.network import load
from zoo_compute.chain.roles import Roles
from zoo_compute.devnet.anvil import Anvil
from zoo_compute.errors import DevnetError, UserError
from zoo_compute.spec.params import PRODUCTION
from zoo_compute.subprocesses import LOOPBACK, free_port

pytestmark = pytest.mark.integration

ROOT = Path(__file__).resolve().parents[2]
CHAIN_ID = 84532
KEY = "0x" + "11" * 32
ROLES = [Web3.to_checksum_address(f"0x{number:040x}") for number in range(0xA1, 0xA6)]
ANY_CODE = "0x00"
SEVEN = "0x60075f5260205ff3"  # code that returns 7, whatever it is asked


@dataclass
class Testnet:
    __test__ = False

    w3: Web3
    url: str

    def set(self, method: str, *params: Any) -> None:
        """And mine a block, since a fork begins with the newest one."""
        for name, values in ((method, list(params)), ("evm_mine", [])):
            assert "error" not in self.w3.provider.make_request(name, values)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def testnet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Testnet]:
    folder = tmp_path_factory.mktemp("testnet")
    anvil = Anvil.start(chain_id=CHAIN_ID, block_time=1, port=0, state=folder / "state.json", log=folder / "anvil.log")
    try:
        place = Testnet(Web3(HTTPProvider(anvil.url)), anvil.url)
        for account in ROLES:
            place.set("anvil_setCode", account, ANY_CODE)
        place.set("anvil_setBalance", deployer().address, hex(10**16))
        yield place
    finally:
        anvil.stop()


def deployer() -> Any:
    return Account.from_key(KEY)


def deployed(by: Deployer) -> Deployment:
    guardian, proposer, executor, canceller, holder = ROLES
    roles = Roles(guardian, (proposer,), (executor,), (canceller,), holder)
    return deploy(by, PRODUCTION, roles=roles)


def test_dry_run__says_what_the_deployment_then_costs__and_sends_the_network_nothing(testnet: Testnet) -> None:
    me = deployer().address
    with budget.forked(testnet.url, me) as fork:
        deployed(fork)
    assert testnet.w3.eth.get_transaction_count(me) == 0
    said = budget.budget_of(fork.steps, gas_price=10**9, balance=10**16)
    assert said["enough"] is False
    assert int(said["cost_wei"]) == said["gas"] * 10**9
    assert int(said["budget_wei"]) == 2 * int(said["cost_wei"])
    assert said["largest"]["gas"] < said["largest"]["most"]
    assert "NOT ENOUGH" in budget.lines_of(said)[-1]

    testnet.set("anvil_setBalance", me, hex(10**18))
    before = testnet.w3.eth.block_number
    deployed(Web3Deployer(testnet.w3, deployer()))
    blocks = [testnet.w3.eth.get_block(number) for number in range(before + 1, testnet.w3.eth.block_number + 1)]
    assert sum(block["gasUsed"] for block in blocks) == said["gas"]
    assert testnet.w3.eth.get_transaction_count(me) == said["transactions"]
    print(f"{said['gas']:,} gas in {said['transactions']} transactions, of {said['largest']['gas']:,} at most")


def test_dry_run__finds_that_a_role_is_a_single_key_on_that_network(testnet: Testnet) -> None:
    testnet.set("anvil_setCode", ROLES[0], "0x")
    try:
        refused = pytest.raises(UserError, match=f"the guardian {ROLES[0]} is a single key")
        with budget.forked(testnet.url, deployer().address) as fork, refused:
            deployed(fork)
        assert fork.steps == []
    finally:
        testnet.set("anvil_setCode", ROLES[0], ANY_CODE)


def test_dry_run__adds_what_a_rollup_charges_for_data(testnet: Testnet) -> None:
    testnet.set("anvil_setCode", budget.L1_PRICES, SEVEN)
    try:
        with budget.forked(testnet.url, deployer().address) as fork:
            fork.deploy("Guardian", ROLES[0], ROLES[1], 60)
            fork.deploy("ConsistencyProofs", ROLES[0], ROLES[1])
    finally:
        testnet.set("anvil_setCode", budget.L1_PRICES, "0x")
    assert [step.l1_fee for step in fork.steps] == [7, 7]
    assert fork.steps[0].data_bytes < fork.steps[1].data_bytes
    said = budget.budget_of(fork.steps, gas_price=1, balance=0)
    assert int(said["cost_wei"]) == said["gas"] + 14


def test_dry_run__of_a_network_that_does_not_answer__says_so() -> None:
    with pytest.raises(DevnetError, match="cannot be reached"), budget.forked(f"http://{LOOPBACK}:{free_port()}", KEY):
        pass


@pytest.fixture(scope="module")
def guardian(testnet: Testnet) -> bytes:
    """The code of a guardian on the network."""
    address = Web3Deployer(testnet.w3, deployer()).deploy("Guardian", ROLES[0], ROLES[1], 60)
    return bytes(testnet.w3.eth.get_code(Web3.to_checksum_address(address)))


def test_sources__are_those_of_the_code_on_chain__unless_one_bit_differs(guardian: bytes) -> None:
    made = compile_contract("Guardian")
    assert verify_sources.is_code_of(made, guardian)
    assert not verify_sources.is_code_of(made, bytes([guardian[0] ^ 1]) + guardian[1:])
    assert not verify_sources.is_code_of(made, guardian + b"\0")
    assert not verify_sources.is_code_of(compile_contract("Treasury"), guardian)


@pytest.mark.parametrize("contract", ["Guardian", "ZenToken"])  # the second one imports a package
def test_input_for_explorers__compiles_to_the_contract(contract: str) -> None:
    given = verify_sources.input_of(compile_contract(contract))
    [(_, made)] = [
        (path, each) for path, each in compile_json(given)["contracts"].items() if path.endswith(f"{contract}.vy")
    ]
    assert made[contract]["evm"]["bytecode"]["object"] == "0x" + artifacts.bytecode(contract).removeprefix("0x")


def test_submission__sends_what_sourcify_asks_for__and_says_what_it_answers(guardian: bytes) -> None:
    asked: list[tuple[str, Any]] = []
    answers = [
        {"isJobCompleted": False},
        {"isJobCompleted": True, "contract": {"match": "exact_match"}},
        {"isJobCompleted": True, "contract": {"match": None}, "error": {"message": "the bytecodes differ"}},
    ]

    class Sourcify(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked.append((self.path, json.loads(self.rfile.read(int(self.headers["content-length"])))))
            self.answer({"verificationId": "one"})

        def do_GET(self) -> None:
            assert self.path == "/v2/verify/one"
            self.answer(answers.pop(0))

        def answer(self, content: Any) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps(content).encode())

        def log_message(self, *_: Any) -> None: ...

    made = compile_contract("Guardian")
    source = verify_sources.Source("guardian", "Guardian", ROLES[0], True, verify_sources.input_of(made))
    with ThreadingHTTPServer((LOOPBACK, 0), Sourcify) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://{LOOPBACK}:{server.server_port}"
        assert verify_sources.submit(source, url, CHAIN_ID, poll_s=0) == "exact_match"
        assert verify_sources.submit(source, url, CHAIN_ID, poll_s=0) == "the bytecodes differ"
        server.shutdown()
    path, body = asked[0]
    assert path == f"/v2/verify/{CHAIN_ID}/{ROLES[0]}"
    assert body["contractIdentifier"] == "contracts/Guardian.vy:Guardian"
    assert body["compilerVersion"] == "0.4.3+commit.bff19ea2"
    assert set(body["stdJsonInput"]) == {"language", "sources", "settings"}


@pytest.mark.long
def test_the_page__typed_on_the_network(testnet: Testnet, tmp_path: Path) -> None:
    """docs/guides/testnets.md: dry run, deployment, and the comparison of all 21 contracts with their sources."""
    keys = tmp_path / ".ape" / "accounts"
    keys.mkdir(parents=True)
    (keys / "deployer.json").write_text(json.dumps(Account.encrypt(KEY, "secret", iterations=1000)))
    testnet.set("anvil_setBalance", deployer().address, hex(10**18))
    bin_ = Path(sys.executable).parent
    environment = {
        **os.environ,
        "HOME": str(tmp_path),
        "PATH": f"{bin_}:{os.environ['PATH']}",
        "APE_ACCOUNTS_deployer_PASSPHRASE": "secret",
    }

    def ape(*arguments: str) -> Any:
        command = [str(bin_ / "ape"), "run", *arguments, "--json"]
        done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=10 * HANG_S)
        assert done.returncode == 0, done.stdout + done.stderr
        return json.loads(done.stdout[done.stdout.index("\n{") if "\n{" in done.stdout else done.stdout.index("{") :])

    options = ["--network", f"base:sepolia:{testnet.url}", "--preset", "production", "--account", "deployer"]
    for name, account in zip(("guardian", "proposer", "executor", "canceller", "holder"), ROLES, strict=True):
        options += [f"--{name}", account]
    out = tmp_path / "network.json"
    before = testnet.w3.eth.get_transaction_count(deployer().address)
    said = ape("deploy", *options, "--out", str(out), "--dry-run")
    assert said["enough"] is True
    assert testnet.w3.eth.get_transaction_count(deployer().address) == before
    assert not out.exists()
    done = ape("deploy", *options, "--out", str(out), "--autosign")
    assert testnet.w3.eth.get_transaction_count(deployer().address) == before + said["transactions"]
    assert load(out).chain_id == done["chain_id"] == CHAIN_ID
    compared = ape("verify_sources", str(out), "--out", str(tmp_path / "sources"))["contracts"]
    assert [each["equal"] for each in compared] == [True] * len(load(out).contracts)
    assert len(list((tmp_path / "sources").iterdir())) == len(compared)
