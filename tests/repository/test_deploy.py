"""What the docs give operators to deploy: rules and panels name metrics that exist, every alert fires, units and containers hide the keys."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client import Histogram

from keepers.cli.node import start
from keepers.monitoring import metrics

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "docs" / "guides" / "deploy"
TABLE = ROOT / "docs" / "reference" / "metrics.md"
TEMPLATE = DEPLOY / "zoo-worker@.service"  # of a machine with several GPUs
UNITS = sorted(set(DEPLOY.glob("*.service")) - {TEMPLATE})
RULES = yaml.safe_load((DEPLOY / "alerts.yml").read_text())["groups"][0]["rules"]
ADDED = {"instance", "job", "process"}  # labels that Prometheus and the daemon add
EXPOSURE = 20  # of 100, by systemd's own reckoning


def series() -> dict[str, set[str]]:
    """The names that Prometheus has, with their labels."""
    names: dict[str, set[str]] = {"up": set()}
    for registry in metrics.REGISTRIES.values():
        for collector, known in registry._collector_to_names.items():
            labels = set(getattr(collector, "_labelnames", ()))
            parts = {"_bucket", "_sum", "_count"} if isinstance(collector, Histogram) else set()
            names |= {name: labels for name in known if not parts or any(name.endswith(part) for part in parts)}
            if parts:
                names |= {name: labels | {"le"} for name in known if name.endswith("_bucket")}
    return names | {"process_resident_memory_bytes": set(), "process_cpu_seconds_total": set()}


def expressions() -> Iterator[str]:
    for rule in RULES:
        yield rule["expr"]
    for panel in json.loads((DEPLOY / "dashboard.json").read_text())["panels"]:
        for target in panel["targets"]:
            yield target["expr"]


def wrong_in(expression: str) -> list[str]:
    """Metrics that nothing exports, and labels that a metric does not have."""
    known, wrong = series(), []
    for name, selector in re.findall(r"\b((?:zoo|process)_\w+|up)\b(?:\{([^}]*)\})?", expression):
        if name not in known:
            wrong.append(name)
        else:
            labels = set(re.findall(r"(\w+)\s*(?:=~|!=|=)", selector or ""))
            wrong += [f"{name}{{{label}}}" for label in labels - known[name] - ADDED]
    return wrong


def test_every_metric_and_label_of_an_alert_or_a_panel__exists() -> None:
    every = list(expressions())
    assert len(every) > 40
    assert [wrong for expression in every for wrong in wrong_in(expression)] == []


def test_a_metric_or_a_label_that_does_not_exist__is_noticed() -> None:
    assert wrong_in("zoo_blind_second > 60") == ["zoo_blind_second"]
    assert wrong_in('zoo_blind_seconds{lane="x"} > 60') == ["zoo_blind_seconds{lane}"]


def test_the_reference__has_every_metric_once_and_no_other() -> None:
    rows = re.findall(r"^\| (\w+) \| `(\w+)` \| \w+ \| (.*?) \| (.*) \|$", TABLE.read_text(), re.MULTILINE)
    expected = [
        (process, family.name + ("_total" if family.type == "counter" else ""), family.documentation)
        for process, registry in metrics.REGISTRIES.items()
        for family in registry.collect()
        if family.name.startswith("zoo_")
    ]
    assert [(process, name, text) for process, name, _, text in rows] == expected
    known = series()
    for _, name, labels, _ in rows:
        assert set(re.findall(r"`(\w+)`", labels)) == known.get(name, known.get(f"{name}_sum", set()))


# Of each alert: what makes it fire, and after how long; values of promtool's notation, one a minute.
FIRES: dict[str, tuple[dict[str, str], str]] = {
    "ZooNodeDown": ({'up{job="zoo"}': "0x10"}, "2m"),
    "ZooProcessDown": ({'zoo_process_up{process="keeper"}': "0x10"}, "3m"),
    "ZooBlind": ({"zoo_blind_seconds": "61x10"}, "1m"),
    "ZooLooksFail": ({'zoo_looks_failed_total{why="unreachable"}': "0+2x10"}, "8m"),
    "ZooRpcUnwell": ({'zoo_rpc_well{rpc="http://a"}': "0x20"}, "16m"),
    "ZooCoinLow": ({"zoo_hot_coin": "0.02x10", "zoo_hot_coin_least": "0.01x10"}, "2m"),
    "ZooDeadlineNear": ({'zoo_deadline_seconds{due="ask"}': "599x10"}, "1m"),
    "ZooDeadlineMissed": ({'zoo_deadline_seconds{due="seat"}': "-1x10"}, "1m"),
    "ZooDemandUnanswered": ({"zoo_open_demands": "1x10"}, "6m"),
    "ZooAskUnanswered": ({"zoo_open_asks": "1x70"}, "61m"),
    "ZooSlashed": ({'zoo_slashes_total{operator="1"}': "0x5 1x5"}, "7m"),
    "ZooHung": ({'zoo_process_restarts_total{process="keeper",why="hung"}': "0x5 1x5"}, "7m"),
    "ZooRestarts": ({'zoo_process_restarts_total{process="keeper",why="ended"}': "0+1x20"}, "15m"),
    "ZooNeedsYou": ({"zoo_troubles": "1x20"}, "11m"),
    "ZooDiskFull": ({'zoo_disk_free_bytes{place="store"}': "19x10", 'zoo_disk_size_bytes{place="store"}': "100x10"}, "6m"),
    "ZooDiskAlmostFull": (
        {'zoo_disk_free_bytes{place="store"}': "4x10", 'zoo_disk_size_bytes{place="store"}': "100x10"}, "1m",
    ),
    "ZooNoWorkers": ({"zoo_workers_present": "0x10"}, "3m"),
    "ZooWorkWaits": ({'zoo_queue_length{queue="disputes"}': "1x20"}, "11m"),
    "ZooBrokerGrows": ({"zoo_broker_memory_bytes": "850x20", "zoo_broker_memory_max_bytes": "1000x20"}, "11m"),
}  # fmt: skip
# A node that is well: what nothing has measured yet is NaN, and fires nothing either.
WELL = {
    'up{job="zoo"}': "1x90", 'zoo_process_up{process="keeper"}': "1x90", "zoo_blind_seconds": "_x5 12x80",
    'zoo_looks_failed_total{why="unreachable"}': "3x90", "zoo_hot_coin": "_x5 0.1x80", 'zoo_rpc_well{rpc="http://a"}': "1x90", "zoo_hot_coin_least": "_x5 0.01x80",
    'zoo_deadline_seconds{due="ask"}': "601x90", "zoo_open_demands": "0x90", "zoo_open_asks": "0x5 1x30 0x50",
    'zoo_slashes_total{operator="1"}': "4x90", 'zoo_process_restarts_total{process="keeper",why="hung"}': "1x90",
    'zoo_process_restarts_total{process="keeper",why="ended"}': "3x90", "zoo_troubles": "0x90",
    'zoo_disk_free_bytes{place="store"}': "50x90", 'zoo_disk_size_bytes{place="store"}': "100x90",
    "zoo_workers_present": "1x90", 'zoo_queue_length{queue="disputes"}': "0x5 3x5 0x80", "zoo_broker_memory_bytes": "1000000x90",
    "zoo_broker_memory_max_bytes": "0x40 2000000x50",
}  # fmt: skip


def rule_tests(values: dict[str, str], at: str, fires: str | None) -> dict[str, Any]:
    """A case of `promtool test rules` in which one alert fires, or none."""
    alerts = [{"eval_time": at, "alertname": rule["alert"]} for rule in RULES if fires in (None, rule["alert"])]
    named = {f"{name}{{}}" if "{" not in name else name: value for name, value in values.items()}
    return {
        "interval": "1m",
        "input_series": [{"series": n, "values": v} for n, v in named.items()],
        "alert_rule_test": alerts,
    }


def promtool(tmp_path: Path, cases: list[dict[str, Any]]) -> subprocess.CompletedProcess[str]:
    program = shutil.which("promtool")
    if program is None:
        pytest.skip("promtool is not installed (Debian's package prometheus has it)")
    shutil.copy(DEPLOY / "alerts.yml", tmp_path)
    document = {"rule_files": ["alerts.yml"], "evaluation_interval": "1m", "tests": cases}
    (tmp_path / "tests.yml").write_text(yaml.safe_dump(document))
    return subprocess.run(
        [program, "test", "rules", "tests.yml"], cwd=tmp_path, capture_output=True, text=True, check=False
    )


def test_every_alert__has_a_case_in_which_it_fires() -> None:
    assert [rule["alert"] for rule in RULES] == list(FIRES)
    assert {rule["labels"]["severity"] for rule in RULES} == {"page", "ticket"}


@pytest.mark.parametrize("alert", FIRES)
def test_an_alert__fires(alert: str, tmp_path: Path) -> None:
    values, at = FIRES[alert]
    done = promtool(tmp_path, [rule_tests(values, at, alert)])  # it expects no alert, and reports the one that fires
    assert done.returncode == 1, done.stdout + done.stderr
    assert f'alertname="{alert}"' in done.stdout + done.stderr


def test_on_a_node_that_is_well__no_alert_fires(tmp_path: Path) -> None:
    done = promtool(tmp_path, [rule_tests(WELL, f"{minute}m", None) for minute in (1, 6, 15, 45, 80)])
    assert done.returncode == 0, done.stdout + done.stderr


# -- units


def unit(path: Path) -> list[tuple[str, str]]:
    lines = [line.partition("=") for line in path.read_text().splitlines() if "=" in line and not line.startswith("#")]
    return [(key, value) for key, _, value in lines]


def parses(arguments: list[str]) -> str:
    """Check a command line of `zoo` by the command's own parser. Returns the part that it starts."""
    assert arguments[:2] == ["node", "start"]
    values = start.make_context("start", arguments[2:]).params
    assert values["metrics_port"]
    return str(values["only"])


