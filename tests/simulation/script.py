"""What shall happen in a history: all of it is drawn from its seed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from random import Random

from rescale.planning.asked.request import Files, Format
from rescale.planning.values.proof import Proof
from simulation.changelog_sources import draw_changelog
from simulation.native_sources import draw_native, in_a_kind
from simulation.rows import Kind
from simulation.run import Wish
from simulation.sources import Source, draw_source, written
from simulation.store_kinds import StoreKind, draw_store
from simulation.toxics import PASSING, Toxic
from simulation.weather import Weather, draw_weather

_NATIVE, _INTO_ROCKSDB = 0.05, 0.01
"""How many histories are of native state, or of canonical state that becomes RocksDB's: these take longer."""

_MISREAD = 0.05
"""In how many histories publish misreads something."""

_DROPS = 0.08
"""In how many of those with states of known names an operator may be left out, or some of its states."""

STAGES = ("plan", "reshuffle", "validate", "publish")


@dataclass(frozen=True)
class Script:
    """`beside` says which other processes begin before which stage, `damage` which damage is done then.

    `crashes` and `losses` say how probable it is that a process is killed, or taken for dead.
    """

    source: Source
    wish: Wish
    other_wish: Wish
    rates: Mapping[Toxic, float]
    crashes: float
    losses: float
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
        """Whether all that happens passes, or is done by processes of this very plan: nothing may end it for good."""
        misread = self.rates.keys() & {Toxic.FLIPPED, Toxic.SHORT}
        ruled = self.weather is not None and (self.weather.no_deletes or self.weather.release)
        return not (misread or ruled or self.damage) and set(self.beside) <= {"twin"}

    def __str__(self) -> str:
        rates = ", ".join(f"{toxic} {rate:.1%}" for toxic, rate in self.rates.items())
        return (
            f"{self.source.name}: {self.wish}; {rates or 'no toxics'}; "
            f"crashes {self.crashes:.0%}, losses {self.losses:.0%}; "
            f"beside it: {dict(self.beside) or 'nobody'}; damage: {dict(self.damage) or 'none'}; "
            f"parts of {self.part_size}, chunks of {self.chunk_size}, inline up to {self.inline_limit}"
            f"{f'; {self.weather}' if self.weather is not None else ''}{self.store}"
        )


def has_native_state(seed: int) -> bool:
    """Whether the history of a seed is one of native state, before or after."""
    return Random(f"kinds {seed}").random() < _NATIVE + _INTO_ROCKSDB or draw_changelog(seed) is not None


def draw_script(random: Random, seed: int) -> Script:
    """`random` is the history's own. What is native is drawn from another one, so that other histories do without."""
    source = draw_source(random)
    kinds = Random(f"kinds {seed}")
    turn = kinds.random()
    if turn < _NATIVE:
        source = draw_native(kinds)
    elif turn < _NATIVE + _INTO_ROCKSDB:
        source = written(kinds.randrange(24))
    changelog = draw_changelog(seed)
    if changelog is not None and turn >= _NATIVE + _INTO_ROCKSDB:
        source = changelog
    rates: dict[Toxic, float] = {}
    if random.random() < 0.8:
        rates = {toxic: random.choice((0.003, 0.01, 0.03, 0.1)) for toxic in PASSING if random.random() < 0.6}
    beside: dict[str, str] = {}
    damage: dict[str, str] = {}
    if random.random() < 0.15:
        beside["twin"] = random.choice(STAGES[1:])
    if random.random() < 0.5:
        if random.random() < 0.4:
            rates[Toxic.FLIPPED] = random.choice((0.002, 0.01, 0.05))
        if random.random() < 0.35:
            beside["rival"] = random.choice(("plan", *STAGES))
        if random.random() < 0.1:
            beside["discard"] = random.choice(STAGES[1:])
        for kind, stages, chance in (
            ("source rots", STAGES, 0.1),
            ("source changes", STAGES, 0.15),
            ("source is deleted", STAGES, 0.08),
            ("result rots", ("validate",), 0.5),
            ("result is cut or gone", ("validate", "publish"), 0.2),
            ("result is replaced", ("publish",), 0.15),
            ("document rots", STAGES[1:], 0.15),
            ("candidate rots", ("publish",), 0.12),
            ("certificate rots", ("publish",), 0.08),
        ):
            if random.random() < chance:
                damage[kind] = random.choice(stages)
    wishes = [draw_wish(random, source) for _ in range(2)]
    if turn < _NATIVE + _INTO_ROCKSDB or source.is_changelog:
        wishes = [in_a_kind(kinds, source, wish) for wish in wishes]
    if any(wish.files is Files.REFER for wish in wishes) and kinds.random() < 0.25:
        damage[kinds.choice(("source changes", "source is deleted"))] = "publish"
    if kinds.random() < _MISREAD:
        rates[Toxic.MISREAD] = kinds.choice((0.05, 0.3))
    weather = draw_weather(seed, STAGES)
    if weather is not None:
        rates |= weather.rates
        wishes = [with_surgery(Random(f"surgery {seed} {i}"), source, wish) for i, wish in enumerate(wishes)]
        if weather.vanishes is not None:
            damage["source vanishes"] = weather.vanishes
    wishes = [with_drops(seed, i, source, wish) for i, wish in enumerate(wishes)]
    store = draw_store(seed)
    if store.is_believed:
        wishes = [replace(wish, proof=Proof.FILES) if may_go_by_sums(source, wish) else wish for wish in wishes]
    return Script(
        source,
        *wishes,
        rates,
        crashes=random.choice((0, 0, 0.1, 0.4)),
        losses=random.choice((0, 0, 0, 0.1, 0.3)),
        beside=beside,
        damage=damage,
        part_size=random.choice((250, 700, 1 << 20)),
        chunk_size=random.choice((150, 1 << 20, 1 << 20)),
        inline_limit=random.choice((0, 0, 150, 20_000)),
        discards=random.random() < 0.05,
        kills_others=random.random() < 0.5,
        longest_turn=random.choice((4, 25)),
        cores=Random(random.randint(1, 4)),
        table_bytes=kinds.choice((400, 1 << 26)),
        foreign_share=kinds.choice((0.05, 10)),
        weather=weather,
        store=store,
    )


