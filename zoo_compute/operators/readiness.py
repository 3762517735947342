"""Gathers the input of `find_problems`: the operator's folder, the chain, and whether peers reach its endpoint."""

from __future__ import annotations

import fcntl
import json
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zoo_compute import paths
from zoo_compute.chain import keystore, network
from zoo_compute.chain.connection import Chain, connect
from zoo_compute.chain.events import scan
from zoo_compute.chain.hot_signer import open_signer
from zoo_compute.chain.snapshot import read_operator
from zoo_compute.errors import ConfigError, KeystoreError, SignerRefuses, SignerUnreachable, Unreachable, UserError
from zoo_compute.operators import reachability
from zoo_compute.operators.needs import ChainFacts, NodeProblem, NodeSetup, Reachability, find_problems
from zoo_compute.store import BlockStore, Gateway, StoreError, open_store
from zoo_compute.store.durable_files import locked

if TYPE_CHECKING:
    from zoo_compute.chain.network import Network
    from zoo_compute.chain.views import OperatorView

# Gas that a keeper must be able to pay at present fees: the answers of one defence of a claim.
LEAST_GAS = 2_000_000
GATEWAY_START_S = 10.0


@dataclass
class NodeInspection:
    """One operator's folder, and all input of `needs`. Signs and sends nothing."""

    folder: Path
    values: dict[str, Any]
    setup: NodeSetup
    facts: ChainFacts | None = None
    reach: Reachability | None = None
    peers: list[str] = field(default_factory=list)

    @property
    def needs(self) -> list[NodeProblem]:
        return find_problems(self.setup, self.facts, self.reach)

    def try_endpoint(self) -> None:
        """Let peers fetch from the announced endpoint. `reach` stays None if none is announced."""
        if not self.setup.endpoint or not self.setup.takes_work:
            return
        location = str(self.values.get("store", "store"))
        store = open_store(location if location.startswith("kubo:") else str(self.folder / location))
        self.reach = reachability.reach(self.setup.endpoint, store, self.peers)

    @contextmanager
    def serving(self) -> Iterator[None]:
        """Run the operator's gateway meanwhile, unless it runs already."""
        location, port = str(self.values.get("store", "store")), int(self.values.get("gateway_port", 0))
        if location.startswith("kubo:") or not port:
            yield
            return
        try:
            gateway = Gateway(BlockStore(self.folder / location), self.setup.gateway_host, port)
        except StoreError:  # it runs, or another program has its port: the peers' fetch decides
            yield
            return
        with gateway:
            yield


def inspect_node(folder: Path, network_file: str | None = None) -> NodeInspection:
    """The folder's operator and its state on chain. Raises ConfigError, WrongChain, WrongDeployment.

    network_file: of the command line. A network other than operator.json's is reported as a problem.
    """
    values = read_operator_config(folder)
    setup = _setup(folder, values)
    inspection = NodeInspection(folder, values, setup)
    ours = network.load(Path(setup.network))
    try:
        chain = connect(ours)
        inspection.setup = setup = _with_signer(setup, values, chain)
        inspection.facts = _facts(chain, setup, _other(ours, network_file))
        inspection.peers = [url for url in (*ours.storage, *_endpoints(chain)) if url != setup.endpoint]
    except Unreachable:
        pass
    return inspection


def read_operator_config(folder: Path) -> dict[str, Any]:
    """operator.json, unchanged. Raises ConfigError."""
    path = folder / paths.CONFIG
    try:
        values = json.loads(path.read_text())
    except FileNotFoundError:
        raise ConfigError(
            f"no {paths.CONFIG} in {folder}", hint="run `zoo node register` first, or pass --home"
        ) from None
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path} cannot be read: {error}", hint="repair it, or move it away") from None
    if not isinstance(values, dict) or "network" not in values:
        raise ConfigError(f"{path} names no network", hint="zoo node configure --network-file FILE")
    return values


def is_keeper_running(folder: Path) -> bool:
    """Whether a keeper of this folder runs: its daemon locks a file."""
    path = folder / "locks" / "keeper"
    if not path.exists():
        return False
    try:
        with locked(path, fcntl.LOCK_EX | fcntl.LOCK_NB):
            return False
    except BlockingIOError:
        return True


