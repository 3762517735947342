"""The demo's report, from the chain's events, the keepers' ledgers and the checkpoints. Amounts in wei."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

from keepers.processes.local_network import LocalNetwork
from keepers.queue import broker, seals
from node.compute.programs import State
from node.compute.training import heldout_loss
from node.inputs.checkpoints import fetch_checkpoint, fetch_pointer
from node.inputs.job_files import fetch_job, fetch_manifest
from node.inputs.programs import fetch_programs
from node.replay import replay
from repops.files import load_state
from scripts.demo.delivery import Delivery
from scripts.demo.replay import Replaying
from scripts.demo.report_text import as_text, plot
from zoo_compute.chain import custody as custodies
from zoo_compute.chain.audits import read_audits, summary
from zoo_compute.chain.connection import Chain
from zoo_compute.chain.events import Event, scan
from zoo_compute.chain.network import load as load_network
from zoo_compute.chain.snapshot import read_job
from zoo_compute.chain.views import Checkpoint, JobView
from zoo_compute.client.dispute_transcript import Transcript, lines_of
from zoo_compute.client.disputes import list_disputes
from zoo_compute.jobs.config import ComputeJob, Manifest
from zoo_compute.jobs.model_source import call_model_function
from zoo_compute.spec.params import COIN
from zoo_compute.store import BlockStore
from zoo_compute.store.cid import raw_cid

QUESTIONS_A_REQUEST = 100
MODEL = "model.safetensors"  # as delivered, in the run's folder
WITNESS = "witness"  # an account without a part in the job, and its folder


@dataclass(frozen=True)
class Money:
    """A job's payments. INVARIANTS: the two sums of `check`."""

    escrowed: int
    restored: int  # after rollbacks, out of convicted locks
    paid_nodes: int
    fee_treasury: int
    refunded: int
    slashed: int
    slashed_to: Mapping[str, int]

    def check(self) -> None:
        """Raises AssertionError if a wei is missing."""
        out = self.paid_nodes + self.fee_treasury + self.refunded
        funded = self.escrowed + self.restored
        assert funded == out, f"escrowed {self.escrowed} wei, restored {self.restored}, paid out {out}"
        received = sum(self.slashed_to.values())
        assert self.slashed == received, f"slashed {self.slashed} wei, received {received}"


def money_of(events: Sequence[Event], names: Mapping[int, str]) -> Money:
    """A job's money from the events of a run with that job alone. `names` are the operators'."""

    def total(event: str, field: str) -> int:
        return sum(e.args[field] for e in events if e.name == event)

    slashed_to: dict[str, int] = defaultdict(int)
    for event in events:
        if event.name == "CollateralCredited":
            slashed_to[names[event.args["operator"]]] += event.args["amount"]
        elif event.name == "PotBurned":
            slashed_to["burned"] += event.args["amount"]
        elif event.name == "JobFunded":
            slashed_to["the job's escrow"] += event.args["amount"]
        elif event.name == "Owed" and event.args["token"] != COIN:  # else a posting deposit
            slashed_to[event.args["account"]] += event.args["amount"]
    if set_aside := total("ClaimConvicted", "to_finder") - total("FinderRewarded", "amount"):
        slashed_to["set aside for the finder"] = set_aside
    return Money(
        escrowed=total("JobPosted", "escrow"),
        restored=total("JobFunded", "amount"),
        paid_nodes=total("Paid", "net"),
        fee_treasury=total("Paid", "fee"),
        refunded=total("JobClosed", "refunded"),
        slashed=total("CollateralSlashed", "amount"),
        slashed_to=dict(slashed_to),
    )


def who_trained(events: Iterable[Event], names: Mapping[int, str]) -> dict[int, dict[int, str]]:
    """round -> slot -> operator, from the commitments."""
    table: dict[int, dict[int, str]] = defaultdict(dict)
    for event in events:
        if event.name == "ResultsCommitted":
            claim = event.args["claim"]
            first, count = claim["scope"] >> 16, claim["scope"] & 0xFFFF
            for slot in range(first, first + count):
                table[claim["round"]][slot] = names[event.args["operator"]]
    return {round_: dict(sorted(slots.items())) for round_, slots in sorted(table.items())}


def masks_of(view: JobView) -> list[int]:
    """The slots in each closed round, after rollbacks, in order: a bitmap each."""
    return [
        sum(1 << slot for slot, commit in view.committed(made.turn).items() if made.mask >> commit.seat & 1)
        for made in _made(view)
    ]


def _made(view: JobView) -> list[Checkpoint]:
    """The aggregations of the current checkpoints, after rollbacks."""
    aggregations = [view.checkpoint_of(round_) for round_ in range(1, view.completed_rounds + 1)]
    return [made for made in aggregations if made is not None]


