"""Deploy the protocol with ape, and write the network file.

    ape run deploy --network ethereum:local:foundry --preset devnet --out network.json
    ape run deploy --network ethereum:sepolia:https://rpc.example --preset production --account treasurer \
        --guardian 0x... --proposer 0x... --executor 0x... --canceller 0x... --holder 0x... \
        --dry-run

With --dry-run it says what the deployment would cost, and sends nothing (scripts/budget.py). Without it, it deploys.

On a local network the first test account deploys unless --account is given. Elsewhere the account signs each transaction
as ape's accounts do (`ape accounts`), so hardware wallets work. For a chain that outlives the command, anvil must run
already: ape connects to the one that APE_FOUNDRY_HOST names, http://127.0.0.1:8545 unless set.

With the production preset each role is a multisig on this chain, and no account has two: docs/guides/upgrading.md.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import ape
import click
from ape.api import AccountAPI, ProviderAPI, ReceiptAPI
from ape.cli import ConnectedProviderCommand
from ape.contracts import ContractContainer
from ethpm_types import ContractType

from scripts import budget
from zoo_compute.amounts import format_amount, format_seconds
from zoo_compute.chain import artifacts
from zoo_compute.chain.deployment import CREDITS_POOL, INITIAL_SUPPLY, REWARDS_POOL, Deployer, Deployment, deploy
from zoo_compute.chain.roles import LISTED, address_of, roles_of
from zoo_compute.errors import ZooError
from zoo_compute.spec.params import PRESETS, ZEN


@cache
def compiled(contract: str) -> ContractContainer:
    """A contract as `make generate` compiled it. ape's own cache misses changes in the modules that a contract imports."""
    built = artifacts.artifact(contract)
    code = {"bytecode": built["bytecode"]}
    described = {"contractName": contract, "abi": built["abi"], "deploymentBytecode": code}
    return ContractContainer(ContractType.model_validate(described))


class ApeDeployer:
    """deployment.Deployer over an ape account and this project's contracts."""

    def __init__(self, account: AccountAPI, provider: ProviderAPI) -> None:
        self.account = account
        self.provider = provider

    @property
    def address(self) -> str:
        return str(self.account.address)

    def block(self) -> int:
        return int(self.provider.get_block("latest").number or 0)

    def deploy(self, contract: str, *args: Any) -> str:
        return str(self._mined(self.account.call(compiled(contract)(*args))).contract_address)

    def call(self, contract: str, address: str, function: str, *args: Any) -> None:
        bound = compiled(contract).at(address, fetch_from_explorer=False)
        self._mined(getattr(bound, function)(*args, sender=self.account))

    def read(self, contract: str, address: str, function: str) -> str:
        bound = compiled(contract).at(address, fetch_from_explorer=False)
        return str(getattr(bound, function)())

    def code(self, address: str) -> bytes:
        return bytes(self.provider.get_code(ape.convert(address, ape.types.AddressType)))

    def _mined(self, sent: ReceiptAPI) -> ReceiptAPI:
        """ape does not wait for a node that mines by the clock."""
        receipt = self.provider.get_receipt(sent.txn_hash)
        receipt.raise_for_status()
        return receipt


def account_of(alias: str | None, provider: ProviderAPI, autosign: bool) -> AccountAPI:
    """An ape account by alias; on a local network the first test account by default."""
    if alias is not None:
        account = ape.accounts.load(alias)
        if autosign:
            account.set_autosign(True)
        return account
    if not provider.network.is_local:
        raise click.UsageError("--account is needed on this network (`ape accounts list` names yours)")
    return ape.accounts.test_accounts[0]


def report(deployment: Deployment, preset: str, chain_id: int, deployer: str, out: Path, pool: int) -> dict[str, Any]:
    """What was set, for people and scripts."""
    params = PRESETS[preset]
    return {
        "preset": preset,
        "chain_id": chain_id,
        "deployer": deployer,
        "roles": deployment.roles.to_dict(),
        "timelock_s": params.timelock_s,
        "pause_s": params.pause_s,
        "rewards_pool": str(pool),
        "contracts": dict(deployment.contracts),
        "code_hashes": dict(deployment.code_hashes),
        "pending": list(deployment.pending),
        "network_file": str(out),
    }


def lines_of(done: dict[str, Any]) -> list[str]:
    """The report for people."""
    roles = done["roles"]
    return [
        *(f"{name:<13}{address}" for name, address in done["contracts"].items()),
        "",
        f"deployer     {done['deployer']}: may do nothing more"
        + " but what its roles say" * (done["preset"] == "devnet"),
        f"guardian     {roles['guardian']}: pauses intakes for {format_seconds(done['pause_s'])}",
        *(f"{name:<13}{', '.join(roles[name])}" for name in LISTED),
        f"holder       {roles['holder']}: has the ZEN supply",
        *(f"shared       {account}: {reason}" for account, reason in roles["shared"].items()),
        f"timelock     {format_seconds(done['timelock_s'])} before each decision of the governors",
        f"rewards      {format_amount(int(done['rewards_pool']))} in the pool, which the timelock can move",
        *(f"still to do: {step}" for step in done["pending"]),
        f"network file: {done['network_file']}",
    ]


