"""The example of five machines of eight GPUs: the commands that the guide prints make 41 folders of one operator that a node accepts."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from keepers.config import OperatorConfig, load
from tests.support.zoo_command import Zoo, zoo_fixture  # noqa: F401

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "guides" / "several-machines.md"
URL = "rediss://:secret@m1.example:6380/0?ssl_ca_certs=/var/lib/zoo/ca.crt"
MACHINES, GPUS = range(1, 6), range(8)


def commands() -> list[list[str]]:
    """Each `zoo node configure` of the guide, its lines joined."""
    text = GUIDE.read_text().replace("\\\n", " ").replace('"URL"', f"'{URL}'")
    return [shlex.split(line) for line in re.findall(r"^[^`\n]*\bzoo (node configure .*)$", text, re.MULTILINE)]


@pytest.fixture
def folders(zoo: Zoo, tmp_path: Path) -> list[OperatorConfig]:
    """The keeper's first, then the workers'."""
    (tmp_path / "network.json").write_text("{}")
    keeper, worker = commands()
    homes = []

    def configure(command: list[str], names: dict[str, str]) -> None:
        for name, value in names.items():
            command = [part.replace(f"${name}", value) for part in command]
        command = [re.sub("^/var/lib/zoo/", f"{tmp_path}/{names.get('M', '1')}/", part) for part in command]
        command = [str(tmp_path / "network.json") if part.endswith("/network.json") else part for part in command]
        code, _, said = zoo.run(*command)
        assert code == 0, said
        homes.append(Path(command[command.index("--home") + 1]))

    registered = ["--operator", "7", "--network-file", str(tmp_path / "network.json")]
    configure([*keeper, *registered], {})
    for machine in MACHINES:
        for gpu in GPUS:
            configure(worker, {"M": str(machine), "GPU": str(gpu)})
    return [load(home) for home in homes]


def test_forty_workers_and_a_keeper__are_one_operator_with_one_queue_and_one_kind_of_store(
    folders: list[OperatorConfig],
) -> None:
    keeper, *workers = folders
    assert len(workers) == len(MACHINES) * len(GPUS)
    assert {each.operator for each in folders} == {7}
    assert {(each.broker, each.store) for each in folders} == {(URL, "kubo:http://127.0.0.1:5001")}
    assert len({each.name for each in folders}) == len(folders), "leases and presence go by names"
    assert keeper.capacity == 80


def test_each_machine__has_a_worker_for_each_of_its_cards(folders: list[OperatorConfig]) -> None:
    devices = {each.name: each.device for each in folders[1:]}
    assert devices == {f"m{machine}-gpu{gpu}": f"cuda:{gpu}" for machine in MACHINES for gpu in GPUS}
    assert {each.workers for each in folders[1:]} == {1}


def test_no_folder_of_a_worker__has_a_key(folders: list[OperatorConfig]) -> None:
    assert [path for each in folders[1:] for path in each.folder.iterdir() if path.name != "operator.json"] == []
