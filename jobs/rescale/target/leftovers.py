"""What a killed or unlucky run of the plan began and never completed: it goes before a result is published.

An answer that was lost, or a task that was killed, leaves an upload in parts open, which the store keeps and bills, or
temporary files. Once all files of state are there nobody needs them; a twin that still writes begins again.
"""

from __future__ import annotations

from contextlib import suppress

from rescale.errors import LockedError
from rescale.planning.asked.request import beside
from rescale.storage.store import open_store
from rescale.target.places import Places


def clear_leftovers(places: Places) -> None:
    """Abandons what was begun for the target, or in our own directory beside it, and removes what was staged."""
    store, staging = open_store(places.target), places.staging
    for place in (places.target, staging, beside(places.target)):
        store.abort_parts(place)
    with suppress(LockedError):  # they are in nobody's way
        store.delete([entry.uri for entry in store.list(staging)])
