"""byzfl's rules and attacks, as peers: PyPI byzfl 0.0.11, of which only the modules that need torch and numpy are read."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import types
from collections.abc import Callable
from typing import Any

import torch

from benchmarks.training.attacks import Rule, Scene
from repops.commitments import Array

MISSING = "byzfl is not installed, and is left out: pip install --target DIR byzfl==0.0.11 --no-deps, DIR on PYTHONPATH"


def load() -> Any | None:
    """Its aggregators and attacks, without its own experiments, which need torchvision and plotting. None when missing."""
    spec = importlib.util.find_spec("byzfl")
    if spec is None or spec.submodule_search_locations is None:
        print(MISSING, file=sys.stderr)
        return None
    package = types.ModuleType("byzfl")
    package.__path__ = list(spec.submodule_search_locations)
    sys.modules["byzfl"] = package
    names: dict[str, Any] = {}
    for name in ("aggregators.aggregators", "aggregators.preaggregators", "attacks.attacks"):
        names |= vars(importlib.import_module(f"byzfl.{name}"))
    return types.SimpleNamespace(**names)


def rules(byzfl: Any, hostile: int) -> dict[str, Callable[[Any], Any]]:
    """By the names of ours."""
    nearest, buckets = byzfl.NNM(hostile), byzfl.Bucketing(2)
    trimmed, median = byzfl.TrMean(hostile), byzfl.Median()
    centred = byzfl.CenteredClipping()
    return {
        "mean": byzfl.Average(),
        "clipped_mean": lambda rows: byzfl.Average()(byzfl.ARC(hostile)(rows)),
        "median": median,
        "trimmed_mean": trimmed,
        "krum": byzfl.MultiKrum(hostile),
        "geometric_median": byzfl.GeometricMedian(),
        "centred_clipping": centred,
        "centred_clipping+buckets": lambda rows: centred(buckets(rows)),
        "median+nearest": lambda rows: median(nearest(rows)),
        "trimmed_mean+nearest": lambda rows: trimmed(nearest(rows)),
        "geometric_median+nearest": lambda rows: byzfl.GeometricMedian()(nearest(rows)),
        "krum+nearest": lambda rows: byzfl.MultiKrum(hostile)(nearest(rows)),
    }


def on_arrays(rule: Callable[[Any], Any]) -> Rule:
    def joined(rows: Array) -> Array:
        return rule(torch.from_numpy(rows)).numpy()

    return joined


def attacks(byzfl: Any, hostile: int) -> dict[str, Callable[[Scene], Array]]:
    """Its two attacks that search their strength against the rule."""

    def searched(kind: Any) -> Callable[[Scene], Array]:
        def rows(s: Scene) -> Array:
            made = kind(agg=s.rule, pre_agg_list=[], f=hostile, evals=12)
            return s.all_alike(made(s.honest_HD))

        return rows

    return {
        "byzfl_optimal_alie": searched(byzfl.Optimal_ALittleIsEnough),
        "byzfl_optimal_ipm": searched(byzfl.Optimal_InnerProductManipulation),
    }
