"""Deploy the protocol with ape, and write the network file.

    ape run deploy --network ethereum:local:foundry --preset devnet --out network.json
    ape run deploy --network ethereum:sepolia:node --preset production --account treasurer \
        --guardian 0x... --governor 0x... --governor 0x... --rpc https://rpc.example --out network.json

On a local network the first test account deploys unless --account is given. Elsewhere the account signs each transaction
as ape's accounts do (`ape accounts`), so hardware wallets work. For a chain that outlives the command, anvil must run
already: ape connects to the one that APE_FOUNDRY_HOST names, http://127.0.0.1:8545 unless set.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ape
import click
from ape.api import AccountAPI, ProviderAPI, ReceiptAPI
from ape.cli import ConnectedProviderCommand

from zoo_compute.chain.deployment import INITIAL_SUPPLY, REWARDS_POOL, deploy
from zoo_compute.spec.params import PRESETS, ZEN


class ApeDeployer:
    """deployment.Deployer over an ape account and the contracts of this project."""

    def __init__(self, account: AccountAPI, provider: ProviderAPI) -> None:
        self.account = account
        self.provider = provider

    @property
    def address(self) -> str:
        return str(self.account.address)

    def block(self) -> int:
        return int(self.provider.get_block("latest").number or 0)

    def deploy(self, contract: str, *args: Any) -> str:
        return str(self._mined(self.account.call(getattr(ape.project, contract)(*args))).contract_address)

    def call(self, contract: str, address: str, function: str, *args: Any) -> None:
        bound = getattr(ape.project, contract).at(address, fetch_from_explorer=False)
        self._mined(getattr(bound, function)(*args, sender=self.account))

    def code(self, address: str) -> bytes:
        return bytes(self.provider.get_code(ape.convert(address, ape.types.AddressType)))

    def _mined(self, sent: ReceiptAPI) -> ReceiptAPI:
        """ape does not wait for a node that mines by the clock."""
        receipt = self.provider.get_receipt(sent.txn_hash)
        receipt.raise_for_status()
        return receipt


def account_of(alias: str | None, provider: ProviderAPI) -> AccountAPI:
    """An ape account by alias; on a local network the first test account by default."""
    if alias is not None:
        return ape.accounts.load(alias)
    if not provider.network.is_local:
        raise click.UsageError("--account is needed on this network (`ape accounts list` names yours)")
    return ape.accounts.test_accounts[0]


@click.command(cls=ConnectedProviderCommand)
@click.option("--preset", type=click.Choice(list(PRESETS)), default="devnet", show_default=True, help="Whose windows.")
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), default=Path("network.json"), show_default=True)
@click.option("--name", default=None, help="The network's name; the preset's unless given.")
@click.option("--account", "alias", default=None, help="The ape account that deploys and holds the ZEN supply.")
@click.option("--guardian", default=None, help="May pause intakes; the deployer unless given.")
@click.option(
    "--governor", "governors", multiple=True, help="Of the timelock, may be repeated; the deployer unless given."
)
@click.option(
    "--rpc", "rpcs", multiple=True, help="For the network file, may be repeated; the provider's unless given."
)
@click.option("--supply", type=int, default=INITIAL_SUPPLY // ZEN, show_default=True, help="In ZEN.")
@click.option("--rewards-pool", type=int, default=REWARDS_POOL // ZEN, show_default=True, help="In ZEN.")
def cli(
    provider: ProviderAPI,
    preset: str,
    out: Path,
    name: str | None,
    alias: str | None,
    guardian: str | None,
    governors: tuple[str, ...],
    rpcs: tuple[str, ...],
    supply: int,
    rewards_pool: int,
) -> None:
    """Deploy the protocol and write its network file."""
    deployer = ApeDeployer(account_of(alias, provider), provider)
    deployment = deploy(
        deployer,
        PRESETS[preset],
        guardian=guardian,
        governors=governors,
        supply=supply * ZEN,
        rewards_pool=rewards_pool * ZEN,
        devnet=preset == "devnet",
    )
    rpcs = rpcs or (str(provider.http_uri),)
    deployment.describe(name or preset, PRESETS[preset], provider.chain_id, rpcs).save(out)
    for contract, address in deployment.contracts.items():
        click.echo(f"{contract:<11}{address}")
    for step in deployment.pending:
        click.echo(f"still to do: {step}")
    click.echo(f"network file: {out}")
