"""Whether tests notice a mutant. The parent has all imported and compiled; a child is forked for each mutant.

What changes between children is only which contracts `boa.load_partial` hands out, so that a mutant costs its own
compilation and the tests up to the first that fails. A mutant is compiled without the optimiser, which takes most of a
compilation; who survives is compiled as shipped, and discarded when its bytecode then equals the original's.
"""

from __future__ import annotations

import gc
import json
import os
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import boa
import pytest
from boa.contracts.vyper.vyper_contract import VyperDeployer
from vyper.compiler.phases import generate_bytecode
from vyper.compiler.settings import OptimizationLevel
from vyper.exceptions import VyperException
from vyper.ir.compile_ir import assembly_to_evm

from tests import contract_kit
from tests.mutation.mutants import Mutant, Statement, statements, text_of
from tests.mutation.suites import CONTRACTS, LEFT_OUT, ROOT, SUITES, files, users

BASELINE = ROOT / "build" / "mutation" / "baseline.json"
FRONT = 12  # tests that killed most go first
# In all these ways the compiler refuses a source.
REFUSALS = (VyperException, SyntaxError, ValueError, TypeError, AssertionError, KeyError, RecursionError)
UNOPTIMISED_CODE = 2**17  # bytes
Deployers = dict[str, VyperDeployer]


@dataclass(frozen=True)
class Verdict:
    """How a mutant ended: invalid, equal (its bytecode is the original's), duplicate, killed, timeout or survived."""

    status: str
    by: str = ""
    seconds: float = 0.0
    code: str = ""


def fingerprint(deployer: VyperDeployer) -> str:
    """Of what is deployed, without the hash of the sources."""
    return sha256(generate_bytecode(deployer.compiler_data.assembly, compiler_metadata=None)).hexdigest()[:16]


@dataclass(eq=False)
class Plugin:
    """Of the child's pytest: in which order tests run, which are left out, and what became of them."""

    order: dict[str, tuple[float, ...]]
    whole: bool
    failed: list[str] = field(default_factory=list)
    seconds: Counter[str] = field(default_factory=Counter)

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        kept = [item for item in items if self.whole or not any(name in item.nodeid for name in LEFT_OUT)]
        items[:] = sorted(kept, key=lambda item: self.order.get(item.nodeid, (1.0, 0.0)))

    def pytest_runtest_logreport(self, report: Any) -> None:
        self.seconds[report.nodeid] += report.duration
        if report.failed:
            self.failed.append(report.nodeid)


class Judge:
    """Compiles and runs. `on(source)` judges the mutants of one source."""

    def __init__(self, contracts: list[str], *, whole: bool = False) -> None:
        self.whole = whole
        self.folder = Path(tempfile.mkdtemp(prefix="mutant-"))
        shutil.copytree(CONTRACTS, self.folder / "contracts")
        mocks = [f"mocks/{path.stem}" for path in CONTRACTS.glob("mocks/*.vy")]
        self.handed_out: Deployers = {
            name: boa.load_partial(str(CONTRACTS / f"{name}.vy")) for name in dict.fromkeys([*SUITES, *mocks])
        }
        boa.load_partial = lambda path: self.handed_out[str(Path(path).relative_to(CONTRACTS).with_suffix(""))]
        self.originals = {name: self.compiled(name, OptimizationLevel.NONE) for name in contracts}
        self.files = files(contracts)
        self.limit_s, self.times = 3_600.0, dict[str, float]()
        self._warm()
        self.times = self._baseline()

    def close(self) -> None:
        shutil.rmtree(self.folder)

    def on(self, source: Path) -> SourceJudge:
        return SourceJudge(self, source)

    def compiled(self, name: str, level: OptimizationLevel | None = None) -> VyperDeployer:
        """A contract of the folder where mutants are written."""
        path = self.folder / "contracts" / f"{name}.vy"
        boa.interpret.disable_cache()
        try:
            text = path.read_text()
            if level:
                text = text.replace("# pragma optimize codesize\n", "\n")
            options = {"optimize": level} if level else {}
            deployer = boa.loads_partial(text, name=str(path), filename=str(path), compiler_args=options)
            # boa 0.2.8 computes it only for what it caches.
            data = deployer.compiler_data
            _, data.source_map = assembly_to_evm(data.assembly_runtime)
            return deployer
        finally:
            boa.interpret.set_cache_dir()

    def run(self, tests: list[str], deployers: Deployers, front: list[str]) -> tuple[Verdict, dict[str, float]]:
        """The tests in a child, with these contracts, until one fails."""
        places = {name: float(at) for at, name in enumerate(tests, 1)}
        order = {test: (places.get(test.partition("::")[0], 0.0), seconds) for test, seconds in self.times.items()}
        order |= {test: (0.0, float(at)) for at, test in enumerate(front)}
        reader, writer = os.pipe()
        started = time.monotonic()
        child = os.fork()
        if child == 0:
            self.handed_out = {**self.handed_out, **deployers}
            _child(_arguments(tests), Plugin(order, self.whole), writer)
        os.close(writer)
        code, in_time = self._wait(child)
        with os.fdopen(reader) as pipe:
            said = json.loads(pipe.read() or '{"failed": [], "seconds": {}}')
        status = "survived" if code == 0 else "killed" if in_time else "timeout"
        by = (said["failed"] or [""])[0]
        return Verdict(status, by, round(time.monotonic() - started, 2)), said["seconds"]

    def _wait(self, child: int) -> tuple[int, bool]:
        """The child's exit code, and whether it ended in time."""
        end = time.monotonic() + self.limit_s
        try:
            while time.monotonic() < end:
                pid, status = os.waitpid(child, os.WNOHANG)
                if pid:
                    return os.waitstatus_to_exitcode(status), True
                time.sleep(0.01)
        except KeyboardInterrupt:
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
            raise
        os.killpg(child, signal.SIGKILL)
        os.waitpid(child, 0)
        return -1, False

    def _warm(self) -> None:
        """Imports what the tests import. Nothing is deployed: the children do that, with their contracts."""
        sys.stdout.flush()
        kept, nowhere = os.dup(1), os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        try:
            pytest.main(["--collect-only", *_arguments(self.files)])
        finally:
            os.dup2(kept, 1)
            os.close(kept)
            os.close(nowhere)
        assert contract_kit.load.cache_info().currsize == 0, "a test loads a contract when imported"
        gc.freeze()

    def _baseline(self) -> dict[str, float]:
        """Seconds of each test. They must pass without a mutant, unoptimised; that is kept until something changes."""
        common = sorted(
            [*ROOT.glob("contracts/**/*.vy*"), *ROOT.glob("tests/*.py"), Path(__file__).with_name("suites.py")]
        )
        base = sha256(b"".join(path.read_bytes() for path in common) + repr(self.whole).encode())
        kept = json.loads(BASELINE.read_text()) if BASELINE.exists() else {}
        times: dict[str, float] = {}
        for name in self.files:
            key = sha256(base.digest() + (ROOT / name).read_bytes()).hexdigest()
            if key not in kept:
                print(f"without a mutant: {name}", flush=True)
                verdict, kept[key] = self.run([name], self.originals, [])
                if verdict.status != "survived":
                    raise SystemExit(f"mutation: fails without a mutant: {verdict.by or name}")
                BASELINE.parent.mkdir(parents=True, exist_ok=True)
                BASELINE.write_text(json.dumps(kept))
            times |= kept[key]
        return times