def gas_of(chain: Chain, from_block: int, to_block: int) -> dict[str, dict[str, int]]:
    """operation -> {count, total, mean} of every transaction to the contracts in these blocks, from any sender."""
    names = {address: name for name, address in chain.network.contracts.items()}
    spent: dict[str, list[int]] = defaultdict(list)
    eth = chain.w3.eth
    blocks = _asked(chain, [partial(eth.get_block, number, True) for number in range(from_block, to_block + 1)])
    sent = [each for block in blocks for each in block["transactions"] if each["to"] in names]
    receipts = _asked(chain, [partial(eth.get_transaction_receipt, each["hash"]) for each in sent])
    for transaction, receipt in zip(sent, receipts, strict=True):
        contract = names[transaction["to"]]
        function = chain.contract(contract).get_function_by_selector(bytes(transaction["input"][:4]))
        failed = "" if receipt["status"] else " (reverted)"
        spent[f"{contract}.{function.fn_name}{failed}"].append(receipt["gasUsed"])
    return {
        operation: {"count": len(gas), "total": sum(gas), "mean": round(sum(gas) / len(gas))}
        for operation, gas in sorted(spent.items())
    }


def _asked(chain: Chain, questions: Sequence[Callable[[], Any]]) -> list[Any]:
    """The answers, in batched requests."""
    answers: list[Any] = []
    for start in range(0, len(questions), QUESTIONS_A_REQUEST):
        with chain.w3.batch_requests() as batch:
            for question in questions[start : start + QUESTIONS_A_REQUEST]:
                batch.add(question())
            answers += batch.execute()
    return answers


def verification_of(reports: Sequence[Mapping[str, Any]]) -> tuple[int, int]:
    """Segments that were re-executed, and results that did not agree. A report of a verifier's own failure counts as neither."""
    false = {(report["turn"], report["slot"]) for report in reports if report.get("agrees") is False}
    return sum(report.get("segments", 0) for report in reports), len(false)


def witness_checks(folder: Path) -> list[dict[str, Any]]:
    """What the witness re-executed (`zoo verify --json`); empty where there was none."""
    path = folder / WITNESS / "verify.json"
    checked: list[dict[str, Any]] = json.loads(path.read_text())["checked"] if path.exists() else []
    return checked


@dataclass(frozen=True)
class Report:
    """A finished run. report: the content of `report.json`. losses: of the checkpoints, the initial one first."""

    report: dict[str, Any]
    trained: Mapping[int, Mapping[int, str]]
    losses: Sequence[float]
    sample: str

    def save(self, folder: Path) -> None:
        """report.json, report.txt and loss.png."""
        (folder / "report.json").write_text(json.dumps(self.report, indent=2) + "\n")
        (folder / "report.txt").write_text(self.text() + "\n")
        plot(folder / "loss.png", self.losses, self.trained, self.report["shards"], "A small GPT, trained by strangers")

    def text(self) -> str:
        return as_text(self.report, self.trained, self.losses, self.sample)


def sampled(config: ComputeJob, parameters: Mapping[str, Any]) -> str:
    """Text that the submitter's module generates from the trained weights; empty if it has no `generate`."""
    module, _, _ = config.model.parts or call_model_function(config.model, config.directory)
    if not hasattr(module, "generate"):
        return ""
    module.load_state_dict({name: torch.from_numpy(array) for name, array in parameters.items()}, strict=False)
    text: bytes = module.generate(b"def ", 300, seed=0)
    return text.decode(errors="replace")


def collect(
    network: LocalNetwork,
    job: int,
    config: ComputeJob,
    folder: Path,
    replaying: Replaying | None,
    delivery: Delivery,
) -> Report:
    """Read the chain, fetch the checkpoints, and compare them with the replay's."""
    chain, first = network.devnet.chain, network.devnet.network.first_block
    view = read_job(chain, job)
    events = list(scan(chain, first, view.block))
    names = network.operators
    store = BlockStore(folder / "reader", peers_of(network))
    manifest = fetch_manifest(store, raw_cid(view.terms.manifest))
    files = fetch_job(store, manifest)
    states = [_checkpoint(store, manifest, view, round_) for round_ in range(view.completed_rounds + 1)]
    losses = [heldout_loss(manifest, files.programs, state, files.heldout) for state in states]
    money = money_of(events, names)
    money.check()
    gas = gas_of(chain, first, view.block)
    segments, mismatches = verification_of([*network.verification_reports(), *witness_checks(folder)])
    equal = None
    if replaying is not None:
        masks = masks_of(view)
        roots = replaying.roots(masks) or replay(manifest, store, masks).roots
        equal = roots == [view.checkpoint_roots[made] for made in range(view.completed_rounds + 1)]
    pointer = raw_cid(view.checkpoint_cids[view.completed_rounds][0])
    sample = sampled(config, load_state(folder / MODEL))
    (folder / "manifest.json").write_bytes(manifest.to_bytes())
    figures = {
        "job": job,
        "rounds": view.completed_rounds,
        "turns": len(view.checkpoints),
        "shards": manifest.slots,
        "nodes": len(names),
        "loss_first": losses[1],
        "loss_last": losses[-1],
        "losses": losses,
        "escrowed": str(money.escrowed),
        "restored": str(money.restored),
        "paid_nodes": str(money.paid_nodes),
        "fee_treasury": str(money.fee_treasury),
        "refunded": str(money.refunded),
        "slashed": str(money.slashed),
        "slashed_to": {name: str(amount) for name, amount in money.slashed_to.items()},
        "transactions": sum(entry["count"] for entry in gas.values()),
        "gas_total": sum(entry["total"] for entry in gas.values()),
        "gas_by_operation": gas,
        "checkpoint_cid": pointer,
        "state_cid": fetch_pointer(store, pointer).state,
        "verified_segments": segments,
        "mismatches": mismatches,
        "reassigned": slots_taken_over(view, events),
        "disputes": disputes_of(chain, job, events),
        "audits": audits_of(chain, view, names),
        "custody": custody_of(chain, view, names),
        "delivery": delivery.to_dict(),
        "bit_equal_replay": equal,
        "checkpoint_root": view.checkpoint_roots[view.completed_rounds].hex(),
        "masks": [hex(mask) for mask in masks_of(view)],
        "shard_reports": shard_reports(network, job),
    }
    return Report(figures, who_trained(events, names), losses, sample)


