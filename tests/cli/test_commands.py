"""The command line without a chain: options, output, errors, exit codes, plugins."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import SimpleNamespace

import click
import pytest

from tests.support.waiting import HANG_S
from tests.support.zoo_command import CONFIG, Zoo, zoo_fixture  # noqa: F401
from zoo_compute.cli import main as cli
from zoo_compute.cli import plugins
from zoo_compute.cli.context import Settings
from zoo_compute.errors import ZooError
from zoo_compute.jobs import shortfall
from zoo_compute.jobs.shortfall import Offer
from zoo_compute.spec.requirements import Requirements

# -- options and errors


def test_help__lists_every_group(zoo: Zoo) -> None:
    code, out, _ = zoo.run("--help")
    assert code == 0
    for name in (
        "account",
        "channel",
        "dataset",
        "devnet",
        "doctor",
        "job",
        "keeper",
        "map",
        "network",
        "node",
        "quote",
        "render",
        "serving",
        "store",
        "train",
    ):
        assert f"\n  {name} " in out


# What scripts call: a name goes only with a line in CHANGELOG.md.
COMMANDS = {
    "": "account channel complete completion credits dashboard dataset defend devnet dispute doctor embed job keeper map network node proxy quote register render serving start store train treasury verify",
    "account": "create fund import list show withdraw",
    "channel": "add close leave list open refund",
    "credits": "buy claim pledge post-rate show",
    "dataset": "claim contribute fetch list show",
    "dispute": "list replay show",
    "job": "audit branch cancel cite custody demands evaluate list merge outputs parents result schema score show watch",
    "network": "allow beat check govern show",
    "node": "admit announce answer-key audit benchmark configure conformance consent custody declare deposit drain earnings estimate hand-over hot-key register register-for schema show stake start status unstake withdraw",
    "node audit": "offer status withdraw",
    "node custody": "deposit status withdraw",
    "serving": "check dispute leave list offer publish release start take",
    "store": "add get ls pin serve unpin",
    "treasury": "collect show spend",
}


def test_commands__have_the_names_that_scripts_call() -> None:
    names: dict[str, str] = {}

    def walk(group: click.Group, path: str) -> None:
        names[path] = " ".join(sorted(group.commands))
        for name, child in group.commands.items():
            if isinstance(child, click.Group) and not isinstance(child, plugins._Deferred):
                walk(child, f"{path} {name}".strip())

    walk(cli.build(), "")
    assert names == COMMANDS


def test_help__of_every_command__is_printed(zoo: Zoo) -> None:
    def walk(command: click.Command, path: tuple[str, ...]) -> list[tuple[str, ...]]:
        inner = (
            command.commands.items()
            if isinstance(command, click.Group) and not isinstance(command, plugins._Deferred)
            else ()
        )
        return [path, *(inner_path for name, child in inner for inner_path in walk(child, (*path, name)))]

    paths = [p for p in walk(cli.build(), ()) if p not in (("node", "worker"), ("node", "benchmark"))]
    assert ("store", "add") in paths
    for path in paths:
        code, out, err = zoo.run(*path, "--help")
        assert code == 0, (path, err)
        assert "Usage: zoo" in out


@pytest.mark.parametrize("arguments", [("--json", "store", "ls"), ("store", "--json", "ls"), ("store", "ls", "--json")])
def test_json__works_at_every_place_on_the_line(zoo: Zoo, arguments: tuple[str, ...]) -> None:
    code, out, _ = zoo.run(*arguments)
    assert (code, json.loads(out)) == (0, {"pins": []})


def test_usage_error__exits_2_and_names_the_nearest_command(zoo: Zoo) -> None:
    code, out, err = zoo.run("stroe", "ls")
    assert code == 2
    assert "Did you mean 'store'?" in err
    assert out == ""
    code, out, err = zoo.run("store", "adn", "--json")
    assert code == 2
    assert "'add'" in json.loads(out)["error"]


def test_user_error__exits_1_with_message_and_hint_and_an_object_for_scripts(zoo: Zoo) -> None:
    code, out, err = zoo.run("account", "show", "--json")
    assert code == 1
    error = json.loads(out)
    assert set(error) == {"error", "hint"}
    assert error["error"] in err
    assert "zoo account create" in error["hint"]


def test_debug__shows_the_traceback(zoo: Zoo, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["account", "show", "--debug"]) == 1
    assert "Traceback" in capsys.readouterr().err


def test_interrupt__exits_130(zoo: Zoo, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("zoo_compute.store.open_store", interrupted)
    code, _, err = zoo.run("store", "ls")
    assert (code, err.strip()) == (130, "interrupted")


def test_defect__is_told_as_one_and_not_as_the_users(zoo: Zoo, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("boom")

    monkeypatch.setattr("zoo_compute.store.open_store", broken)
    err = zoo.refused("store", "ls")
    assert "RuntimeError: boom" in err
    assert "bug in zoo" in err


def test_full_disk__is_told_with_what_to_do(zoo: Zoo, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import errno
    import os

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    (tmp_path / "text").write_text("hello")
    zoo.run("store", "ls")
    monkeypatch.setattr("os.fsync", full)
    code, out, err = zoo.run("store", "add", str(tmp_path / "text"), "--json")
    assert code == 1
    assert "no room" in err or "disk is full" in err
    assert "space" in err or "room" in json.loads(out)["hint"]


# -- quotes, networks, nodes


def test_quote__needs_no_network_and_says_whether_the_budget_covers_it(zoo: Zoo, tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(CONFIG)
    priced = zoo.json("quote", "job.yaml", "--max-budget", "50", "--preset", "devnet")
    assert (priced["escrow"], priced["covered"], priced["budget"]) == (str(52 * 10**18), False, str(50 * 10**18))
    assert 0 < priced["memory"]["in_files"] < priced["memory"]["recomputed"] < priced["memory"]["plain"]
    assert 0 <= priced["memory"]["slower"] <= 1
    code, out, err = zoo.run("quote", "job.yaml")
    assert code == 0
    assert "52 ZEN at worst" in out
    assert "on a CPU with recomputation" in out
    assert "operators charge per slot-round" in out
    assert "a GPU-hour" not in out, "of so little work it says nothing"
    assert "anyone can download them" in next(line for line in out.splitlines() if line.startswith("public"))
    assert "production" in err


def test_quote__of_a_job_that_asks_for_something__counts_who_meets_it(
    zoo: Zoo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asking = CONFIG + "requirements: {gpu_class: datacenter, vram_gb: 40}\n"
    (tmp_path / "job.yaml").write_text(asking)
    priced = zoo.json("quote", "job.yaml", "--preset", "devnet")
    assert (priced["requirements"], priced["operators"]) == (["class datacenter", "40 GB"], None)
    assert "how many operators meet the requirements is not known" in zoo.run("quote", "job.yaml")[2]

    asked: list[int] = []
    meeting = [Offer(number, 80, 3, True, 10**30, meets=number == 1) for number in range(1, 8)]
    monkeypatch.setattr(shortfall, "offers", lambda *_, asks: asked.append(asks) or meeting)
    monkeypatch.setattr(Settings, "network", lambda _: None)
    monkeypatch.setattr(Settings, "client", lambda *_, **__: SimpleNamespace(chain=None))
    priced = zoo.json("quote", "job.yaml", "--preset", "devnet")
    assert asked == [Requirements(vram_gb=40, classes=1 << 3).word]
    assert priced["operators"] == "1 of 7 operators that can bid now"
    meeting[0] = Offer(1, 80, 3, True, 10**30, meets=False)
    out = zoo.run("quote", "job.yaml", "--preset", "devnet")[1]
    assert "need class datacenter, 40 GB" in out
    assert "0 of 7 operators that can bid now" in out
    assert "no operator that can bid meets the job's requirements: class datacenter, 40 GB" in out
    (tmp_path / "job.yaml").write_text(CONFIG)
    assert zoo.json("quote", "job.yaml", "--preset", "devnet")["requirements"] == []
    assert len(asked) == 2, "no chain is asked where the job asks for nothing"


def test_quote__in_another_token_without_a_network__asks_for_its_decimals(zoo: Zoo, tmp_path: Path) -> None:
    market = "market: {token: '0x00000000000000000000000000000000000000AA', reserve: 1, max_price: 2"
    (tmp_path / "job.yaml").write_text(CONFIG[: CONFIG.index("market:")] + market + "}")
    code, _, err = zoo.run("quote", "job.yaml")
    assert (code, "the decimals of" in err, "market.decimals" in err) == (1, True, True)
    (tmp_path / "job.yaml").write_text(CONFIG[: CONFIG.index("market:")] + market + ", decimals: 6}")
    priced = zoo.json("quote", "job.yaml", "--max-budget", "56")
    assert (priced["escrow"], priced["budget"], priced["token"]["decimals"]) == (str(56 * 10**6), str(56 * 10**6), 6)


def test_quote__of_a_mistyped_key__names_the_nearest(zoo: Zoo, tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(CONFIG.replace("inner_steps", "iner_steps"))
    assert "unknown key 'iner_steps'; did you mean 'inner_steps'" in zoo.refused("quote", "job.yaml")


def test_train__with_a_budget_below_the_reserve__is_refused_before_any_network_is_asked(
    zoo: Zoo, tmp_path: Path
) -> None:
    (tmp_path / "job.yaml").write_text(CONFIG)
    err = zoo.refused("train", "job.yaml", "--max-budget", "20")
    assert "20 ZEN is below the reserve" in err
    assert "52 ZEN" in err


def test_network_show__without_a_file__says_how_to_get_one(zoo: Zoo) -> None:
    assert "zoo devnet" in zoo.refused("network", "show")


def test_network__named_but_absent__is_refused(zoo: Zoo) -> None:
    assert "nowhere.json" in zoo.refused("--network", "nowhere.json", "network", "show")


def test_node_register__refuses_a_gpu_before_asking_for_anything(zoo: Zoo) -> None:
    assert "at least 40 GB" in zoo.refused("node", "register", "--gpu-type", "a100", "--memory", "24GB")
    code, _, err = zoo.run("node", "register", "--gpu-type", "rtx409", "--memory", "24GB")
    assert "did you mean 'rtx4090'" in err
    code, _, err = zoo.run("node", "register", "--gpu-type", "rtx4090", "--gpu-class", "consumer")
    assert code == 2
    assert "--gpu-type" in err


def test_gym_register__is_the_seeds_name_for_node_register(zoo: Zoo) -> None:
    assert "rtx4090" in zoo.refused("register", "--gpu-type", "rtx409", "--memory", "24GB")


# -- plugins


def test_plugin__whose_extra_is_missing__exists_and_says_what_to_install(
    zoo: Zoo, monkeypatch: pytest.MonkeyPatch
) -> None:
    point = EntryPoint("node.fly", "keepers.nowhere:fly", plugins.GROUP)
    monkeypatch.setattr(plugins, "entry_points", lambda group: [point])
    root = click.Group("zoo", commands={"node": click.Group("node")})
    plugins.attach(root)
    assert "zoo-compute[keeper]" in root.commands["node"].commands["fly"].get_short_help_str()  # type: ignore[attr-defined]
    with pytest.raises(ZooError) as refused:
        root.main(["node", "fly"], standalone_mode=False)
    assert "pip install 'zoo-compute[keeper]'" in refused.value.hint


def test_plugin__is_attached_into_its_group_and_gets_its_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    @click.command()
    @click.argument("word")
    def speak(word: str) -> None:
        seen.append(word)

    point = EntryPoint("pet.speak", "somewhere:speak", plugins.GROUP)
    monkeypatch.setattr(EntryPoint, "load", lambda _: speak)
    monkeypatch.setattr(plugins, "entry_points", lambda group: [point])
    root = click.Group("zoo")
    plugins.attach(root)
    root.main(["pet", "speak", "woof"], standalone_mode=False)
    assert seen == ["woof"]


def test_client_and_command_line__load_no_torch() -> None:
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "import zoo_compute.cli.main as cli, zoo_compute\n"
        "[getattr(zoo_compute, name) for name in zoo_compute.__all__]\n"
        "import zoo_compute.cli.doctor_checks, zoo_compute.operators.account, zoo_compute.jobs.submission, zoo_compute.client.results\n"
        "assert cli.run(['store', '--help']) == 0\n"
        "assert cli.run(['node', '--help']) == 0\n"
        "assert cli.run(['node', 'benchmark', '--help']) == 0\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=HANG_S, check=False)
    assert done.returncode == 0, done.stderr
    assert "Time this machine's training step" in done.stdout
    assert "pip install" not in done.stdout


@pytest.mark.parametrize("point", entry_points(group=plugins.GROUP), ids=lambda point: point.name)
def test_short_help_of_a_plugin__is_read_from_its_source_and_equals_the_commands(point: EntryPoint) -> None:
    assert plugins.docstring_of(point) is not None
    deferred = plugins._Deferred(point.name, point)
    unloaded = deferred.get_short_help_str()
    assert deferred._loaded is None
    assert unloaded == deferred.load().get_short_help_str()


SLOW = {"aiohttp", "celery", "eth_abi", "eth_account", "eth_utils", "http", "numpy", "pydantic", "redis", "requests", "torch", "web3"}  # fmt: skip


@pytest.mark.parametrize("arguments", [["--help"], ["node", "--help"], ["job", "--help"], ["--version"]], ids=" ".join)
def test_help__loads_none_of_the_slow_packages(arguments: list[str]) -> None:
    """It is what people see first, and shells ask for it to complete a word."""
    code = (
        f"import sys\nfrom zoo_compute.cli.main import run\nassert run({arguments}) == 0\nprint('LOADED', *sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=HANG_S, check=False)
    assert done.returncode == 0, done.stderr
    loaded = done.stdout.rpartition("LOADED ")[2].split()
    assert {name.partition(".")[0] for name in loaded} & SLOW == set()
    ours = {
        name for name in loaded if name.startswith(("keepers.", "node.", "zoo_compute.chain", "zoo_compute.client"))
    }
    assert ours <= {"keepers.cli"}
