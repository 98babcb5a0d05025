"""Users' own functions that hash keys, limited to modules that the operator of Airflow allows.

A user of the form must not choose which code runs, so the allowed modules are named in the environment.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from rescale.text.errors import RequestError

ALLOWED_MODULES = "RESCALE_KEY_HASH_MODULES"
"""Variable with the names of the allowed modules, separated by commas; without it no module is allowed."""


def check_key_functions(key_hashes: Iterable[str]) -> None:
    """Raise `RequestError` for a `module:function` of a module that is not allowed. Formulas have no module."""
    allowed = [module.strip() for module in os.environ.get(ALLOWED_MODULES, "").split(",") if module.strip()]
    for name in key_hashes:
        module, colon, _ = name.partition(":")
        if colon and module not in allowed:
            raise RequestError(
                f"the module {module!r} is not allowed for key hashes",
                expected=f"one of {', '.join(allowed)}" if allowed else "a formula; no module is allowed",
                found=name,
                advice=f"the operator of Airflow can allow it, by the variable {ALLOWED_MODULES} of the workers",
            )
