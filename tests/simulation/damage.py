"""Damage that another try does not repair: to the source, to the result, to documents beside the result."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from random import Random

from simulation.bucket import Bucket
from simulation.neighbours import FOREIGN_OBJECTS
from simulation.stored import StoredObject
from simulation.toxics import with_random_flip

_KEPT_PREFIXES = ("source/", "base/")
"""Prefixes of the keys of files that a result may contain unchanged."""


@dataclass
class Damage:
    """Damage of a history.

    `source_versions` has all versions of the source, and a right result comes from one of them. `original_by_key` has
    the original of each object that rotted, and `source_files` every version of each file of the source and of the
    base.
    """

    bucket: Bucket
    random: Random
    log: list[str]
    source_versions: list[dict[str, bytes]]
    original_by_key: dict[str, StoredObject] = field(default_factory=dict)
    source_files: set[StoredObject] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._remember_sources()

    def inflict(self, kind: str, spared_keys: Collection[str] = ()) -> bool:
        """Damage an object whose key is not in `spared_keys`; return whether an object was damaged."""
        prefix = {
            "source": "source/",
            "result": "target/",
            "document": "target.rescale/",
            "candidate": "target.rescale/candidate",
            "certificate": "target.rescale/certificate",
        }[kind.split()[0]]
        keys = sorted(
            key for key in self.bucket.objects if key.startswith(prefix) and key not in {*spared_keys, *FOREIGN_OBJECTS}
        )
        if not keys:
            return False
        key = self.random.choice(keys)
        is_damaged = self._actions()[kind](key)
        if is_damaged:
            self.log.append(f"{kind}: {key}")
            if kind.startswith("source"):
                self.source_versions.append(self.bucket.data_below("source"))
                self._remember_sources()
        return is_damaged

    def _remember_sources(self) -> None:
        self.source_files |= {stored for key, stored in self.bucket.objects.items() if key.startswith(_KEPT_PREFIXES)}

    def _actions(self) -> dict[str, Callable[[str], bool]]:
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
        """Flip a bit and keep the ETag."""
        stored = self.bucket.objects[key]
        self.original_by_key.setdefault(key, stored)
        self.bucket.rot(key, StoredObject(with_random_flip(stored.data, self.random), stored.etag, stored.as_put))
        return True

    def undo_rot(self, extents: Mapping[str, range]) -> None:
        """Restore the original bytes of each object that rotted only within its extent in `extents` (by key)."""
        for key, extent in extents.items():
            if (
                key in self.original_by_key
                and (current := self.bucket.objects.get(key)) is not None
                and current.original_data is not None
            ):
                rotted_positions = [
                    i
                    for i, (byte, put) in enumerate(zip(current.data, current.original_data, strict=True))
                    if byte != put
                ]
                if all(i in extent for i in rotted_positions):
                    self.bucket.rot(key, StoredObject(current.original_data, current.etag))

    def _replace(self, key: str) -> bool:
        self.bucket.put(key, with_random_flip(self.bucket.objects[key].data, self.random))
        return True

    def _change(self, key: str) -> bool:
        """Put a file of state again with one changed byte, mostly in the last value or element."""
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
        """Delete all objects of the source, as when a newer savepoint takes its place."""
        directory = key.rpartition("/")[0]
        for doomed_key in [key for key in self.bucket.objects if key.startswith(f"{directory}/")]:
            self.bucket.remove(doomed_key)
        return True

    def _delete(self, key: str) -> bool:
        self.bucket.remove(key)
        return True
