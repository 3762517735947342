"""A local chain: anvil on loopback, the protocol deployed, named accounts with coin and ZEN.

    with Devnet(folder) as devnet:
        alice = devnet.account("alice", zen=1_000 * ZEN)
        Sender(devnet.chain, alice).send(...)

The folder keeps the chain's state, the network file and the key files, so that a later start resumes.
"""

from __future__ import annotations

import fcntl
import secrets
import time
from pathlib import Path
from types import TracebackType
from typing import IO, Any
from urllib.parse import urlsplit

from eth_account.signers.local import LocalAccount
from web3 import Web3
from web3.middleware import AttributeDictMiddleware
from web3.types import RPCEndpoint

from zoo_compute.atomic import write_atomically
from zoo_compute.chain import keystore
from zoo_compute.chain.connection import Chain, connect
from zoo_compute.chain.deployment import Web3Deployer, deploy
from zoo_compute.chain.network import Network, load
from zoo_compute.chain.provider import FailoverProvider
from zoo_compute.chain.sender import Sender
from zoo_compute.devnet.anvil import Anvil
from zoo_compute.devnet_files import CHAIN_ID, DevnetFiles
from zoo_compute.errors import ChainError, DevnetError
from zoo_compute.spec.params import PRESETS
from zoo_compute.subprocesses import is_free

COIN = 10**18  # wei
DEPLOYER = "deployer"  # owns the ZEN supply
LOCK_ATTEMPTS, LOCK_PAUSE_S = 5, 0.05
# The deployer is the first of anvil's public test accounts, so that ape's test accounts work here too: `ape console`,
# `ape run fund`. Nothing on this chain has value, and it listens on loopback only.
DEPLOYER_KEY = bytes.fromhex("ac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80")


