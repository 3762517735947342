"""Names of GPUs, and the class each is admitted as (docs/protocol.md, "Numbers"). Seed 001 names the families."""

from __future__ import annotations

import difflib
import re

from zoo_compute.errors import UserError
from zoo_compute.spec.params import GPU_CLASSES, MAX_VRAM_GB, GpuClass

CLASSES = tuple(GPU_CLASSES.values())
CONSUMER, PROFESSIONAL, DATACENTER, APPLE = CLASSES

# Written without spaces, dashes and makers' names; the first match wins.
_FAMILIES: tuple[tuple[str, GpuClass], ...] = (
    (r"m[1-9](pro|max|ultra)?|apple(silicon)?", APPLE),
    (
        r"(a100|a800|h100|h200|h800|gh200|b100|b200|gb200|l40s?|mi(100|210|250x?|300[xa]?|325x))(\d+g|pcie|sxm\d?|nvl)*",
        DATACENTER,
    ),
    (
        r"(rtx)?a[2456][05]00(ada)?|rtx[456]000(ada|pro)?|rtxpro\d{4}|quadro\w*|t4|l4|a10g?|a16|a30|a40|v100\w*|p100|w[67][89]00",
        PROFESSIONAL,
    ),
    (r"(rtx|gtx)?(10|16|20|30|40|50)[5-9]0(ti|super|d|laptop)*|rx\d{4}(xtx?|gre)?|arca\d{3}|titan\w*", CONSUMER),
)
EXAMPLES = (
    "rtx3060", "rtx3090", "rtx4080", "rtx4090", "rtx5090", "rx7900xtx", "a4000", "a6000", "l4", "t4", "v100", "a100", "h100", "h200", "l40s",
    "mi300x", "m1", "m2", "m3", "m4", "m4max",
)  # fmt: skip


def class_of(gpu: str) -> GpuClass:
    """The class of a GPU's name, such as `rtx4090` or `NVIDIA A100-SXM4-80GB`. Raises UserError with the nearest known name."""
    plain = re.sub(r"[^a-z0-9]", "", gpu.lower())
    plain = re.sub(r"^(nvidia|amd|intel|geforce|radeon|instinct|tesla|apple(?=m\d))+", "", plain)
    plain = re.sub(r"(\d+gb)$", "", plain)
    for pattern, found in _FAMILIES:
        if re.fullmatch(pattern, plain):
            return found
    near = difflib.get_close_matches(plain, EXAMPLES, 1, cutoff=0.5)
    raise UserError(
        f"unknown GPU {gpu!r}",
        hint=(f"did you mean {near[0]!r}? " if near else f"known are for example {', '.join(EXAMPLES[:6])}; ")
        + "a card that is not listed is given by class: --gpu-class consumer|professional|datacenter|apple",
    )


def class_named(name: str) -> GpuClass:
    """`consumer`, `professional`, `datacenter` or `apple`. Raises UserError."""
    for found in CLASSES:
        if name.lower() in (found.name, found.name.partition(" ")[0], str(found.id)):
            return found
    raise UserError(f"unknown class {name!r}", hint="classes are consumer, professional, datacenter, apple")


def parse_memory(text: str) -> int:
    """Whole gigabytes in `24GB`, `24`, `24GiB` or `16384MB`, rounded down. Raises UserError."""
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(gb|gib|g|mb|mib|m|tb|tib)?\s*", text.lower())
    if not found:
        raise UserError(f"memory should be a size such as 24GB, not {text!r}")
    scale = {"m": 1 / 1024, "t": 1024}.get((found[2] or "g")[0], 1)
    gigabytes = int(float(found[1]) * scale)
    if not 1 <= gigabytes <= MAX_VRAM_GB:
        raise UserError(f"memory should be between 1 GB and {MAX_VRAM_GB} GB, not {text!r}")
    return gigabytes


def check_memory(found: GpuClass, vram_gb: int) -> None:
    """Refuse too little memory for the class before the contract does. Raises UserError."""
    if vram_gb < found.least_vram_gb:
        fitting = [c.name for c in CLASSES if c.least_vram_gb <= vram_gb and c is not APPLE]
        raise UserError(
            f"a {found.name} node needs at least {found.least_vram_gb} GB of memory, not {vram_gb} GB",
            hint=f"with {vram_gb} GB it can register as {' or '.join(fitting)}"
            if fitting
            else "this GPU is too small for the network",
        )
