"""The contracts as the installed vyper compiles them."""

from __future__ import annotations

import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vyper.compiler.input_bundle import FilesystemInputBundle
from vyper.compiler.output import build_abi_output, build_layout_output
from vyper.compiler.phases import CompilerData

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "contracts"
# In the order of deployment.
CONTRACTS = (
    "ZenToken",
    "Timelock",
    "Guardian",
    "Treasury",
    "AuditPool",
    "Credits",
    "NodeRegistry",
    "TaskRegistry",
    "Rewards",
    "Datasets",
    "Channels",
    "Auction",
    "Locks",
    "Settlement",
    "Audits",
    "Availability",
    "Custody",
    "Admissions",
    "Serving",
    "OpExecutor",
    "ConsistencyProofs",
    "Evidence",
    "Descent",
    "Referee",
)


@dataclass(frozen=True)
class Compiled:
    """A compiled contract: the input of its artifact and its binding."""

    name: str
    source: str
    data: CompilerData

    @property
    def deployed_bytes(self) -> int:
        """Bytes on chain: the runtime code and the immutables after it."""
        module = self.data.annotated_vyper_module._metadata["type"]
        return len(self.data.bytecode_runtime) + int(module.immutable_section_bytes)

    @property
    def immutables(self) -> dict[str, int]:
        """Where the code has each address and number that the constructor gave it: byte offsets by name."""
        return dict(
            sorted(_words_in(build_layout_output(self.data).get("code_layout", {}), len(self.data.bytecode_runtime)))
        )

    def artifact(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "abi": build_abi_output(self.data),
            "bytecode": "0x" + self.data.bytecode.hex(),
            "deployed_bytes": self.deployed_bytes,
            "immutables": self.immutables,
            # Covers the contract and everything it imports.
            "source_sha256": self.data.integrity_sum,
        }


def _words_in(layout: dict[str, Any], start: int) -> Iterator[tuple[str, int]]:
    """Those of the modules too, which the compiler nests."""
    for name, item in layout.items():
        if "offset" not in item:
            yield from _words_in(item, start)
        elif item["type"] in ("address", "uint256", "bool"):
            yield name, start + int(item["offset"])


def compile_contract(name: str) -> Compiled:
    """Compile one contract of `contracts/` with the installed vyper."""
    bundle = FilesystemInputBundle([Path(sysconfig.get_paths()["purelib"]), SOURCES])
    source = bundle.load_file(SOURCES / f"{name}.vy")
    return Compiled(name, source.source_code, CompilerData(source, bundle))
