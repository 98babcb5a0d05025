"""Damage that no second try is a remedy for: to the source, to the result, to what lies beside it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from simulation.bucket import Bucket, Stored
from simulation.toxics import flipped


@dataclass
class Damage:
    """`versions` are those of the source in which it was whole, or is; a result must be that of one of them.

    `rotted` has what was put where something rotted.
    """

    bucket: Bucket
    random: Random
    log: list[str]
    versions: list[dict[str, bytes]]
    rotted: dict[str, Stored] = field(default_factory=dict)

    def do(self, kind: str) -> bool:
        """Whether there was something to be damaged."""
        begins = {
            "source": "source/",
            "result": "target/",
            "document": "target.rescale/",
            "candidate": "target.rescale/candidate",
            "certificate": "target.rescale/certificate",
        }[kind.split()[0]]
        files = sorted(key for key in self.bucket.objects if key.startswith(begins))
        if not files:
            return False
        key = self.random.choice(files)
        done = self._deeds()[kind](key)
        if done:
            self.log.append(f"{kind}: {key}")
            if kind.startswith("source"):
                self.versions.append(self.bucket.below("source"))
        return done

    def _deeds(self) -> dict[str, Callable[[str], bool]]:
        return {
            "source rots": self._rot,
            "source changes": self._change,
            "source is deleted": self._delete,
            "source vanishes": self._vanish,
            "result rots": self._rot,
            "result is cut or gone": self._cut_or_delete,
            "result is replaced": self._replace,
            "document rots": self._rot,
            "candidate rots": self._rot,
            "certificate rots": self._rot,
        }

    def _rot(self, key: str) -> bool:
        """A bit flips, and the ETag says nothing of it."""
        stored = self.bucket.objects[key]
        self.rotted.setdefault(key, stored)
        self.bucket.objects[key] = Stored(flipped(stored.data, self.random), stored.etag)
        return True

    def undo_rot(self, below: str) -> None:
        """What a store lets rot below a folder is there again as it was put, unless it was put anew meanwhile."""
        for key, stored in self.rotted.items():
            now = self.bucket.objects.get(key)
            if key.startswith(f"{below}/") and now is not None and now.etag == stored.etag:
                self.bucket.objects[key] = stored

    def _replace(self, key: str) -> bool:
        self.bucket.put(key, flipped(self.bucket.objects[key].data, self.random))
        return True

    def _change(self, key: str) -> bool:
        """Somebody wrote a file of state anew with another byte, mostly one of the last value or element."""
        data = self.bucket.objects[key].data
        if key.endswith("_metadata"):
            return False
        self.bucket.put(key, data[:-3] + bytes((data[-3] ^ 0x55,)) + data[-2:])
        return True

    def _cut_or_delete(self, key: str) -> bool:
        if self.random.random() < 0.5:
            return self._delete(key)
        self.bucket.put(key, self.bucket.objects[key].data[:-1])
        return True

    def _vanish(self, key: str) -> bool:
        """All of it, as where a newer savepoint takes its place."""
        directory = key.rpartition("/")[0]
        for one in [one for one in self.bucket.objects if one.startswith(f"{directory}/")]:
            del self.bucket.objects[one]
        return True

    def _delete(self, key: str) -> bool:
        del self.bucket.objects[key]
        return True
