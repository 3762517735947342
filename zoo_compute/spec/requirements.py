"""What a job asks of every operator that bids or takes over a seat: one word of its terms (docs/protocol/node-registry.md)."""

from dataclasses import dataclass

from zoo_compute.spec.params import GPU_CLASSES, PERIODS, TIERS

ADMITTED: int = 1  # the word that asks for admission alone
COUNTRY: int = 0xFFFF  # of a region's 32 bits: two letters of a country; the two above are of a region of the world


@dataclass(frozen=True, slots=True)
class Requirements:
    """region: four letters as 32 bits, of which the last two may be 0. classes: bit c is class c of GPU_CLASSES; 0: all."""

    region: int = 0
    vram_gb: int = 0  # of one worker, at least
    classes: int = 0
    hours: int = 0  # of an epoch's periods, promised, at least
    tier: int = 0  # at least
    admitted: bool = False

    @property
    def word(self) -> int:
        return (
            self.region << 48
            | self.vram_gb << 32
            | self.classes << 24
            | self.hours << 16
            | self.tier << 8
            | int(self.admitted)
        )


@dataclass(frozen=True, slots=True)
class Capability:
    """What the registry knows of an operator. tier, hours (how many): the least of what binds in this epoch and in the next."""

    gpu_class: int = 1
    vram_gb: int = 0
    is_admitted: bool = False
    region: int = 0
    tier: int = 0
    hours: int = 0


def requirements_of(word: int) -> Requirements:
    """The fields of a word."""
    return Requirements(
        region=word >> 48,
        vram_gb=word >> 32 & 0xFFFF,
        classes=word >> 24 & 0xFF,
        hours=word >> 16 & 0xFF,
        tier=word >> 8 & 0xFF,
        admitted=word & 0xFF != 0,
    )


def is_known(word: int) -> bool:
    """Is each field of the word in its range? Whether any operator meets it is another question."""
    asks = requirements_of(word)
    every_class = sum(1 << gpu_class for gpu_class in GPU_CLASSES)
    fits = asks.region < 2**32 and asks.classes | every_class == every_class and word & 0xFF <= ADMITTED
    return fits and asks.hours <= PERIODS and asks.tier in TIERS


def is_met(asks: Requirements, by: Capability) -> bool:
    return not unmet(asks, by)


def unmet(asks: Requirements, by: Capability) -> tuple[str, ...]:
    """The names of the requirements that an operator does not meet."""
    met = {
        "classes": asks.classes == 0 or asks.classes >> by.gpu_class & 1 == 1,
        "vram_gb": by.vram_gb >= asks.vram_gb,
        "admitted": by.is_admitted or not asks.admitted,
        "region": is_within(by.region, asks.region),
        "tier": by.tier >= asks.tier,
        "hours": by.hours >= asks.hours,
    }
    return tuple(name for name, is_so in met.items() if not is_so)


def is_within(region: int, asked: int) -> bool:
    """Is a declared region the one that is asked for? Where no country is asked for, each country of the region is."""
    if asked & COUNTRY:
        return region == asked
    return asked == 0 or region >> 16 == asked >> 16
