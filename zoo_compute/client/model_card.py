"""The model card of a job's result: data, rounds and price, and where on chain the proof is."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

from zoo_compute.chain.network import CONTRACTS
from zoo_compute.store import raw_cid

if TYPE_CHECKING:
    from zoo_compute.chain.network import Network
    from zoo_compute.client.progress import Progress
    from zoo_compute.client.results import Result
    from zoo_compute.formats.manifest import Manifest

PROVING = ("tasks", "settlement", "referee")  # contracts that a reader of the proof asks


def model_card(
    title: str,
    result: Result,
    manifest: Manifest,
    progress: Progress,
    network: Network,
    names: Mapping[str, str],
    adapter: str = "",
) -> str:
    """README.md of the folder. names: what the submitter called model, data and tokenizer, where that is known. adapter: what it is, of a
    job with `lora`.
    """
    losses = ", ".join(f"{loss:.4f}" for loss in progress.losses if loss is not None)
    price = progress.token.format(progress.spent)
    due = f", and {progress.token.format(progress.due)} is due when the last claims are final" if progress.due else ""
    state = "final: nobody can challenge it any more" if result.final else "not final yet: it can still be challenged"
    rows = [
        ("started from", names.get("model", "")),
        ("trained", adapter),
        ("data", _data(manifest, names)),
        ("tokenizer", names.get("tokenizer", "")),
        (
            "training",
            f"{result.round} of {result.rounds} rounds of {manifest.slots} slots, {manifest.inner_steps} steps of "
            f"{manifest.batch_size} examples each",
        ),
        ("loss by round", f"{losses} (reported by nodes, unverified)" if losses else ""),
        ("price", f"{price} paid{due}"),
        ("state", state),
    ]
    proof = [
        ("network", f"{network.name}, chain {network.chain_id}"),
        ("job", str(result.job)),
        *((CONTRACTS[name], f"`{network.contracts[name]}`") for name in PROVING),
        ("manifest", f"`{raw_cid(manifest.digest)}`"),
        ("program", f"root `0x{manifest.program.root}`"),
        ("data", f"root `0x{manifest.data.root}`, `{manifest.data.cid}`"),
        ("start", f"root `0x{manifest.state.root}`"),
        (
            "final checkpoint" if result.round == result.rounds else "checkpoint",
            f"root `{result.root}`, `{result.cid}`",
        ),
    ]
    return "\n".join(
        [
            *_front_matter(names),
            f"# {title}",
            "",
            "Trained by independent operators through Zoo Compute, where anyone can challenge a result before it is paid.",
            "These weights are those of the checkpoint whose root is on chain.",
            "",
            *_table(rows),
            "",
            "## Proof",
            "",
            *_table(proof),
            "",
            "Fetch the checkpoint and compare it with the chain, then train every part again and compare every bit:",
            "",
            "```",
            f"zoo job result {result.job} --out model.safetensors",
            f"zoo verify {result.job} --all",
            "```",
            "",
            "The root covers the outer optimizer's state too (`--whole`), which this folder leaves out. The job's data and",
            "every checkpoint are public.",
            "",
        ]
    )


def _front_matter(names: Mapping[str, str]) -> list[str]:
    lines = ["---", "library_name: transformers", "pipeline_tag: text-generation", "tags: [zoo-compute]"]
    if "@" in names.get("model", ""):
        lines.append(f"base_model: {json.dumps(names['model'].partition('@')[0])}")
    if "@" in names.get("data", ""):
        lines.append(f"datasets: [{json.dumps(names['data'].partition('@')[0])}]")
    return [*lines, "---", ""]


def _data(manifest: Manifest, names: Mapping[str, str]) -> str:
    which = "".join(f", {key} {names[key]}" for key in ("subset", "split", "column") if key in names)
    source = f"{names['data']}{which}; " if "data" in names else ""
    return f"{source}{manifest.data.examples:,} examples"


def _table(rows: list[tuple[str, str]]) -> list[str]:
    return ["| | |", "|---|---|", *(f"| {name} | {text} |" for name, text in rows if text)]