def audits_of(chain: Chain, view: JobView, names: Mapping[int, str]) -> dict[str, Any]:
    """What auditors were drawn for, what they said, and who was paid how much."""
    of = summary(view, read_audits(chain, view))
    paid_to = {names[int(operator)]: amount for operator, amount in of["paid_to"].items()}
    return {key: of[key] for key in ("drawn", "verdicts", "clean", "false", "paid")} | {"paid_to": paid_to}


def custody_of(chain: Chain, view: JobView, names: Mapping[int, str]) -> dict[str, Any]:
    """How many turns custodians signed for, and who was paid how much."""
    of = custodies.read_custody(chain, view)
    assert of is not None, "the demo's job asks for custodians"
    inputs = sum(1 for record in of.records.values() if record.inputs)
    checkpoints = sum(1 for record in of.records.values() if record.checkpoint)
    paid_to = {names[operator]: str(amount) for operator, amount in sorted(of.paid.items())}
    return {"inputs": inputs, "checkpoints": checkpoints, "paid": str(sum(of.paid.values())), "paid_to": paid_to}


def disputes_of(chain: Chain, job: int, events: Sequence[Event]) -> list[dict[str, Any]]:
    """Every dispute: its transcript, the gas of each side, and the money of its conviction."""
    disputes = []
    for dispute in list_disputes(chain, chain.head(), job):
        transcript, view = Transcript(chain, dispute), dispute.view
        convicted = [e.args for e in events if e.name == "ClaimConvicted" and e.tx in view.transactions]
        amounts = ("slashed", "restored", "to_finder", "to_audits")
        disputes.append(
            {
                "dispute": dispute.name,
                "operator": view.operator,
                "outcome": view.end.name.lower() if view.end else None,
                "transcript": list(lines_of(transcript)),
                "verdict": transcript.conviction.text if transcript.conviction else None,
                "asks": len(view.picture.nodes),
                "gas": sum(transcript.gas.values()),
                "gas_by_side": transcript.gas,
                "money": {name: str(args[name]) for args in convicted for name in amounts},
            }
        )
    return disputes


def slots_taken_over(view: JobView, events: Iterable[Event]) -> int:
    """Slots that an operator took over from another operator's seat."""
    taken = {event.args["seat"] for event in events if event.name == "SeatTakenOver"}
    return sum(seat.count for number, seat in view.slot_seats.items() if number in taken)


def shard_reports(network: LocalNetwork, job: int) -> list[dict[str, Any]]:
    """The workers' reports of committed shards, without losses by step."""
    reports = []
    for daemon in network.daemons.values():
        client = broker.connect(daemon.config.broker, daemon.config.folder)
        opened = seals.load(daemon.config.folder).open
        for key in sorted(client.scan_iter(match=f"zoo:done:train-{job}-*", count=1000)):
            written: Any = client.get(key)
            report = opened("done", key.decode().removeprefix("zoo:done:"), written)
            reports.append(
                {k: v for k, v in report.items() if k not in ("losses", "segments")} | {"by": daemon.config.name}
            )
    return sorted(reports, key=lambda report: (report["round"], report["slot"], report["by"]))


def peers_of(network: LocalNetwork) -> list[str]:
    """URLs that serve blocks."""
    gateways = [daemon.config.endpoint for daemon in network.daemons.values()]
    return [*gateways, *load_network(network.network_path).storage]


def _checkpoint(store: BlockStore, manifest: Manifest, view: JobView, round_: int) -> State:
    pointer = raw_cid(view.checkpoint_cids[round_][0]) if round_ else None
    step = fetch_programs(store, manifest).graph
    return dict(fetch_checkpoint(store, manifest, step, view.job, round_, pointer, view.checkpoint_roots[round_]))
