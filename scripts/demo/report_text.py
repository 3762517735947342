"""The demo's report as text, and its plot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from zoo_compute.amounts import format_amount

_EQUAL = {True: "yes", False: "NO", None: "not replayed"}


def as_text(
    report: Mapping[str, Any], trained: Mapping[int, Mapping[int, str]], losses: Sequence[float], sample: str
) -> str:
    """The report as text."""
    lines = ["", "Held-out loss (nats per byte) of each checkpoint"]
    lines += [f"  {index:>2}  {loss:.4f}  {'#' * round(8 * loss)}" for index, loss in enumerate(losses)]
    lines += ["", "Operator of each slot (rows: rounds, columns: slots; -: nobody delivered it)"]
    lines += slot_rows(trained, report["shards"])
    lines += ["", "Money"]
    lines += [
        f"  {key:<14}{format_amount(int(report[key]), places=4):>22}"
        for key in ("escrowed", "restored", "paid_nodes", "fee_treasury", "refunded", "slashed")
        if key != "restored" or int(report[key])
    ]
    lines += [
        f"    slashed to {name}: {format_amount(int(amount), places=4)}"
        for name, amount in report["slashed_to"].items()
    ]
    for dispute in report["disputes"]:
        sides = ", ".join(f"{side} {gas:,}" for side, gas in dispute["gas_by_side"].items() if gas)
        lines += ["", f"Dispute {dispute['dispute']} ({dispute['gas']:,} gas: {sides})"]
        lines += ["  " + line for line in dispute["transcript"]]
        amounts = {key: format_amount(int(amount), places=4) for key, amount in dispute["money"].items()}
        lines += [f"  {key:<16}{amount:>20}" for key, amount in amounts.items()]
    audits = report["audits"]
    lines += [
        "",
        f"Audits: {audits['drawn']} results drawn, {audits['clean']} called clean, {audits['false']} false",
        *_payees(audits, places=4),
    ]
    custody = report["custody"]
    lines += [
        "",
        f"Custody: a majority signed that it holds the inputs of {custody['inputs']} turns and {custody['checkpoints']} checkpoints",
        *_payees(custody, places=6),
    ]
    lines += ["", delivery_line(report["delivery"])]
    lines += ["", f"Gas ({report['transactions']} transactions, {report['gas_total']:,} gas)"]
    lines += [
        f"  {operation:<34}{entry['count']:>4} x {entry['mean']:>9,}"
        for operation, entry in report["gas_by_operation"].items()
    ]
    lines += ["", "Text sampled from the trained model", *("  | " + line for line in sample.splitlines()), ""]
    lines += [
        f"checkpoint {report['checkpoint_cid']}",
        f"verified {report['verified_segments']} segments, {report['mismatches']} mismatches; "
        f"{report['reassigned']} shards reassigned; weights bit-equal to a single-process replay: "
        f"{_EQUAL[report['bit_equal_replay']]}; {report['wall_s']:.0f} s",
    ]
    return "\n".join(lines)


def slot_rows(trained: Mapping[int, Mapping[int, str]], count: int) -> list[str]:
    """A line a round, a column for each of `count` slots, whoever delivered it or not."""
    return [
        f"  {round_:>2}  " + "  ".join(f"{slots.get(slot, '-'):<8}" for slot in range(count)).rstrip()
        for round_, slots in trained.items()
    ]


def delivery_line(delivery: Mapping[str, Any]) -> str:
    is_final = "final" if delivery["final"] else "not final yet"
    return (
        f"Delivery: {delivery['custodian']}, a custodian, sent the model ({delivery['parameters']:,} parameters, {is_final}) "
        f"while {delivery['aggregator']}, which aggregated it, was {'alive' if delivery['aggregator_runs'] else 'dead'}"
    )


def _payees(section: Mapping[str, Any], *, places: int) -> list[str]:
    return [
        f"  paid to {name:<14}{format_amount(int(amount), places=places):>{places + 10}}"
        for name, amount in section["paid_to"].items()
    ]


def plot(path: Path, losses: Sequence[float], trained: Mapping[int, Mapping[int, str]], count: int, title: str) -> None:
    """Loss per checkpoint, and below it the operator of each of `count` slots in each round."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import colormaps, pyplot
    from matplotlib.patches import Rectangle

    figure, (top, bottom) = pyplot.subplots(2, 1, figsize=(8, 7), height_ratios=(3, 2), layout="constrained")
    top.plot(range(len(losses)), losses, marker="o", color="#1f5fa8")
    for index, loss in enumerate(losses):
        top.annotate(f"{loss:.2f}", (index, loss), textcoords="offset points", xytext=(6, 6))
    top.set(title=title, xlabel="checkpoint (after this many rounds)", ylabel="held-out loss, nats per byte")
    top.set(xlim=(-0.3, len(losses) - 0.4), ylim=(0, 1.1 * max(losses)))
    top.set_xticks(range(len(losses)))
    top.grid(alpha=0.3)
    operators = sorted({name for slots in trained.values() for name in slots.values()})
    colours = dict(zip(operators, map(colormaps["Set2"], range(8)), strict=False))
    for round_, slots in trained.items():
        for slot, name in slots.items():
            bottom.add_patch(Rectangle((slot - 0.5, round_ - 0.5), 1, 1, color=colours[name], ec="white"))
            bottom.text(slot, round_, name, ha="center", va="center", fontsize=8)
    bottom.set(xlabel="slot", ylabel="round", title="operator of each slot (white: nobody delivered it)")
    bottom.set(xlim=(-0.5, count - 0.5), ylim=(len(trained) - 0.5, -0.5))
    bottom.set_xticks(range(count))
    bottom.set_yticks(sorted(trained))
    figure.savefig(path, dpi=120)
    pyplot.close(figure)
