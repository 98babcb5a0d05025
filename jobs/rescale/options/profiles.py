"""`--source-profile` and `--target-profile`: AWS profiles for a source and a target that are in different stores."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from itertools import product

from rescale.storage.locations import is_s3, normalise
from rescale.storage.sides import StoreSide, configure_side, declare_targets, has_side_variables, refuse_same_place
from rescale.storage.store import forget_stores
from rescale.text.errors import RequestError

_HELP = {
    StoreSide.SOURCE: "AWS profile for the source, if it is in another S3 store than the target, in another account or "
    "in another region (default: the AWS variables)",
    StoreSide.TARGET: "AWS profile for the target and all that is written beside it (default: the AWS variables)",
}


def add_profiles(
    parser: argparse.ArgumentParser, source_attribute: str = "", target_attributes: Sequence[str] = ()
) -> None:
    """Add `--source-profile` if a command has a source, and `--target-profile` if it has a target.

    `source_attribute` and `target_attributes` are names of attributes in argparse's namespace that hold the URI of the
    source and of targets. If an attribute is in both, its URI counts as a target unless `--source-profile` is given.
    """
    for side, attributes in ((StoreSide.SOURCE, source_attribute), (StoreSide.TARGET, target_attributes)):
        if attributes:
            parser.add_argument(_profile_flag(side), metavar="PROFILE", help=_HELP[side])
    parser.set_defaults(source_attribute=source_attribute, target_attributes=tuple(target_attributes))


def use_profiles(arguments: argparse.Namespace) -> None:
    """Use the given profiles in this process and its children, and declare which URIs of the command are targets.

    Raises `RequestError` for a profile that does not exist, and for a profile of a side (source or target) without a
    URI in S3.
    """
    profile_by_side = {
        side: name for side in StoreSide if (name := vars(arguments).get(f"{side.value.lower()}_profile"))
    }
    for side, profile in profile_by_side.items():
        configure_side(side, {"AWS_PROFILE": profile})
    if "target_attributes" not in arguments or not has_side_variables():
        return
    forget_stores()
    source_attribute = arguments.source_attribute
    target_attributes = [
        attribute
        for attribute in arguments.target_attributes
        if attribute != source_attribute or StoreSide.SOURCE not in profile_by_side
    ]
    places_by_side = {
        StoreSide.SOURCE: _normalised_places(
            arguments, [] if source_attribute in target_attributes else [source_attribute]
        ),
        StoreSide.TARGET: _normalised_places(arguments, target_attributes),
    }
    if any(places_by_side.values()):  # without a URI, targets declared by the parent process stay
        use_targets(places_by_side[StoreSide.TARGET])
        for source, target in product(places_by_side[StoreSide.SOURCE], places_by_side[StoreSide.TARGET]):
            refuse_same_place(source.removesuffix("/_metadata"), target)
    for side, profile in profile_by_side.items():
        from rescale.storage.s3.s3_client import refuse_unknown_profile  # imports boto3, which is slow

        if places_by_side[side] and not any(map(is_s3, places_by_side[side])):
            raise RequestError(
                "this place is not in S3, and an AWS profile applies only to S3",
                path=places_by_side[side][0],
                found=f"{_profile_flag(side)} {profile}",
                advice=f"leave {_profile_flag(side)} out",
            )
        refuse_unknown_profile(side)


def use_targets(targets: Iterable[str]) -> None:
    """Declare the targets (normalised URIs) of this process, if source and target are in different stores."""
    if has_side_variables():
        declare_targets(targets)


def _normalised_places(arguments: argparse.Namespace, attributes: Iterable[str]) -> list[str]:
    places = [vars(arguments).get(attribute) for attribute in attributes]
    return [normalise(place) for place in places if place]


def _profile_flag(side: StoreSide) -> str:
    return f"--{side.value.lower()}-profile"
