"""The two sides of a run: the store of the source, and the store of the target.

Without further settings, both are the store that the AWS variables name. A side has an S3 store of its own (another
account, region or endpoint) if there are variables with its prefix, such as RESCALE_SOURCE_AWS_PROFILE or
RESCALE_TARGET_AWS_ENDPOINT_URL. Then only a few AWS variables without a prefix apply to it: `_SHARED_VARIABLES`,
and, depending on its own variables, `_ACCESS_VARIABLES`, `_VARIABLES_BESIDE_PROFILES` or no more.

A location does not tell in which store it is: both stores may have buckets with the same name. So a process declares
its targets, for itself and its child processes. Locations in a target, or in `<target>.rescale` beside it, are on the
target's side. All others are on the source's side. A process that has declared no targets works only with the target's
store.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum
from functools import lru_cache
from itertools import pairwise

from rescale.storage.files.document_folders import DOCUMENTS_SUFFIX, FOLDERS
from rescale.storage.locations import contains, is_s3
from rescale.text.errors import RequestError

TARGETS_VARIABLE = "RESCALE_TARGETS"
"""Variable with the declared targets, as a JSON list of locations."""

_AWS_PREFIX = "AWS_"
_PROFILE_VARIABLE = "AWS_PROFILE"

_SHARED_VARIABLES = ("AWS_CA_BUNDLE", "AWS_EC2_METADATA_DISABLED")
"""Variables that apply to both sides, unless a side has its own. A side unsets such a variable by an empty value."""

_VARIABLES_BESIDE_PROFILES = (
    *("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"),
    *("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"),
    *("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_CONTAINER_CREDENTIALS_FULL_URI"),
    *("AWS_CONTAINER_AUTHORIZATION_TOKEN", "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"),
)
"""Variables without a prefix that also apply to a side that sets AWS_PROFILE for itself.

They name the files with profiles, and give keys that a profile may refer to by its `credential_source`. Any other
profile takes precedence over such keys.
"""

_ACCESS_VARIABLES = (
    *_VARIABLES_BESIDE_PROFILES,
    *(_PROFILE_VARIABLE, "AWS_DEFAULT_PROFILE", "AWS_ROLE_ARN", "AWS_ROLE_SESSION_NAME", "AWS_WEB_IDENTITY_TOKEN_FILE"),
)
"""Variables that give access. Without a prefix, they also apply to a side whose own variables give no access, for
example only a region.
"""


class StoreSide(StrEnum):
    """A side of a run; the value is part of the prefix of its variables."""

    SOURCE = "SOURCE"
    TARGET = "TARGET"

    @property
    def prefix(self) -> str:
        """Prefix of the variables of this side, such as `RESCALE_SOURCE_`."""
        return f"RESCALE_{self.value}_"


_ENVIRONMENT_LOCK = threading.Lock()

_BUCKET_END = 3
"""Number of components of `s3://bucket`, split at slashes."""

_SIDE_PREFIXES = tuple(side.prefix + _AWS_PREFIX for side in StoreSide)


def side_of(uri: str) -> StoreSide:
    """Return TARGET for a normalised location in or beside a declared target, or if none is declared; else SOURCE."""
    declared_targets = os.environ.get(TARGETS_VARIABLE)
    if declared_targets is None or any(
        contains(root, uri) or contains(root + DOCUMENTS_SUFFIX, uri) for root in _roots(declared_targets)
    ):
        return StoreSide.TARGET
    return StoreSide.SOURCE


def is_one_store(uri: str, other: str) -> bool:
    """Tell whether two normalised locations are in one store, which may be able to copy between them."""
    if not is_s3(uri) or not is_s3(other):
        return is_s3(uri) is is_s3(other)
    return side_of(uri) is side_of(other) or not has_two_stores()


def has_side_variables() -> bool:
    """Tell whether any side has variables of its own."""
    return any(has_own_variables(side, os.environ) for side in StoreSide)


def has_two_stores() -> bool:
    """Tell whether the source's S3 store is configured otherwise than the target's."""
    if not has_side_variables():
        return False
    variables = process_environment()
    return variables_of(StoreSide.SOURCE, variables) != variables_of(StoreSide.TARGET, variables)


def variables_of(side: StoreSide, variables: Mapping[str, str]) -> dict[str, str]:
    """Return an environment for the store of a side: in it, the AWS variables without a prefix configure this store."""
    unprefixed_variables = {name: value for name, value in variables.items() if not name.startswith(_SIDE_PREFIXES)}
    own_variables = _own_variables(side, variables)
    if not own_variables:
        return unprefixed_variables
    access_variables = (
        _VARIABLES_BESIDE_PROFILES
        if own_variables.get(_PROFILE_VARIABLE)
        else ()
        if own_variables.keys() & {*_ACCESS_VARIABLES}
        else _ACCESS_VARIABLES
    )
    kept_names = (*_SHARED_VARIABLES, *access_variables)
    merged_variables = {
        name: value
        for name, value in unprefixed_variables.items()
        if not name.startswith(_AWS_PREFIX) or name in kept_names
    } | own_variables
    return {name: value for name, value in merged_variables.items() if value or name not in own_variables}


def process_environment() -> dict[str, str]:
    """Return the environment of this process. Waits while `aws_variables` has replaced a part of it."""
    with _ENVIRONMENT_LOCK:
        return dict(os.environ)


@contextmanager
def aws_variables(variables: Mapping[str, str]) -> Iterator[None]:
    """Replace the AWS variables of this process for the block, because botocore reads only the environment."""
    aws_only = {name: value for name, value in variables.items() if name.startswith(_AWS_PREFIX)}
    with _ENVIRONMENT_LOCK:
        variables_before = {name: value for name, value in os.environ.items() if name.startswith(_AWS_PREFIX)}
        try:
            _replace_environment(variables_before, aws_only)
            yield
        finally:
            _replace_environment(aws_only, variables_before)


def has_own_variables(side: StoreSide, environment: Mapping[str, str]) -> bool:
    return bool(_own_variables(side, environment))


def profile_of(side: StoreSide, environment: Mapping[str, str]) -> str | None:
    """Return the AWS profile that a side's own variables name."""
    return _own_variables(side, environment).get(_PROFILE_VARIABLE) or None