def test_the_units__start_each_part_once_on_a_port_of_its_own() -> None:
    commands = [dict(unit(path))["ExecStart"].split()[1:] for path in UNITS]
    assert sorted(map(parses, commands)) == ["broker", "gateway", "keeper", "worker"]
    assert len({command[-1] for command in commands}) == 4


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.stem)
def test_a_unit__hides_the_keys_from_all_but_the_keeper(path: Path) -> None:
    """Without a user namespace of its own, a part would reach them through /proc/PID/root of the keeper, which has the same user."""
    lines = dict(unit(path))
    hidden = lines.get("InaccessiblePaths", "")
    hides = ("hot.json" in hidden, "passphrase" in hidden, lines.get("PrivateUsers") == "yes")
    assert hides == ("keeper" not in path.stem,) * 3
    assert lines["Type"] == "notify"


def test_the_unit_of_one_gpu__is_the_workers_unit_but_for_its_folder_and_what_it_starts_after() -> None:
    differs = {"Description", "PartOf", "After", "Wants", "ExecStart", "InaccessiblePaths", "WantedBy"}
    one, template = (
        [(key, value) for key, value in unit(path) if key not in differs]
        for path in (DEPLOY / "zoo-worker.service", TEMPLATE)
    )
    assert one == template
    lines = dict(unit(TEMPLATE))
    assert parses([part.replace("%i", "3") for part in lines["ExecStart"].split()[1:]]) == "worker"
    assert lines["InaccessiblePaths"] == "-/var/lib/zoo/node", "the keeper's folder, where there is one"