@click.command(cls=ConnectedProviderCommand)
@click.option("--preset", type=click.Choice(list(PRESETS)), default="devnet", show_default=True, help="Whose windows.")
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), default=Path("network.json"), show_default=True)
@click.option("--name", default=None, help="The network's name; the preset's unless given.")
@click.option("--account", "alias", default=None, help="The ape account that deploys.")
@click.option("--guardian", default=None, help="Pauses intakes.")
@click.option("--proposer", "proposers", multiple=True, help="Schedules calls in the timelock; may be repeated.")
@click.option("--executor", "executors", multiple=True, help="Executes them after the delay; may be repeated.")
@click.option("--canceller", "cancellers", multiple=True, help="Cancels them before; may be repeated.")
@click.option("--holder", default=None, help="Receives the ZEN supply.")
@click.option("--shared", multiple=True, metavar="ADDRESS=REASON", help="An account that has two roles on purpose.")
@click.option(
    "--rpc", "rpcs", multiple=True, help="For the network file, may be repeated; the provider's unless given."
)
@click.option("--supply", type=int, default=INITIAL_SUPPLY // ZEN, show_default=True, help="In ZEN.")
@click.option(
    "--rewards-pool",
    type=int,
    default=None,
    help=f"In ZEN. [{REWARDS_POOL // ZEN}; with --zen 0, its timelock moves one here]",
)
@click.option(
    "--credits-pool",
    type=int,
    default=None,
    help=f"For the mints of work paid in credits, in ZEN. [{CREDITS_POOL // ZEN}; with --zen 0]",
)
@click.option("--zen", default=None, help="The token of the version before, to deploy another version beside it.")
@click.option(
    "--dry-run", is_flag=True, help="Deploy on a fork of the chain, on this machine, and print what it would cost."
)
@click.option("--autosign", is_flag=True, help="Ask for the account's passphrase once, then sign without asking.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def cli(
    provider: ProviderAPI,
    preset: str,
    out: Path,
    name: str | None,
    alias: str | None,
    rpcs: tuple[str, ...],
    supply: int,
    rewards_pool: int | None,
    credits_pool: int | None,
    zen: str | None,
    dry_run: bool,
    autosign: bool,
    as_json: bool,
    **roles: Any,
) -> None:
    """Deploy the protocol and write its network file. On a devnet the deployer has each role that is not given."""
    account = account_of(alias, provider, autosign and not dry_run)
    if preset == "devnet" and not provider.network.is_local:
        raise click.UsageError(
            "the devnet preset on a network that others use; its clocks are seconds, and one key governs it; "
            "pass --preset production"
        )
    if rewards_pool is None:
        rewards_pool = 0 if zen else REWARDS_POOL // ZEN
    if credits_pool is None:
        credits_pool = 0 if zen else CREDITS_POOL // ZEN
    pool, mints = rewards_pool * ZEN, credits_pool * ZEN

    def deployed(by: Deployer) -> Deployment:
        return deploy(
            by,
            PRESETS[preset],
            roles=roles_of(by.address, **roles),
            supply=supply * ZEN,
            rewards_pool=pool,
            credits_pool=mints,
            zen=zen and address_of(zen, "--zen"),
            devnet=preset == "devnet",
        )

    try:
        if dry_run:
            show(cost_of(deployed, account, provider), budget.lines_of, as_json)
            return
        deployment = deployed(ApeDeployer(account, provider))
    except ZooError as error:
        raise click.ClickException(f"{error}\n{error.hint}".rstrip()) from None
    rpcs = rpcs or (str(provider.http_uri),)
    deployment.describe(name or preset, PRESETS[preset], provider.chain_id, rpcs).save(out)
    show(report(deployment, preset, provider.chain_id, str(account.address), out, pool), lines_of, as_json)


def cost_of(deployed: Callable[[Deployer], Deployment], account: AccountAPI, provider: ProviderAPI) -> dict[str, Any]:
    """The budget of a deployment, which is made on a fork."""
    with budget.forked(str(provider.http_uri), str(account.address)) as fork:
        deployed(fork)
        return budget.budget_of(fork.steps, gas_price=provider.gas_price, balance=int(account.balance))


def show(result: dict[str, Any], lines: Callable[[dict[str, Any]], list[str]], as_json: bool) -> None:
    click.echo(json.dumps(result, indent=2) if as_json else "\n".join(lines(result)))