def declare_targets(targets: Iterable[str]) -> None:
    """Declare the targets of this process and its children. For a location beside a target, the target is declared."""
    os.environ[TARGETS_VARIABLE] = json.dumps(sorted({target_of(target) for target in targets}))


def configure_side(side: StoreSide, variables: Mapping[str, str]) -> None:
    """Configure the store of a side in this process and its children, by these AWS variables alone."""
    for name in _own_variables(side, os.environ):
        del os.environ[side.prefix + name]
    os.environ.update({side.prefix + name: value for name, value in variables.items()})


def side_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables with the targets and each side's profile, for other machines; none is a secret."""
    names = (TARGETS_VARIABLE, *(side.prefix + _PROFILE_VARIABLE for side in StoreSide))
    return {name: environment[name] for name in names if name in environment}


def refuse_same_place(source: str, target: str) -> None:
    """Raise `RequestError` if source and target are in two stores, but one location is, or lies in, the other."""
    are_nested = contains(target, source) or contains(source, target)
    if are_nested and is_s3(source) and is_s3(target) and has_two_stores():
        raise RequestError(
            "source and target are in two stores, but by their names one is the other, or lies in it",
            path=source,
            expected="a target whose name is neither that of the source, nor of a directory in it or around it",
            found=f"the target {target}",
            advice="give the target another name",
        )


def _own_variables(side: StoreSide, environment: Mapping[str, str]) -> dict[str, str]:
    prefix = side.prefix + _AWS_PREFIX
    return {name.removeprefix(side.prefix): value for name, value in environment.items() if name.startswith(prefix)}


def _replace_environment(old_variables: Mapping[str, str], new_variables: Mapping[str, str]) -> None:
    for name in old_variables.keys() - new_variables.keys():
        os.environ.pop(name, None)
    os.environ.update({name: value for name, value in new_variables.items() if old_variables.get(name) != value})


def target_of(location: str) -> str:
    """Return the target whose directory of documents contains a location, such as a round; else the location itself.

    `DOCUMENTS_SUFFIX` proves nothing: the name of a bucket, or of a directory around the target, may also end with it.
    """
    components = location.split("/")
    for end, (component, below) in enumerate(pairwise(components), 1):
        is_bucket = end == _BUCKET_END and is_s3(location)
        if component.endswith(DOCUMENTS_SUFFIX) and not is_bucket and (below in FOLDERS or below.endswith(".json")):
            return "/".join(components[:end]).removesuffix(DOCUMENTS_SUFFIX)
    return location


@lru_cache(maxsize=8)
def _roots(targets_json: str) -> tuple[str, ...]:
    return tuple(json.loads(targets_json))
