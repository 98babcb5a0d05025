"""Lasting conditions of some histories: a busy store, wrong answers, clocks that jump, denied deletes, a new release.

They are drawn from a seed of their own, so that histories without them do not change.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random

from simulation.clock import Clock
from simulation.toxics import Toxic

_WEATHER_SHARE = 0.3
"""Share of all histories that have lasting conditions."""


@dataclass(frozen=True)
class Weather:
    """Lasting conditions; `rates` has the probabilities of faults, and `clock` is that of all hosts.

    From the stage `deletes_denied_from` on, deletes are refused; from `release_stage` on, another release is installed;
    before `vanish_stage`, the source is deleted. With `late`, a lost process continues after all others have ended.
    """

    rates: Mapping[Toxic, float]
    deletes_denied_from: str | None
    release_stage: str | None
    vanish_stage: str | None
    late: bool
    clock: Clock

    def __str__(self) -> str:
        conditions = {
            "no deletes from": self.deletes_denied_from,
            "another release from": self.release_stage,
            "late": self.late or None,
        }
        return ", ".join(f"{what} {value}" for what, value in conditions.items() if value is not None)


def draw_weather(seed: int, stages: tuple[str, ...]) -> Weather | None:
    random = Random(f"weather {seed}")
    if random.random() >= _WEATHER_SHARE:
        return None
    rates: dict[Toxic, float] = {}
    if random.random() < 0.4:
        rates[Toxic.STORM] = random.choice((0.002, 0.01))
    if random.random() < 0.4:
        rates[Toxic.ERROR_IN_ANSWER] = random.choice((0.03, 0.2))
    if random.random() < 0.15:
        rates[Toxic.SHORT] = random.choice((0.003, 0.02))

    def draw_stage(share: float) -> str | None:
        return random.choice(stages) if random.random() < share else None

    return Weather(
        rates,
        deletes_denied_from=draw_stage(0.2),
        release_stage=draw_stage(0.1),
        vanish_stage=draw_stage(0.05),
        late=random.random() < 0.5,
        clock=Clock(random),
    )