class SourceJudge:
    """Judges mutants of one source, each but once: equal bytecode is a duplicate."""

    def __init__(self, judge: Judge, source: Path) -> None:
        self.judge_ = judge
        self.found: list[Statement] = statements(source.read_text())
        self.contracts = users(source)
        self.tests = files(self.contracts)
        self.changed = judge.folder / "contracts" / source.relative_to(CONTRACTS)
        self.original = self.changed.read_text()
        self.killers: dict[str, Counter[str]] = {}
        self.codes = [fingerprint(judge.originals[name]) for name in self.contracts]
        self.seen = {"+".join(self.codes)}
        seconds = sum(time for test, time in judge.times.items() if test.partition("::")[0] in self.tests)
        judge.limit_s = 120 + 10 * seconds
        self.changed.write_text(text_of(self.found))
        assert self._codes(OptimizationLevel.NONE)[1] == self.codes, "one line a statement compiles to something else"

    def close(self) -> None:
        self.changed.write_text(self.original)

    def judge(self, mutant: Mutant) -> Verdict:
        self.changed.write_text(text_of(self.found, mutant))
        try:
            deployers, codes = self._codes(OptimizationLevel.NONE)
        except REFUSALS:
            return Verdict("invalid")
        code = "+".join(codes)
        if code in self.seen:
            return Verdict("equal" if codes == self.codes else "duplicate")
        self.seen.add(code)
        killers = self.killers.setdefault(mutant.function, Counter())
        everywhere = sum(self.killers.values(), Counter())
        front = dict.fromkeys(test for ranked in (killers, everywhere) for test, _ in ranked.most_common(FRONT // 2))
        # Tests that look only at contracts which the mutant leaves as they are need not run.
        touched = [name for name, code, was in zip(self.contracts, codes, self.codes, strict=True) if code != was]
        verdict, _ = self.judge_.run(files(touched), deployers, list(front))
        if verdict.by:
            killers[verdict.by] += 1
        if verdict.status == "survived" and self._is_equal_as_shipped():
            return Verdict("equal")
        return replace(verdict, code=code)

    def _codes(self, level: OptimizationLevel | None) -> tuple[Deployers, list[str]]:
        deployers = {name: self.judge_.compiled(name, level) for name in self.contracts}
        return deployers, [fingerprint(deployer) for deployer in deployers.values()]

    def _is_equal_as_shipped(self) -> bool:
        return self._codes(None)[1] == [fingerprint(self.judge_.handed_out[name]) for name in self.contracts]


def _arguments(tests: list[str]) -> list[str]:
    return ["-x", "-q", "-p", "no:ape_test", "-p", "no:cacheprovider", "--tb=no", *tests]


def _child(arguments: list[str], plugin: Plugin, writer: int) -> None:
    """Never returns."""
    os.setsid()
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nowhere, stream)
    code = 3
    try:
        boa.env.evm.patch.code_size_limit = UNOPTIMISED_CODE
        code = int(pytest.main(arguments, plugins=[plugin]))
        with os.fdopen(writer, "w") as pipe:
            json.dump({"failed": plugin.failed, "seconds": plugin.seconds}, pipe)
    finally:
        os._exit(code)
