"""Functions of the user's own that hash keys: only those of modules that whoever runs Airflow allows.

Who may fill in a form may not choose what code runs, so the names of the modules are part of the environment.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from rescale.errors import RequestError

ALLOWED_MODULES = "RESCALE_KEY_HASH_MODULES"
"""Variable with the names of modules, separated by commas; without it there are none."""


def check_key_functions(key_hashes: Iterable[str]) -> None:
    """`RequestError` for a `module:function` of a module that is not allowed; formulas have no module."""
    allowed = [module.strip() for module in os.environ.get(ALLOWED_MODULES, "").split(",") if module.strip()]
    for name in key_hashes:
        module, colon, _ = name.partition(":")
        if colon and module not in allowed:
            raise RequestError(
                f"the module {module!r} may not be used to hash keys",
                expected=f"one of {', '.join(allowed)}" if allowed else "a formula; no module is allowed",
                found=name,
                advice=f"whoever runs Airflow can allow it: the variable {ALLOWED_MODULES} of the workers",
            )
