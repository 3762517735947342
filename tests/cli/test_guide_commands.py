"""Commands that guides print and no journey types: each configures a node's folder as the guide says."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from pathlib import Path

import pytest

from keepers.config import from_dict, load, save
from tests.support.zoo_command import Zoo, zoo_fixture  # noqa: F401

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGES = (
    "guides/money.md",
    "guides/monitoring.md",
    "guides/operating.md",
    "guides/separation.md",
    "tutorials/first-node.md",
)
COMMANDS = [
    (page, line)
    for page in PAGES
    for block in re.findall(r"^```\n(.*?)^```$", (DOCS / page).read_text(), re.S | re.M)
    for line in re.findall(r"^(zoo node configure .*?)(?: +#.*)?$", block.replace("\\\n", " "), re.MULTILINE)
    if '"URL"' not in line  # a worker's, which tests/integration/test_remote_worker.py types
]
CHANGED = {
    "--deny": "deny",
    "--allow": "allow",
    "--price-script": "price_script",
    "--metrics-port": "metrics_port",
    "--endpoint": "gateway_host",
    "--signer": "signer",
}


@pytest.mark.parametrize(("page", "command"), COMMANDS, ids=lambda each: each[:50])
def test_a_configuration__is_taken_as_printed(page: str, command: str, zoo: Zoo, tmp_path: Path) -> None:
    folder = zoo.home / "node"
    (tmp_path / "network.json").write_text("{}")
    before = from_dict({"name": "alpha", "network": str(tmp_path / "network.json"), "operator": 7}, folder)
    save(before)
    shutil.copy(DOCS / "guides" / "deploy" / "price.py", tmp_path)
    code, _, said = zoo.run(*shlex.split(command)[1:])
    assert code == 0, said
    key = next(key for option, key in CHANGED.items() if option in command)
    assert getattr(load(folder), key) != getattr(before, key)


def test_all_of_them__are_found() -> None:
    assert len(COMMANDS) == 8


@pytest.mark.parametrize(("page", "kind"), [("job-file.md", "job"), ("operator-json.md", "node")])
def test_a_schema__is_printed_as_the_page_says(page: str, kind: str, zoo: Zoo) -> None:
    assert f"\nzoo {kind} schema > " in (DOCS / "reference" / page).read_text()
    code, out, _ = zoo.run(kind, "schema")
    assert code == 0
    assert json.loads(out)["type"] == "object"
