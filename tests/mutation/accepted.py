"""Mutants that no test shall find, and why: by function, and by how the statement reads that is different in it."""

from __future__ import annotations

from mutation import in_validation
from mutation.mutants import Mutant

_ZERO = "0 and -0 are one number"
_FOR_PEOPLE = "how far it is indented is for people who look at it"
_ONE_OF_SEVERAL = "of several that differ any may be named"
_LOOKED_AT_BEFORE = "saves requests: the state of a target with `_metadata` is none of those that are refused"
_CERTIFICATE = "msgspec.json.format(msgspec.json.encode(certificate.document())"

ACCEPTED: dict[str, dict[str, str]] = {
    **in_validation.ACCEPTED,
    "flink/key_groups.py: murmur": {
        "mixed = mmh3.hash(struct.pack('<i', code), 0)": "signed is what mmh3 gives unless it is told otherwise",
        "return mixed if mixed > 0 else -mixed if mixed != -(1 << 31) else 0": _ZERO,
        "return mixed if mixed >= 1 else -mixed if mixed != -(1 << 31) else 0": _ZERO,
    },
    "flink/redistribution.py: _capacity_for": {
        "return 1 << (-(-expected * 4 // 3) - 2).bit_length()": (
            "only two states want a table of one more than a power of two, and these come in one order in any table"
        ),
    },
    "runstate/candidate.py: build_candidate": {"odd = max(handles.keys() ^ planned)": _ONE_OF_SEVERAL},
    "runstate/certificate.py: write_certificate": {
        f"store.put(places.certificate, {_CERTIFICATE}{indent}))": _FOR_PEOPLE
        for indent in ("", ", indent=3", ", indent=1")
    },
    "runstate/claim.py: claim": {
        f"document = json.dumps({{'plan': plan.digest, 'source': plan.source, **who}}{indent}).encode()": _FOR_PEOPLE
        for indent in ("", ", indent=2", ", indent=0")
    },
    "runstate/publication.py: _begin": {
        "return permit(plan, Transition.PUBLISH) is State.PUBLISHED": "saves requests where nobody was faster",
    },
    "runstate/removal.py: _existing": {
        f"return [uri for uri, pin in zip(uris, open_store(target).stats(uris){strict}) if pin is not None]": (
            "a store says of each file whether it is there"
        )
        for strict in ("", ", strict=False")
    },
    "runstate/written_handles.py: _streams": {
        "return [handle.stream]": "no moving step writes a handle of another sort"
    },
    "runstate/written_handles.py: _gone": {
        f"return [file for file, pin in zip(missed, pins{strict}) if pin is None or pin.size != files[file]]": (
            "there is one answer for each file that was asked for"
        )
        for strict in ("", ", strict=False")
    },
    "runstate/states.py: refuse_unpublished": {"pass: return": _LOOKED_AT_BEFORE},
}
"""By `file: function`, the file's name from `rescale` on; then by `Mutant.change`."""


def key_of(mutant: Mutant) -> str:
    parts = mutant.path.parts
    return f"{'/'.join(parts[parts.index('rescale') + 1 :])}: {mutant.function}"


def reason(mutant: Mutant) -> str:
    """Empty, if there is none."""
    return ACCEPTED.get(key_of(mutant), {}).get(mutant.change, "")
