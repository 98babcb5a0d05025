"""State of a history: its bucket, its processes, and the events so far."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from random import Random

from simulation.bucket import Bucket
from simulation.clock import Clock
from simulation.damage import Damage
from simulation.neighbours import put_foreign
from simulation.owner import Owner
from simulation.processes import Process
from simulation.rounds import FIRST_ROUND_SEED, script_of_round
from simulation.run import TARGET, Steps, Wish
from simulation.script import Script, draw_script
from simulation.stored import StoredObject
from simulation.toxics import Toxics

_OWNED_SHARE = 0.08
"""Share of histories in which a job is started from the result, and owns it from then on."""

DISCARD = "user's discard"

PREPARERS = ("preparer", "other preparer")
"""Processes that copy files ahead."""

_PUBLISH_REQUESTS = ("head_object target.rescale/published", "put_object target/_metadata")
"""Requests of publish between its last check and the put of the mark that follows `_metadata`."""


@dataclass
class Scene:
    """State drawn from the seed; `events` names the events so far, and `expected_source` has the source's objects."""

    seed: int
    log: list[str] = field(default_factory=list)
    event_counts: Counter[str] = field(default_factory=Counter)
    processes: list[Process] = field(default_factory=list)
    events: set[str] = field(default_factory=set)
    has_discarded: bool = False

    def __post_init__(self) -> None:
        self.random = random = Random(self.seed)
        self.script: Script = draw_script(random, self.seed)
        if self.seed >= FIRST_ROUND_SEED:
            self.script = script_of_round(self.script, self.seed)
        self.log.append(str(self.script))
        weather = self.script.weather
        self.clock = weather.clock if weather is not None else Clock()
        store = self.script.store
        self.bucket = Bucket(self.clock, keeps_versions=store.keeps_versions, has_checksums=store.has_checksums)
        for name, data in self.script.source.objects.items():
            self.bucket.put(f"source/{name}", data)
        for key, data in self.script.source.other_objects.items():
            self.bucket.put(key, data)
        put_foreign(self.bucket)
        self.toxics = Toxics(
            Random(random.random()),
            self.script.rates,
            self.event_counts,
            self.log,
        )
        self.damage = Damage(self.bucket, random, self.log, [dict(self.script.source.objects)])
        self.expected_source = self.source_objects()
        self.owner = self._draw_owner()

    def record_event(self, event: str) -> None:
        self.events.add(event)
        self.event_counts[event] += 1

    def steps(self, wish: Wish, order: Random) -> Steps:
        return Steps(wish, order, self.script.cores, names_holder=self.script.weather is not None)

    @property
    def requested_wishes(self) -> list[Wish]:
        """Return the requests of all runs that the script plans, begun or not."""
        return [self.script.wish, *([self.script.other_wish] if "rival" in self.script.beside else [])]

    def comes_late(self) -> bool:
        return self.script.weather is not None and self.script.weather.late

    def count_request(self) -> None:
        if self.owner is not None:
            self.owner.count_request()

    def is_strict(self) -> bool:
        return self.script.is_strict and not self.is_owned()

    def is_owned(self) -> bool:
        return self.owner is not None and self.owner.has_taken

    def is_published(self, target: str) -> bool:
        return f"{target.rpartition('/')[2]}/_metadata" in self.bucket.objects

    def was_published(self, target: str) -> bool:
        return self.is_published(target) or (target == TARGET and self.is_owned())

    def may_have_been_published(self) -> bool:
        """Return whether the target may have been published, so that no run may discard it or repair damage in it."""
        return bool({"publishing", "published"} & self.bucket.data_below("target.rescale").keys())

    def source_objects(self) -> dict[str, StoredObject | None]:
        """Return the objects of the source, in all versions if the bucket keeps them."""
        objects = {key: stored for key, stored in self.bucket.objects.items() if key.startswith("source/")}
        return objects | self.bucket.versions_below("source/")

    def _is_reported(self) -> bool:
        """Return whether a publishing process has ended without an error."""
        ended_names = [process.name for process in self.processes if process.is_over and process.error is None]
        return any(name.startswith(("publish", "twin", "rival")) for name in ended_names)

    def _is_being_published(self) -> bool:
        """Return whether a process may be publishing.

        Until the mark that follows `_metadata` is put, this may be any process that has made a request and is not over.
        """
        running = [process for process in self.processes if process.request_count and not process.is_over]
        is_marked = "published" in self.bucket.data_below("target.rescale")
        return any(process.request in _PUBLISH_REQUESTS for process in running) if is_marked else bool(running)

    def _draw_owner(self) -> Owner | None:
        """Draw an owner from its own seed, so that histories without one do not change."""
        random = Random(f"owner {self.seed}")
        if random.random() > _OWNED_SHARE:
            return None
        patience = random.choice((0, 0, 1, 2, 3, 5, 30, 300))
        return Owner(self.bucket, random, patience, self._is_reported, self._is_being_published, self.log)