class Devnet:
    """Start it as a context manager, or with `start` and `stop`.

    port 0: the port of the last start if it is free, else any. block_time: seconds between empty blocks; transactions
    are mined at once. preset: sets the contracts' time windows; `warp` skips long ones.
    """

    def __init__(self, folder: Path, preset: str = "devnet", block_time: float = 1, port: int = 0) -> None:
        if preset not in PRESETS:
            raise DevnetError(f"no preset {preset!r}", hint=f"choose one of {', '.join(PRESETS)}")
        self.files = DevnetFiles(Path(folder).absolute())
        self.folder = self.files.folder
        self.preset = preset
        self.block_time = block_time
        self.port = port
        self.network_file = self.files.network_file
        self._state = self.files.state
        self._anvil: Anvil | None = None
        self._lock: IO[str] | None = None
        self._chain: Chain | None = None

    # -- life

    def start(self) -> Devnet:
        """Start; ready when this returns. Raises DevnetError."""
        self._hold_folder()
        try:
            resumes = self.network_file.exists() and self._state.exists()
            if not resumes:
                self.network_file.unlink(missing_ok=True)
                self._state.unlink(missing_ok=True)
            port = self.port or (_last_port(self.network_file) if resumes else 0)  # clients keep their network files
            log = self.folder / "anvil.log"
            self._anvil = Anvil.start(
                chain_id=CHAIN_ID, block_time=self.block_time, port=port, state=self._state, log=log
            )
            self._chain = self._resume() if resumes else self._deploy()
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """Stop anvil, which writes its state, and unlock the folder. Does nothing if not started."""
        if self._anvil is not None:
            self._anvil.stop()
            self._anvil = None
        if self._lock is not None:
            self.files.clear_ready()
            self._lock.close()
            self._lock = None
        self._chain = None

    def __enter__(self) -> Devnet:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    # -- properties and accounts

    @property
    def chain(self) -> Chain:
        if self._chain is None:
            raise DevnetError("the devnet is not started", hint="use it as a context manager, or call start()")
        return self._chain

    @property
    def network(self) -> Network:
        return self.chain.network

    @property
    def url(self) -> str:
        return self.network.rpcs[0]

    @property
    def passphrase_file(self) -> Path:
        """Passphrase of all key files in the folder; set ZOO_PASSPHRASE_FILE to it."""
        return self.files.passphrase_file

    def key_file(self, name: str) -> Path:
        return self.files.key_file(name)

    def account(self, name: str, *, coin: int = 100 * COIN, zen: int = 0) -> LocalAccount:
        """The account of this name, topped up to `coin` wei and `zen`. Its key file is made at first use."""
        account = self._unlocked(name)
        self.fund(str(account.address), coin=coin, zen=zen)
        return account

    def fund(self, address: str, *, coin: int = 0, zen: int = 0) -> None:
        """Top up an account to at least these balances."""
        have = self.chain.coin(address), self.chain.zen.balanceOf(address)
        fund_address(self.chain, self.files, address, coin=max(0, coin - have[0]), zen=max(0, zen - have[1]))

    # -- time, for tests and demonstrations

    def warp(self, seconds: int) -> int:
        """Advance the chain's time. Returns the new `now`."""
        self.rpc("evm_increaseTime", [seconds])
        self.rpc("evm_mine", [])
        return self.chain.now()

    def warp_to(self, timestamp: int) -> int:
        """Advance to `timestamp`, unless it has passed. Returns the chain's `now`."""
        now = self.chain.now()
        return self.warp(timestamp - now) if timestamp > now else now

    def rpc(self, method: str, params: list[Any]) -> Any:
        """Any of anvil's own methods."""
        return rpc(self.chain, method, params)

    # -- parts of the start

    def _hold_folder(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self._lock = open(self.files.lock, "a")  # noqa: SIM115 (open until stop)
        for _ in range(LOCK_ATTEMPTS):
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:  # a devnet runs here, or a command is checking for one right now
                time.sleep(LOCK_PAUSE_S)
            else:
                self.files.clear_ready()  # left by a killed devnet
                return
        self._lock.close()
        self._lock = None
        raise DevnetError(f"{self.folder}: a devnet is already running there", hint="stop it, or use another folder")

    def _deploy(self) -> Chain:
        assert self._anvil is not None
        w3 = Web3(FailoverProvider((self._anvil.url,), CHAIN_ID), middleware=[AttributeDictMiddleware])
        account = self._unlocked(DEPLOYER)
        params = PRESETS[self.preset]
        deployment = deploy(Web3Deployer(w3, account), params, devnet=True)
        network = deployment.describe("devnet", params, CHAIN_ID, [self._anvil.url])
        chain = connect(network)
        network.save(self.network_file)
        return chain

    def _resume(self) -> Chain:
        assert self._anvil is not None
        saved = load(self.network_file)
        network = Network(**{**vars(saved), "rpcs": (self._anvil.url,)})
        if network.preset != self.preset:
            raise DevnetError(
                f"{self.folder} contains a devnet of preset {network.preset!r}",
                hint=f"use another folder for preset {self.preset!r}, or delete this one",
            )
        chain = connect(network)
        network.save(self.network_file)
        # anvil restarts from the wall clock; without this the chain's time would stop until the clock catches up.
        ahead = chain.now() - int(time.time())
        if ahead > 0:
            chain.w3.provider.make_request(RPCEndpoint("evm_increaseTime"), [ahead])
        return chain

    def _unlocked(self, name: str) -> LocalAccount:
        return unlock_account(self.files, name)


def fund_address(chain: Chain, files: DevnetFiles, address: str, *, coin: int, zen: int) -> None:
    """Add new coin (in wei), and ZEN from the deployer's supply."""
    if coin:
        rpc(chain, "anvil_setBalance", [address, hex(chain.coin(address) + coin)])
    if zen:
        Sender(chain, unlock_account(files, DEPLOYER), folder=files.folder).send(chain.zen.transfer(address, zen))


def rpc(chain: Chain, method: str, params: list[Any]) -> Any:
    """Any of anvil's own methods."""
    answer = chain.w3.provider.make_request(RPCEndpoint(method), params)
    if "error" in answer:
        raise ChainError(f"{method}: {answer['error']}")
    return answer.get("result")


def unlock_account(files: DevnetFiles, name: str) -> LocalAccount:
    """The devnet's account of this name. Its key file is made at first use."""
    path = files.key_file(name)
    if not files.passphrase_file.exists():
        write_atomically(files.passphrase_file, secrets.token_hex(16).encode(), mode=0o600)
    passphrase = files.passphrase_file.read_text()
    if not path.exists():
        key = DEPLOYER_KEY if name == DEPLOYER else None
        keystore.create(path, passphrase, private_key=key, work=keystore.DEVNET_WORK)
    return keystore.unlock(path, passphrase)


def _last_port(network_file: Path) -> int:
    """The port of the network file if it is free, else 0."""
    port = urlsplit(load(network_file).rpcs[0]).port or 0
    return port if port and is_free(port) else 0
