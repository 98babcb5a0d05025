"""Number of random examples that Hypothesis tries: fewer in the quick tests, all of them under `-m slow`."""

from __future__ import annotations

from hypothesis import settings

QUICK, ALL = "quick", "all-examples"
"""Names of the profiles."""

_SHARE = 0.3
_LEAST = 10


def register_profiles() -> None:
    """Register both profiles, and load the one with few examples (`--hypothesis-profile` chooses another).

    Examples have no deadline: an example may take long on a busy machine, or while numba compiles code.
    """
    settings.register_profile(ALL, deadline=None)
    settings.register_profile(
        QUICK, settings.get_profile(ALL), max_examples=_few(settings.get_profile(ALL).max_examples)
    )
    settings.load_profile(QUICK)


def examples(number: int) -> int:
    """Return `number`, or fewer if the profile of the quick tests is loaded while a test is defined."""
    return _few(number) if settings.get_current_profile_name() == QUICK else number


def _few(number: int) -> int:
    return max(_LEAST, round(number * _SHARE))
