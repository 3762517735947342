"""Runs everything that needs a GPU: conformance programs, GPU tests, GPU benchmarks. `make gpu`

Writes benchmarks/results/gpu.json after every part, so that one that fails or runs out of time costs no other's figures:
  device, cpu, versions  card, driver, CUDA, NVRTC; cores; python, torch, numpy, our release and source
  conformance            cases, and those whose bits differ from the CPU's
  tests                  passed, failed, skipped; failures: their names
  figures                of benchmarks/arithmetic/cuda.py (ratios to torch on the card and to the CPU), node_step_over_cpu, bits_200_steps
  seconds, failed        of each part; why a part has no figures

Exit code 0 where all parts ran and agree, 1 where not. Where there is no GPU: 0, says so, and writes nothing; with --required: 1.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from repops.backend import NoBackend
from repops.conformance import source_digest
from repops.cuda import driver

ROOT = Path(__file__).resolve().parents[2]

RESULT = ROOT / "benchmarks" / "results" / "gpu.json"
BUDGET_S = 560.0  # of all parts, of ten minutes
LEAST_S = 10.0  # with less left a part is not begun

Figures = dict[str, Any]


class PartFailed(Exception):
    """A part gave no figures; the message says why."""


@dataclass
class Tools:
    """What a part runs commands with. run: arguments, environment, seconds -> stdout. Raises PartFailed."""

    run: Callable[[Sequence[str], dict[str, str], float], str]
    clock: Callable[[], float] = time.monotonic
    budget_s: float = BUDGET_S
    began: float = field(init=False)

    def __post_init__(self) -> None:
        self.began = self.clock()

    def left(self) -> float:
        return self.budget_s - (self.clock() - self.began)

    def python(self, *arguments: str, most_s: float, **environment: str) -> str:
        return self.run([sys.executable, *arguments], environment, min(most_s, self.left()))


def run(command: Sequence[str], environment: dict[str, str], most_s: float) -> str:
    """Run one command from the repository's root, in a process group of its own, so that its children end with it."""
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    with subprocess.Popen(
        command,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path, **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as child:
        try:
            out, errors = child.communicate(timeout=most_s)
        except BaseException as error:
            os.killpg(child.pid, 9)
            child.communicate()
            if isinstance(error, subprocess.TimeoutExpired):
                raise PartFailed(f"took more than {most_s:.0f} s") from None
            raise
    if child.returncode:
        raise PartFailed(reason(child.returncode, out, errors))
    return out


def reason(code: int, out: str, errors: str) -> str:
    """The last non-empty line, without the paths of this machine."""
    lines = [line.strip() for line in (*errors.splitlines(), *out.splitlines()[-1:]) if line.strip()]
    last = lines[-1] if lines else "without a word"
    ended = f"signal {-code}" if code < 0 else f"exit code {code}"
    return f"{ended}: {without_paths(last)[:300]}"


def without_paths(text: str) -> str:
    """`/home/me/x/tests/a.py` -> `a.py`."""
    return re.sub(r"(?:/[\w.+@-]+)+/([\w.+@-]+)", r"\1", text)


def last_object(out: str) -> Figures:
    for line in reversed(out.splitlines()):
        try:
            parsed = json.loads(line)
        except ValueError:
            continue
        if isinstance(parsed, dict):
            return parsed
    raise PartFailed("printed no JSON object")


# --- the parts


def kernels(tools: Tools) -> Figures:
    """Build the CPU's kernels, which all others are compared with."""
    tools.python("-m", "repops.native.build", "--quiet", most_s=150)
    return {}


def conformance(tools: Tools) -> Figures:
    command = ["-m", "repops.conformance", "--device", "cuda:0", "--training", "node/generated/benchmark.repops"]
    report = last_object(tools.python(*command, most_s=200))
    return {"conformance": {key: report[key] for key in ("cases", "differing")}}


def tests(tools: Tools) -> Figures:
    """Reads pytest's report, which exists also if tests fail, instead of its exit code."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.xml")
        options = ["-q", "-p", "no:ape_test", "-p", "no:cacheprovider", "--continue-on-collection-errors"]
        try:
            tools.python("-m", "pytest", *options, "tests/gpu", f"--junitxml={report}", most_s=200)
        except PartFailed:
            if not report.exists():
                raise
        return {"tests": counted(report.read_text())}


def counted(report: str) -> Figures:
    """Of pytest's JUnit report. An error is a test that could not begin."""
    cases = list(ElementTree.fromstring(report).iter("testcase"))
    failures = [c.get("name", "?") for c in cases if c.find("failure") is not None or c.find("error") is not None]
    skipped = sum(c.find("skipped") is not None for c in cases)
    return {
        "passed": len(cases) - len(failures) - skipped,
        "failed": len(failures),
        "skipped": skipped,
        "failures": failures,
    }


def cuda(part: str, most_s: float) -> Callable[[Tools], Figures]:
    def measured(tools: Tools) -> Figures:
        report = last_object(tools.python("benchmarks/arithmetic/cuda.py", part, "--json", most_s=most_s))
        return {"figures": {key: value for key, value in report.items() if key not in ("device", "target", "torch")}}

    return measured


def long_run(tools: Tools) -> Figures:
    """200 steps of a tiny GPT end in one state on the card and on the CPU."""
    states = [
        tools.python("benchmarks/repops.py", "--hash", most_s=100, REPOPS_BACKEND=backend).strip()
        for backend in ("cuda", "native")
    ]
    return {"figures": {"bits_200_steps": states[0] == states[1] and bool(states[0])}}


def node_step(tools: Tools) -> Figures:
    """What an operator's node reports of this card, over its CPU's. It is checked anew, in a home of its own."""
    with tempfile.TemporaryDirectory() as home:
        command = ["-m", "node.admission.benchmark", "--json", "--device"]
        card = last_object(tools.python(*command, "cuda:0", most_s=200, ZOO_HOME=home))
        cpu = last_object(tools.python(*command, "cpu", "--devnet", most_s=100, ZOO_HOME=home))
    figures = {"node_bits": card["root"] == cpu["root"], "node_flops_per_s": card["flops_per_s"]}
    if card["computes_on"] == "cpu":
        return {"figures": {**figures, "node_computes_on": "cpu"}}
    return {"figures": {**figures, "node_step_over_cpu": card["step_s"] / cpu["step_s"]}}


# The most important parts come first: the time may run out.
PARTS: dict[str, Callable[[Tools], Figures]] = {
    "kernels": kernels,
    "conformance": conformance,
    "tests": tests,
    "operators": cuda("operators", 60),
    "matmul": cuda("matmul", 60),
    "step": cuda("step", 100),
    "bits": cuda("bits", 60),
    "long run": long_run,
    "node": node_step,
    "compile": cuda("compile", 60),
}


def measure(
    tools: Tools, result: Figures, write: Callable[[Figures], None], parts: dict[str, Callable[[Tools], Figures]]
) -> bool:
    """Runs the parts, writes after each; whether all ran and all bits agree."""
    result |= {"figures": {}, "seconds": {}, "failed": {}}
    for name, part in parts.items():
        began = tools.clock()
        print(f"{name} ({tools.left():.0f} s left)", file=sys.stderr, flush=True)
        try:
            if tools.left() < LEAST_S:
                raise PartFailed("not begun: no time was left")
            outcome = part(tools)
        except (PartFailed, OSError, KeyError, ValueError, TypeError, ElementTree.ParseError) as error:
            text = str(error) if isinstance(error, PartFailed) else f"{type(error).__name__}: {error}"
            result["failed"][name] = without_paths(text)
            print(f"  failed: {result['failed'][name]}", file=sys.stderr, flush=True)
        else:
            result["figures"] |= outcome.pop("figures", {})
            result |= outcome
        result["seconds"][name] = round(tools.clock() - began, 1)
        write(result)
    return agrees(result)


def agrees(result: Figures) -> bool:
    wrong = result.get("conformance", {}).get("differing") or result.get("tests", {}).get("failed")
    bits = [
        value for key, value in result["figures"].items() if key.startswith(("bits_", "node_bits")) and value is False
    ]
    return not (result["failed"] or wrong or bits)


def versions() -> Figures:
    installed: Figures = {"python": platform.python_version(), "source": source_digest()}
    for name in ("torch", "numpy", "zoo-compute"):
        try:
            installed[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            installed[name] = None
    return installed


def about() -> Figures:
    """The machine. Raises NoBackend where there is no GPU."""
    from benchmarks.arithmetic.reproducible import cpu_name

    facts = {key: value for key, value in driver.facts(0).items() if key != "uuid"}
    facts["target"] = driver.gpu(0).target
    cpu = {"name": cpu_name(), "cores": os.cpu_count()}
    return {
        "measured_at": time.strftime("%Y-%m-%d", time.gmtime()),
        "device": facts,
        "cpu": cpu,
        "versions": versions(),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"some of {', '.join(map(repr, PARTS))} (default all)")
    parser.add_argument(
        "--out", type=Path, default=RESULT, help="the result's file (default benchmarks/results/gpu.json)"
    )
    parser.add_argument(
        "--required", action="store_true", help="exit 1 where there is no GPU: for a machine that has one"
    )
    options = parser.parse_args()
    if unknown := set(options.parts) - set(PARTS):
        parser.error(f"unknown part {sorted(unknown)[0]!r}; expected some of {', '.join(map(repr, PARTS))}")
    try:
        result = about()
    except NoBackend as error:
        print(f"NOTHING WAS MEASURED: {error}.\nNo result was written; run `make gpu` on a machine with an NVIDIA GPU.")
        return int(options.required)

    def write(figures: Figures) -> None:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(figures, indent=1) + "\n")

    write(result)
    wanted = {name: part for name, part in PARTS.items() if name in (options.parts or PARTS)}
    good = measure(Tools(run), result, write, wanted)
    print(json.dumps(result, indent=1))
    print(
        f"\nwritten to {options.out}: {'all parts ran and all bits agree' if good else 'NOT ALL IS WELL'}",
        file=sys.stderr,
    )
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
