"""What jobs ask of operators, as people write and read it; and the regions that operators declare."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from zoo_compute.gpus import TIERS
from zoo_compute.spec.params import GPU_CLASSES
from zoo_compute.spec.requirements import COUNTRY, requirements_of

REGIONS = {
    "AF": "Africa",
    "AN": "Antarctica",
    "AS": "Asia",
    "EU": "Europe",
    "NA": "North America",
    "OC": "Oceania",
    "SA": "South America",
}
_REGION = re.compile(r"([A-Z]{2})(?:-([A-Z]{2}))?")


def parse_region(text: str) -> int:
    """The word of a region such as `EU`, or of a country in it such as `EU-DE`; 0 for empty text. Raises ValueError."""
    if not text:
        return 0
    match = _REGION.fullmatch(text.upper())
    if match is None or match[1] not in REGIONS:
        known = ", ".join(f"{short} ({name})" for short, name in REGIONS.items())
        raise ValueError(
            f"{text!r} is no region: expected {known}, alone or with the two letters of a country, such as EU-DE"
        )
    return int.from_bytes((match[1] + (match[2] or "\0\0")).encode(), "big")


def format_region(word: int) -> str:
    """`EU-DE`, `EU`, or empty text for none. Letters that are not A to Z, which anyone can declare, are shown as `?`."""
    if not word:
        return ""
    letters = "".join(chr(byte) if 65 <= byte <= 90 else "?" for byte in word.to_bytes(4, "big"))
    return f"{letters[:2]}-{letters[2:]}" if word & COUNTRY else letters[:2]


def format_classes(classes: int) -> str:
    """`professional or datacenter`."""
    return " or ".join(each.name for each in GPU_CLASSES.values() if classes >> each.id & 1)


def described(word: int) -> Sequence[str]:
    """Each thing that a job asks for; nothing for 0."""
    asks = requirements_of(word)
    return [
        *([f"class {format_classes(asks.classes)}"] if asks.classes else []),
        *([f"{asks.vram_gb} GB"] if asks.vram_gb else []),
        *(["admitted"] if asks.admitted else []),
        *([f"tier {_tier(asks.tier)}"] if asks.tier else []),
        *([f"{asks.hours} promised hours"] if asks.hours else []),
        *([f"region {format_region(asks.region)}"] if asks.region else []),
    ]


def to_dict(word: int) -> dict[str, Any]:
    """For scripts, in the keys of a job's file."""
    asks = requirements_of(word)
    return {
        "gpu_class": [each.name for each in GPU_CLASSES.values() if asks.classes >> each.id & 1],
        "vram_gb": asks.vram_gb,
        "admitted": asks.admitted,
        "tier": _tier(asks.tier),
        "hours": asks.hours,
        "region": format_region(asks.region),
    }


def _tier(number: int) -> str:
    return next(name for name, each in TIERS.items() if each == number)
