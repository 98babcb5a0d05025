"""Script of a history, drawn from its seed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

from rescale.planning.request.result_files import Files, Format
from simulation.changelog_sources import draw_changelog
from simulation.native_sources import draw_native
from simulation.rows import Kind
from simulation.run import Wish
from simulation.sources import Source, draw_source, written_source
from simulation.store_kinds import StoreKind, draw_store
from simulation.toxics import PASSING_TOXICS, Toxic
from simulation.weather import Weather, draw_weather
from simulation.wishes import draw_wishes, with_surgery_and_proofs

_NATIVE_SHARE, _INTO_ROCKSDB_SHARE = 0.05, 0.01
"""Shares of histories of native state, and of canonical state that becomes RocksDB's: small, because both are slow."""

FIRST_AHEAD_SEED = 3_000_000
"""First seed of histories in which a process may copy files ahead.

All seeds that were recorded before are smaller, because their histories must not change.
"""

_COPIED_AHEAD_SHARE = 0.5
"""Share of histories with RocksDB state in which a process copies files ahead, for one of the wishes."""

_MISREAD_SHARE = 0.05
"""Share of histories in which publish misreads something."""

STAGES = ("plan", "reshuffle", "validate", "publish")

_DAMAGE_KINDS = (
    ("source rots", STAGES, 0.1),
    ("source changes", STAGES, 0.15),
    ("source is deleted", STAGES, 0.08),
    ("result rots", ("validate",), 0.5),
    ("result is cut or gone", ("validate", "publish"), 0.2),
    ("result is replaced", ("publish",), 0.15),
    ("document rots", STAGES[1:], 0.15),
    ("candidate rots", ("publish",), 0.12),
    ("certificate rots", ("publish",), 0.08),
)
"""Kinds of damage, the stages before which they may happen, and their probability in histories with final faults."""


@dataclass(frozen=True)
class Script:
    """Script of a history.

    `beside` has the stage before which each other process begins, and `damage` the stage before which each damage is
    done. `crash_rate` and `loss_rate` are the probabilities that a process is killed, or reported as dead although it
    is not.
    """

    source: Source
    wish: Wish
    other_wish: Wish
    rates: Mapping[Toxic, float]
    crash_rate: float
    loss_rate: float
    beside: Mapping[str, str]
    damage: Mapping[str, str]
    part_size: int
    chunk_size: int
    inline_limit: int
    discards: bool
    kills_others: bool
    longest_turn: int
    cores: Random
    table_bytes: int
    foreign_share: float
    weather: Weather | None
    store: StoreKind

    @property
    def is_strict(self) -> bool:
        """Return whether no fault may end the run: all are transient, or come from processes with the same plan."""
        misreads = self.rates.keys() & {Toxic.FLIPPED, Toxic.SHORT}
        is_hindered = self.weather is not None and (self.weather.deletes_denied_from or self.weather.release_stage)
        return not (misreads or is_hindered or self.damage) and set(self.beside) <= {"twin"}

    def __str__(self) -> str:
        rates = ", ".join(f"{toxic} {rate:.1%}" for toxic, rate in self.rates.items())
        return (
            f"{self.source.name}: {self.wish}; {rates or 'no toxics'}; "
            f"crashes {self.crash_rate:.0%}, losses {self.loss_rate:.0%}; "
            f"beside it: {dict(self.beside) or 'nobody'}; damage: {dict(self.damage) or 'none'}; "
            f"parts of {self.part_size}, chunks of {self.chunk_size}, inline up to {self.inline_limit}"
            f"{f'; {self.weather}' if self.weather is not None else ''}{self.store}"
        )


def has_native_state(seed: int) -> bool:
    """Return whether the history of a seed has native state in its source or in its results."""
    return Random(f"kinds {seed}").random() < _NATIVE_SHARE + _INTO_ROCKSDB_SHARE or draw_changelog(seed) is not None