def draw_wish(random: Random, source: Source) -> Wish:
    """One that is possible: no subtask is without a key group."""
    old = [shape for shape in source.shapes.values() if shape[1] != 1]
    while True:
        maximum = "" if random.random() < 0.5 else random.choice(source.max_parallelisms)
        wish = Wish(random.choice(source.parallelisms), maximum)
        if all(int(wish.parallelism or p) <= int(wish.max_parallelism or m) for p, m in old):
            return wish


def with_surgery(random: Random, source: Source, wish: Wish) -> Wish:
    """Sometimes an operator has another uid in the result, or is left out."""
    if not source.uids or random.random() < 0.7:
        return wish
    renamed, dropped = random.sample(source.uids, 2)
    renames = (f"{renamed}={renamed} again",) if random.random() < 0.7 else ()
    drops = (dropped,) if random.random() < 0.5 else ()
    return replace(wish, renames=renames, drops=drops, proof=Proof.RECORDS if "keyed" in drops else wish.proof)


def with_drops(seed: int, i: int, source: Source, wish: Wish) -> Wish:
    """In some histories an operator or some states are left out; of which ones is drawn from a seed of its own."""
    if not source.uids or Random(f"drops {seed}").random() >= _DROPS:
        return wish
    random = Random(f"drops {seed} {i}")
    renamed = {one.partition("=")[0] for one in wish.renames}
    if not wish.drops and random.random() < 0.3:
        wish = replace(wish, drops=(random.choice([uid for uid in source.uids if uid not in renamed]),))
    states = [one for one in source.states if one.partition(":")[0] not in wish.drops]
    wish = replace(wish, state_drops=tuple(random.sample(states, min(random.choice((0, 1, 1, 2, 3)), len(states)))))
    return replace(wish, proof=Proof.RECORDS) if _leaves_out_keyed(wish) else wish


def may_go_by_sums(source: Source, wish: Wish) -> bool:
    """Whether its key groups are copied as they are."""
    kept = {str(maximum) for _, maximum in source.shapes.values()}
    is_copied = wish.format is Format.KEEP and wish.max_parallelism in ("", *kept) and not _leaves_out_keyed(wish)
    return is_copied and bool(source.uids) and source.kind is not Kind.ROCKSDB and not source.is_changelog


def _leaves_out_keyed(wish: Wish) -> bool:
    """The operator of that name, or a state of its."""
    return "keyed" in wish.drops or any(one.startswith("keyed:") for one in wish.state_drops)


def kind_due(kinds: set[Kind], wish: Wish) -> set[Kind]:
    """How keyed state lies, where it lay in these kinds."""
    return {Kind(wish.format)} if kinds and wish.format is not Format.KEEP else kinds


def shapes_due(shapes: Mapping[str, tuple[int, int]], wish: Wish) -> dict[str, tuple[int, int]]:
    """Parallelism and max parallelism of each operator, once it has `shapes`; one with a maximum of 1 stays so.

    What is left out or renamed was before.
    """
    return {
        operator_id: (p, m) if m == 1 else (int(wish.parallelism or p), int(wish.max_parallelism or m))
        for operator_id, (p, m) in shapes.items()
    }