@pytest.mark.parametrize("path", [*UNITS, TEMPLATE], ids=lambda path: path.stem)
def test_a_unit__is_one_that_systemd_takes_and_calls_safe(path: Path, tmp_path: Path) -> None:
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("systemd is not installed")
    for each in (*UNITS, TEMPLATE, DEPLOY / "zoo.target"):
        (tmp_path / each.name).write_text(each.read_text().replace("/opt/zoo/bin/zoo", "/bin/true"))
    done = subprocess.run(
        [program, "verify", "--man=no", path.name.replace("@", "@3"), "zoo.target"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    done = subprocess.run(
        [program, "security", "--offline=true", f"--threshold={EXPOSURE}", "--no-pager", str(tmp_path / path.name)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-400:] + done.stderr


# -- containers


def test_the_containers__start_each_part_once_and_hide_the_keys_from_all_but_the_keeper() -> None:
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    assert {name: parses(each["command"]) for name, each in services.items()} == {name: name for name in services}
    for name, each in services.items():
        covered = {volume.split(":")[1] for volume in each["volumes"] if volume.startswith("/dev/null")}
        assert covered == (set() if name == "keeper" else {"/zoo/node/hot.json", "/zoo/node/passphrase"})
        assert (each["read_only"], each["cap_drop"]) == (True, ["ALL"])