def draw_script(random: Random, seed: int) -> Script:
    """Draw a script with `random`, which is the history's own; native state is drawn from another seed.

    Histories of recorded seeds must not change, so new draws come after all others, or from their own seed.
    """
    native_random = Random(f"kinds {seed}")
    source, is_native = _draw_source(random, native_random, seed)
    trouble = _draw_trouble(random)
    weather, store = draw_weather(seed, STAGES), draw_store(seed)
    wishes = draw_wishes(random, native_random if is_native else None, source)
    _draw_native_trouble(native_random, trouble, wishes)
    _draw_preparer(seed, source, trouble)
    if weather is not None:
        trouble.rates |= weather.rates
        trouble.damage |= {} if weather.vanish_stage is None else {"source vanishes": weather.vanish_stage}
    return Script(
        source,
        *with_surgery_and_proofs(seed, source, wishes, has_surgery=weather is not None, by_checksums=store.is_trusted),
        trouble.rates,
        crash_rate=random.choice((0, 0, 0.1, 0.4)),
        loss_rate=random.choice((0, 0, 0, 0.1, 0.3)),
        beside=trouble.beside,
        damage=trouble.damage,
        part_size=random.choice((250, 700, 1 << 20)),
        chunk_size=random.choice((150, 1 << 20, 1 << 20)),
        inline_limit=random.choice((0, 0, 150, 20_000)),
        discards=random.random() < 0.05,
        kills_others=random.random() < 0.5,
        longest_turn=random.choice((4, 25)),
        cores=Random(random.randint(1, 4)),
        table_bytes=native_random.choice((400, 1 << 26)),
        foreign_share=native_random.choice((0.05, 10)),
        weather=weather,
        store=store,
    )


def _draw_source(random: Random, native_random: Random, seed: int) -> tuple[Source, bool]:
    """Draw a source, and return whether the source or its results have native state."""
    source = draw_source(random)
    draw = native_random.random()
    if draw < _NATIVE_SHARE:
        return draw_native(native_random), True
    if draw < _NATIVE_SHARE + _INTO_ROCKSDB_SHARE:
        return written_source(native_random.randrange(24)), True
    changelog = draw_changelog(seed)
    return (source, False) if changelog is None else (changelog, True)


@dataclass
class _Trouble:
    """`rates`, `beside` and `damage` of a script."""

    rates: dict[Toxic, float] = field(default_factory=dict)
    beside: dict[str, str] = field(default_factory=dict)
    damage: dict[str, str] = field(default_factory=dict)


def _draw_trouble(random: Random) -> _Trouble:
    trouble = _Trouble()
    if random.random() < 0.8:
        trouble.rates = {
            toxic: random.choice((0.003, 0.01, 0.03, 0.1)) for toxic in PASSING_TOXICS if random.random() < 0.6
        }
    if random.random() < 0.15:
        trouble.beside["twin"] = random.choice(STAGES[1:])
    if random.random() < 0.5:
        _draw_final_faults(random, trouble)
    return trouble


def _draw_final_faults(random: Random, trouble: _Trouble) -> None:
    if random.random() < 0.4:
        trouble.rates[Toxic.FLIPPED] = random.choice((0.002, 0.01, 0.05))
    if random.random() < 0.35:
        trouble.beside["rival"] = random.choice(("plan", *STAGES))
    if random.random() < 0.1:
        trouble.beside["discard"] = random.choice(STAGES[1:])
    for kind, stages, chance in _DAMAGE_KINDS:
        if random.random() < chance:
            trouble.damage[kind] = random.choice(stages)


def _draw_native_trouble(native_random: Random, trouble: _Trouble, wishes: Sequence[Wish]) -> None:
    if any(wish.files is Files.REFER for wish in wishes) and native_random.random() < 0.25:
        trouble.damage[native_random.choice(("source changes", "source is deleted"))] = "publish"
    if native_random.random() < _MISREAD_SHARE:
        trouble.rates[Toxic.MISREAD] = native_random.choice((0.05, 0.3))


def _draw_preparer(seed: int, source: Source, trouble: _Trouble) -> None:
    """Let a process copy files ahead in some histories, drawn from a seed of its own."""
    random = Random(f"copied ahead {seed}")
    if seed < FIRST_AHEAD_SEED or source.kind is not Kind.ROCKSDB or source.is_changelog:
        return
    if random.random() < _COPIED_AHEAD_SHARE:
        trouble.beside[random.choice(("preparer", "other preparer"))] = random.choice(("plan", "plan", *STAGES))


def expected_kinds(kinds: set[Kind], wish: Wish) -> set[Kind]:
    """Return the kinds of keyed state of the result of a wish for state of these kinds."""
    return {Kind(wish.format)} if kinds and wish.format is not Format.KEEP else kinds


def expected_shapes(shapes: Mapping[str, tuple[int, int]], wish: Wish) -> dict[str, tuple[int, int]]:
    """Return parallelism and max parallelism of each operator in the result of a wish.

    `shapes` are those after drops and renames. An operator with max parallelism 1 keeps its shape.
    """
    return {
        operator_id: (p, m) if m == 1 else (int(wish.parallelism or p), int(wish.max_parallelism or m))
        for operator_id, (p, m) in shapes.items()
    }
