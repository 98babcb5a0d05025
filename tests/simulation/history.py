"""A history: what befalls one run, from one seed, and whether the promise holds.

The promise: whatever happens, the target is published and right, or not published; the source is as it was; no upload
stays open behind a published result or a discarded one; nothing is told as a fault of ours; what passes ends no run for
good; and when faults end, the next run publishes, or says what is the matter with the source, or has to be told to
discard what damage was done to.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from random import Random

from rescale.errors import InternalError, RescaleError, unexpected
from rescale.planning.asked.request import Files
from rescale.planning.values.proof import Proof
from rescale.target.removal import discard
from simulation.bucket import BUCKET, Bucket, Stored
from simulation.clock import Clock
from simulation.damage import Damage
from simulation.endless import EndlessError, limited
from simulation.installed import Sizes, at_work, install_release
from simulation.model import assert_certified, sst_files
from simulation.owner import Owner
from simulation.processes import Crash, Process
from simulation.promises import BrokenPromiseError, assert_published, must, referred_to
from simulation.rows import Kind, WrongError
from simulation.run import TARGET, Steps, Wish
from simulation.script import Script, draw_script
from simulation.stores_word import left_to_the_store
from simulation.supervisor import Ending, Supervisor
from simulation.toxics import Client, Toxic, Toxics

PUBLISHED, REFUSED = "published", "refused"

_OWNED = 0.08
"""How many of the results a job is started from that owns them."""

_PUBLISHES = ("head_object target.rescale/published", "put_object target/_metadata")
"""Requests of a publisher that has had its last look, or has put `_metadata`, and is about to say so."""

_DISCARD = "user's discard"
_TOO_LATE = "files are named as those of a run, and no claim says that they may go"
"""So it is told who comes when somebody else has discarded all, and a task went on."""

_LONGEST_PROCESS = 80
"""Requests, within which a process that is to be killed is."""


@dataclass
class Verdict:
    """`how` it ended; `broken` is what was promised and not kept, and `log` what happened."""

    seed: int
    how: str
    injected: Counter[str]
    broken: str | None
    log: list[str]


def play(seed: int) -> Verdict:
    """The history of a seed, in a block of `installed`."""
    history = _History(seed)
    how, broken = "broken", None
    try:
        with limited():
            how = history.play()
    except (BrokenPromiseError, WrongError, EndlessError) as error:
        broken = str(error)
    finally:
        history.end_processes()
    history.count_processes()
    return Verdict(seed, how, history.injected, broken, history.log)


@dataclass
class _History:
    seed: int
    log: list[str] = field(default_factory=list)
    injected: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self._random = random = Random(self.seed)
        self._script: Script = draw_script(random, self.seed)
        self.log.append(str(self._script))
        weather = self._script.weather
        self._clock = weather.clock if weather is not None else Clock()
        store = self._script.store
        self._bucket = Bucket(self._clock, keeps_versions=store.keeps_versions, has_sums=store.has_sums)
        for name, data in self._script.source.objects.items():
            self._bucket.put(f"source/{name}", data)
        self._toxics = Toxics(Random(random.random()), self._script.rates, self.injected, self.log)
        self._damage = Damage(self._bucket, random, self.log, [dict(self._script.source.objects)])
        self._processes: list[Process] = []
        self._source = self._source_objects()
        self._done: set[str] = set()
        self._has_discarded = False
        self._owner = self._drawn_owner()
        self.supervisor = Supervisor(random, self._process, self.log, self._before, self._script.longest_turn)

    def play(self) -> str:
        script = self._script
        look = self._owner.look if self._owner is not None else None
        client, order = Client(self._bucket, self._toxics, look), Random(self._random.random())
        sizes = Sizes(
            script.part_size, script.chunk_size, script.inline_limit, script.table_bytes, script.foreign_share
        )
        with at_work(client, order, sizes, self._clock):
            ending = self.supervisor.run(self._steps(script.wish, order))
            self._judge_run(ending)
            if not self._comes_late():
                self.supervisor.end_others(kill=script.kills_others)
            self.supervisor.end_others(kill=script.kills_others, only="discard")
            self._judge()
            if self._toxics.deletes_are_denied and ending.error is not None:
                self._discard_in_vain()
            self._toxics.end()
            how = self._set_right(ending, order)
            self._judge()
            if self._comes_late():
                self.supervisor.end_others(kill=False)
                self._judge()
            self._delete_what_is_referred_to(order)
        return how

    def end_processes(self) -> None:
        for process in self._processes:
            process.kill()

    def count_processes(self) -> None:
        self.injected["process killed"] += sum(isinstance(one.error, Crash) for one in self._processes)
        self.injected["a job owns the result"] += self._is_owned()
        self.injected["process taken for dead"] += sum(one.is_lost for one in self._processes)

    def _judge_run(self, ending: Ending) -> None:
        """The run under faults."""
        error = ending.error
        if error is None:
            must(self._was_published(TARGET), "a run says that it published, and did not")
            self._look_for_open_uploads("behind a run that published")
        elif error.final and self._is_strict():
            raise BrokenPromiseError(f"what passes ended a run for good, at {ending.step}: {_told(error)}")

    def _set_right(self, ending: Ending, order: Random) -> str:
        """No more faults: what a user does then, as he is told, until it is published or cannot be."""
        if self._owner is not None:
            self._owner.take()
        if self._is_owned() or (self._script.discards and ending.error is not None):
            self._discard()
        how = "at once" if ending.tries == 5 else "after more tries"
        if ending.error is not None:
            how = "by the next run"
        was_published = self._is_published(TARGET)
        source_is_damaged = any(kind.startswith("source") for kind in self._done)
        for target, after in ((TARGET, how), (TARGET, "after discard"), (f"{TARGET}-2", "to another target")):
            wish = replace(self._script.wish, target=target)
            process = self._go(f"user, {after}", self._steps(wish, order).all)
            if process.error is None:
                must(self._was_published(target), "a run says that it published, and did not")
                if target == TARGET and not was_published:
                    self._look_for_open_uploads("behind a run that published", but_strangers=False)
                return f"{PUBLISHED} {after}"
            error = process.error
            if not isinstance(error, RescaleError) or not error.final:
                raise BrokenPromiseError(f"without any fault a run ends with {_told(error)}")
            if source_is_damaged and after != how:
                return f"{REFUSED}: source damaged"
            if "rival" in self._done and self._is_published(TARGET):
                return f"{REFUSED}: another plan published"
            if self._is_published(TARGET):
                excused = source_is_damaged or bool(self._done & {"document rots", "discard"}) or self._was_misplanned()
                must(excused, f"a published target is refused: {_told(error)}")
                return f"{PUBLISHED}, what is beside or behind it was damaged"
            if self._is_strict():
                raise BrokenPromiseError(f"without any fault the next run is refused: {_told(error)}")
            if after == how:
                must(self._may_need_discard(), f"what could be mended was refused: {_told(error)}")
                self._discard()
            elif not self._done & {"document rots", "release"} and not self._may_have_been_published():
                raise BrokenPromiseError(f"without any fault a run after discard is refused: {_told(error)}")
        raise BrokenPromiseError(f"without any fault a run to another target is refused: {_told(error)}")

    def _was_misplanned(self) -> bool:
        """What is misread for a plan may change its digest alone; what comes of it is right, the next plan another."""
        return any(line.startswith(f"{Toxic.FLIPPED}: plan ") for line in self.log)

    def _may_need_discard(self) -> bool:
        """What is cut or gone is written again, and what was not validated is validated again."""
        mended = {"result is cut or gone", "candidate rots", "certificate rots", "twin"}
        return Toxic.FLIPPED in self._script.rates or self._is_owned() or not self._done <= mended

    def _may_have_been_published(self) -> bool:
        """Then nothing may be discarded, and what was damaged not be written again."""
        return bool({"publishing", "published"} & self._bucket.below("target.rescale").keys())

    def _discard(self) -> None:
        self._has_discarded = True
        crash_at = self._random.randint(1, 30) if self._random.random() < 0.5 else 0
        process = self._go(_DISCARD, lambda: discard(TARGET), crash_at)
        if isinstance(process.error, Crash):
            process = self._go(f"{_DISCARD} again", lambda: discard(TARGET))
        if process.error is None:
            self._look_for_open_uploads("after discard", but_strangers=False)
            left = [*self._bucket.below("target"), *self._bucket.below("target.rescale")]
            if not self._done & {"document rots", "rival", "discard", "release"}:
                must(not left, f"discard leaves {left}")
        elif not (
            self._done & {"document rots", "rival", "release"}
            or self._may_have_been_published()
            or ("discard" in self._done and _TOO_LATE in str(process.error))
        ):
            raise BrokenPromiseError(f"discard ends with {_told(process.error)}")

    def _delete_what_is_referred_to(self, order: Random) -> None:
        """Whoever owns the source does so after all, and who publishes once more is told."""
        uris = referred_to(self._bucket.below("target")) if self._is_published(TARGET) else []
        plans = [key for key in self._bucket.objects if key.startswith("target.rescale/plan-")]
        if not uris or len(plans) != 1:
            return
        self._bucket.remove(Random(f"owner of {self.seed}").choice(uris).removeprefix(f"s3://{BUCKET}/"))
        self._happened("source deleted under a result")
        publish = self._steps(self._script.wish, order).body("publish", f"s3://{BUCKET}/{plans[0]}")
        process = self._go("user, once more", publish)
        must(process.error is not None, "a result is told to be whole, and refers to a file that is gone")

    def _discard_in_vain(self) -> None:
        """Where nothing may be deleted nobody is told that it was."""
        self._has_discarded = True
        self._happened("discard in vain")
        process = self._go(f"{_DISCARD} in vain", lambda: discard(TARGET))
        must(process.error is not None or not self._bucket.below("target.rescale"), "discard deletes nothing")

    def _judge(self) -> None:
        """What must hold at any time."""
        for process in self._processes:
            if isinstance(process.error, Exception):
                error = unexpected(process.error)
                came_late = process.is_lost and self._has_discarded
                if error.final and self._is_strict() and not (came_late or process.name.startswith(_DISCARD)):
                    raise BrokenPromiseError(f"what passes ended {process.name} for good: {_told(error)}")
                if isinstance(error, InternalError):
                    raise BrokenPromiseError(f"{process.name} ends with a fault of ours: {error.traceback}")
        must(self._source_objects() == self._source, "the source was touched")
        must(not self._bucket.taken_away, f"what nobody can bring back is gone: {self._bucket.taken_away}")
        if self._owner is not None and (missed := self._owner.missed()) is not None:
            raise BrokenPromiseError(missed)
        plans = {name.split("-")[3] for name in self._bucket.below("target") if name != "_metadata"}
        late = self._has_discarded and self._comes_late()
        must(
            len(plans) <= 1 or late or bool(self._done & {"discard", "release"}),
            f"files of several plans lie together: {plans}",
        )
        for target in (TARGET, f"{TARGET}-2"):
            if self._is_published(target):
                folder = target.rpartition("/")[2]
                wishes = [self._script.wish, *([self._script.other_wish] if "rival" in self._done else [])]
                strangers = bool(self._done & {"rival", "discard", "release"})
                self._believe_the_store(folder, wishes)
                wish, source = assert_published(
                    self._bucket, folder, wishes, self._damage.versions, strangers=strangers
                )
                if "discard" not in self._done:
                    certificate = self._bucket.objects[f"{folder}.rescale/certificate.json"].data
                    assert_certified(
                        certificate,
                        source,
                        self._bucket.below(folder),
                        renames=wish.renames,
                        drops=wish.drops,
                        state_drops=wish.state_drops,
                    )

    def _believe_the_store(self, folder: str, wishes: Sequence[Wish]) -> None:
        """Whoever asks for no more than a proof by files does so, as far as the certificate says that it does."""
        place = f"{folder}.rescale/certificate.json"
        if place not in self._bucket.objects or b'"checksums": {' not in self._bucket.objects[place].data:
            return
        must(any(wish.proof is Proof.FILES for wish in wishes), "every record was to be read, and was not")
        result = {name: self._bucket.objects[f"{folder}/{name}"] for name in self._bucket.below(folder)}
        certificate = self._bucket.objects[place].data
        left = left_to_the_store(certificate, result, self._damage.sources, has_sums=self._bucket.has_sums)
        self._happened("bytes left to the store's word")
        self._damage.undo_rot({f"{folder}/{name}": extent for name, extent in left.items()})

    def _source_objects(self) -> dict[str, Stored | None]:
        """All versions that there are, if the bucket keeps them."""
        objects = {key: one for key, one in self._bucket.objects.items() if key.startswith("source/")}
        return objects | self._bucket.history("source/")

    def _look_for_open_uploads(self, where: str, *, but_strangers: bool = True) -> None:
        left = {one.by: one.key for one in self._bucket.uploads.values()}
        if but_strangers:
            strangers = [p.name for p in self._processes if p.is_lost or p.name.split()[0] in self._script.beside]
            left = {by: key for by, key in left.items() if by not in strangers}
        must(not left, f"an upload stays open {where}: {left}")

    def _before(self, stage: str) -> None:
        """What the script has for this moment."""
        script = self._script
        for kind, when in script.damage.items():
            if when == stage and self._may_be_done(kind, stage) and self._damage.do(kind, self._spared(kind)):
                self._happened(kind)
                if kind.startswith("source"):
                    self._source = self._source_objects()
        if script.weather is not None:
            self._toxics.deletes_are_denied |= script.weather.no_deletes == stage
            if script.weather.release == stage:
                install_release()
                self._happened("release")
        steps = {
            "twin": self._steps(script.wish, self._random).all,
            "rival": self._steps(script.other_wish, self._random).all,
            "discard": lambda: discard(TARGET),
        }
        for who, when in script.beside.items():
            if when == stage:
                self._happened(who)
                self.supervisor.others.append(self._process(who, steps[who]))

    def _may_be_done(self, kind: str, stage: str) -> bool:
        """A result may rot until it is read, or change until it is published; nobody could see what comes later.

        What a result refers to is as much of it as its own files.
        """
        refers = any(wish.files is Files.REFER for wish in self._asked)
        if kind == "source rots" and refers and stage == "publish":
            return False
        if kind.startswith("source") and not refers:
            return True
        return not (self.supervisor.others or self._was_published(TARGET))

    def _spared(self, kind: str) -> Collection[str]:
        """Where files are taken as they are, nobody reads what has rotted in SST files: so says the certificate."""
        by_files = any(wish.proof is Proof.FILES for wish in self._asked)
        if kind != "source rots" or not by_files or self._script.source.kind is not Kind.ROCKSDB:
            return ()
        return {f"source/{name}" for name in sst_files(self._bucket.below("source"))}

    @property
    def _asked(self) -> list[Wish]:
        """By whomever there is."""
        return [self._script.wish, *([self._script.other_wish] if "rival" in self._script.beside else [])]

    def _happened(self, what: str) -> None:
        self._done.add(what)
        self.injected[what] += 1

    def _process(self, name: str, body: Callable[[], object]) -> Process:
        """One that may be killed, or taken for dead."""
        self._look()  # before a new try begins there is time for a job
        random, script = self._random, self._script
        crash_at = lost_at = 0
        if random.random() < script.crashes:
            crash_at = random.randint(1, _LONGEST_PROCESS)
        elif name not in script.beside and random.random() < script.losses:
            lost_at = random.randint(1, _LONGEST_PROCESS)
        number = sum(process.name.startswith(f"{name} ") for process in self._processes) + 1
        process = Process(f"{name} {number}", body, crash_at=crash_at, after=random.random() < 0.5, lost_at=lost_at)
        self._processes.append(process)
        return process

    def _steps(self, wish: Wish, order: Random) -> Steps:
        return Steps(wish, order, self._script.cores, tells_who=self._script.weather is not None)

    def _comes_late(self) -> bool:
        return self._script.weather is not None and self._script.weather.late

    def _go(self, name: str, body: Callable[[], object], crash_at: int = 0) -> Process:
        """A process of the user's, from end to end."""
        process = Process(name, body, crash_at=crash_at)
        self._processes.append(process)
        process.go_on()
        self.log.append(f"{name}: {'done' if process.error is None else _told(process.error)}")
        return process

    def _drawn_owner(self) -> Owner | None:
        """From a seed of its own: other histories are what they are without it."""
        random = Random(f"owner {self.seed}")
        if random.random() > _OWNED:
            return None
        patience = random.choice((0, 0, 1, 2, 3, 5, 30, 300))
        return Owner(self._bucket, random, patience, self._was_told, self._is_being_published, self.log)

    def _look(self) -> None:
        if self._owner is not None:
            self._owner.look()

    def _was_told(self) -> bool:
        """Whether a process has ended that published."""
        ended = [one.name for one in self._processes if one.is_over and one.error is None]
        return any(name.startswith(("publish", "twin", "rival")) for name in ended)

    def _is_being_published(self) -> bool:
        """Just now, by a process that lives; where the mark is missing that is set behind `_metadata`, by any."""
        alive = [one for one in self._processes if one.requests and not one.is_over]
        marked = "published" in self._bucket.below("target.rescale")
        return any(one.request in _PUBLISHES for one in alive) if marked else bool(alive)

    def _is_owned(self) -> bool:
        return self._owner is not None and self._owner.has_taken

    def _is_strict(self) -> bool:
        return self._script.is_strict and not self._is_owned()

    def _was_published(self, target: str) -> bool:
        return self._is_published(target) or (target == TARGET and self._is_owned())

    def _is_published(self, target: str) -> bool:
        return f"{target.rpartition('/')[2]}/_metadata" in self._bucket.objects


def _told(error: BaseException) -> str:
    """In one line."""
    return f"{type(error).__name__}: {str(error)[:400]}".replace("\n", ", ")