def wait_for_gateway(host: str, port: int) -> None:
    """Wait until this machine's gateway accepts connections, at most GATEWAY_START_S."""
    own = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    deadline = time.monotonic() + GATEWAY_START_S
    while port and time.monotonic() < deadline:
        try:
            socket.create_connection((own, port), timeout=1).close()
            return
        except OSError:
            time.sleep(0.1)


def _setup(folder: Path, values: dict[str, Any]) -> NodeSetup:
    try:
        hot = keystore.address_of(folder / str(values.get("keystore", paths.HOT_KEY)))
    except KeystoreError:
        hot = ""
    elsewhere = "" if not values.get("prices") else "in other tokens"
    usual = folder.resolve() == (paths.home() / "node").resolve()
    return NodeSetup(
        operator=int(values.get("operator", 0)),
        roles=tuple(values.get("roles", ["provider"])),
        price=str(values.get("price", elsewhere)),
        aggregator_price=str(values.get("aggregator_price", elsewhere)),
        gateway_host=str(values.get("gateway_host", "127.0.0.1")),
        endpoint=str(values.get("endpoint", "")),
        hot="" if values.get("signer") else hot,
        has_signer=bool(values.get("signer")),
        network=str((folder / str(values["network"])).resolve()),
        draining=(folder / paths.DRAINING).exists(),
        running=is_keeper_running(folder),
        home="" if usual else f" --home {folder}",
    )


def _with_signer(setup: NodeSetup, values: dict[str, Any], chain: Chain) -> NodeSetup:
    """With the hot key of a signer, if one has it."""
    if not values.get("signer"):
        return setup
    hot = chain.registry.hot_key(setup.operator) if setup.operator else ""
    try:
        signer = open_signer(str(values["signer"]))
        signer.use(hot)
    except (ConfigError, SignerRefuses, SignerUnreachable) as error:
        return replace(setup, hot=hot, signer_trouble=(str(error), error.hint or "zoo node configure --signer"))
    return replace(setup, hot=signer.address)


def _facts(chain: Chain, setup: NodeSetup, other: str) -> ChainFacts:
    block = chain.w3.eth.get_block("latest")
    base_fee = int(block.get("baseFeePerGas", 0))
    return ChainFacts(
        preset=chain.network.preset,
        min_stake=chain.params.min_stake,
        chain_min_stake=chain.registry.min_stake(),
        hot_coin=chain.coin(setup.hot) if setup.hot else 0,
        least_coin=LEAST_GAS * base_fee,
        view=_view(chain, setup.operator) if setup.operator else None,
        other=other,
        needs_admission=chain.tasks.needs_admission(),
    )


def _view(chain: Chain, operator: int) -> OperatorView | None:
    """The operator with its collateral in ZEN; if that is zero, in every token it ever deposited."""
    try:
        view = read_operator(chain, operator)
    except UserError:
        return None
    if any(balance for balance, _ in view.collateral.values()):
        return view
    head = chain.head().number
    deposits = scan(chain, chain.network.first_block, head, names=("CollateralDeposited",), operator=operator)
    tokens = {str(event.args["token"]) for event in deposits}
    return read_operator(chain, operator, tokens=sorted(tokens | {chain.network.contracts["zen"]}))


def _other(ours: Network, network_file: str | None) -> str:
    """The network that commands use here, if it is not the operator's; else empty."""
    try:
        path = paths.find_network_file(network_file)
        used = network.load(path)
    except ConfigError:
        return ""
    return "" if used.is_same(ours) else f"{used.name} (chain {used.chain_id}, preset {used.preset}) of {path}"


def _endpoints(chain: Chain) -> list[str]:
    """Newest announced endpoint of each operator."""
    newest: dict[int, str] = {}
    names = ("OperatorRegistered", "EndpointAnnounced")
    for event in scan(chain, chain.network.first_block, chain.head().number, names=names):
        newest[int(event.args["operator"])] = str(event.args["endpoint"])
    return [url for url in newest.values() if url]
