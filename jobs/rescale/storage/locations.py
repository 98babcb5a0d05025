"""Locations as text: an absolute local path, or `s3://bucket/key`, where an access point may stand for the bucket.

Flink and people write the same location in several ways (`file:///a`, `s3a://b/k`, trailing slashes, `..`), so
locations are normalised before they are compared. As in Flink's `Path`, slashes in a row count as one, and percent
signs are not decoded. Only `resolve_links` follows symbolic links.
"""

from __future__ import annotations

import os
import posixpath
import re
from pathlib import Path

from rescale.text.errors import RequestError

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(.*)", re.DOTALL)
_LOCAL_PATH = re.compile(r"(?://(?:localhost)?(?=/)|(?!//))(/.*)", re.DOTALL)
_S3_SCHEMES = ("s3", "s3a", "s3p")
_S3_PREFIX = "s3://"
_ARN = "arn:"
_ACCESS_POINT = re.compile(
    r"(arn:[a-z-]+:s3(?::[a-z0-9-]*:\d+:|-outposts:[a-z0-9-]+:\d+:outpost[:/][\w-]+[:/])accesspoint[:/][\w.-]+)"
    r"(?:/(.*))?",
    re.DOTALL | re.ASCII,
)
"""ARN of an access point, which boto3 accepts as a bucket, and the key after it. An ARN may have `:` or `/` before the
access point's name."""

_COPY_ADVICE = "copy the whole savepoint to such a location, and Rescale finds its files there"
_NO_KEYS_ADVICE = "name a bucket without user or keys: credentials are not part of its name"
_EXPECTED_FORMS = "a local path, file:/path, or s3://bucket/key (s3a:// and s3p:// too)"
_ADVICE_BY_SCHEME = {
    "file": f"name the whole path; for a file of another machine: {_COPY_ADVICE}",
    **dict.fromkeys(
        ("http", "https"),
        "write a place in S3 as s3://bucket/key; save an answer of Flink's REST API to a file: curl URL > job.json",
    ),
}


def normalise(text: str) -> str:
    """Return the normalised form of a local path, a `file:` URI or an `s3://`, `s3a://`, `s3p://` URI.

    Raises `RequestError` for other texts.
    """
    if not _is_encodable(text):
        raise RequestError("this location is not valid UTF-8", path=ascii(text), advice="rename the file or directory")
    if text == "~" or text.startswith("~/"):  # a shell does not expand `--target=~/x`
        raise RequestError(
            "the path starts with ~, which only a shell replaces by your home directory",
            path=text,
            expected="a path that does not start with ~",
            advice=f"write the path of your home directory; or, for a directory with this name: ./{text}",
        )
    if text == "-":
        raise RequestError(
            "the location is -, by which other programs mean standard input or output",
            path=text,
            expected=_EXPECTED_FORMS,
            advice="name a file or directory; one with this name is ./-",
        )
    if not text:
        raise RequestError(
            "the location is empty",
            expected=_EXPECTED_FORMS,
            advice="give one; if a variable should hold it, check that the variable is set",
        )
    match = _SCHEME.fullmatch(text)
    if match is None:
        return _clean_path(text if text.startswith("/") else f"{_working_directory(text)}/{text}")
    scheme, after_scheme = match[1].lower(), match[2]
    if scheme == "file" and (local := _LOCAL_PATH.fullmatch(after_scheme)):
        return _clean_path(local[1])
    if scheme in _S3_SCHEMES and after_scheme.startswith("//"):
        if after_scheme.startswith(f"//{_ARN}"):
            return _access_point(text, after_scheme[2:])
        bucket, _, key = after_scheme[2:].partition("/")
        if bucket and not {"@", ":"} & {
            *bucket
        }:  # Hadoop once took access keys in URIs; in a plan, everybody could read them
            return _s3_uri(bucket, key)
    raise RequestError(
        f"not a location that Rescale can read: {text!r}",
        expected=_EXPECTED_FORMS,
        found=text,
        advice=_advice(scheme, after_scheme),
    )


def _advice(scheme: str, after_scheme: str) -> str:
    """Return advice for a location that is not readable; it does not repeat the location, which may hold a secret."""
    if scheme in _S3_SCHEMES:
        has_bucket = after_scheme.startswith("//") and after_scheme[2:3] not in ("", "/")
        return _NO_KEYS_ADVICE if has_bucket else "name a bucket: s3://bucket/key"
    if scheme not in _ADVICE_BY_SCHEME and not after_scheme.startswith("/"):
        return "for a local file or directory with a colon in its name, write ./ in front of the name"
    return _ADVICE_BY_SCHEME.get(scheme, _COPY_ADVICE)


def join(directory: str, relative: str) -> str:
    """Return the location of `relative`, which may contain `..`, in `directory`."""
    if is_s3(directory):
        bucket, key = split_s3(directory)
        return _s3_uri(bucket, f"{key}/{relative}")
    return _clean_path(f"{directory}/{relative}")


def parent(uri: str) -> str:
    """Return the directory that a location is in; the root is its own parent."""
    return join(uri, "..")


def name(uri: str) -> str:
    return uri.rpartition("/")[2]


def is_s3(uri: str) -> bool:
    """Tell whether a normalised location is in S3."""
    return uri.startswith(_S3_PREFIX)


def split_s3(uri: str) -> tuple[str, str]:
    """Return (bucket, key); the bucket may be the ARN of an access point."""
    path = uri.removeprefix(_S3_PREFIX)
    if (match := _ACCESS_POINT.fullmatch(path)) is not None:
        return match[1], match[2] or ""
    bucket, _, key = path.partition("/")
    return bucket, key


def contains(directory: str, uri: str) -> bool:
    """Tell whether `uri` is `directory` or lies below it, by whole path components."""
    return uri == directory or uri.startswith(directory.rstrip("/") + "/")


def resolve_links(uri: str) -> str:
    """Return the location with symbolic links resolved, in order to compare it with others."""
    return uri if is_s3(uri) else os.path.realpath(uri)


def _working_directory(text: str) -> str:
    try:
        return Path.cwd().as_posix()
    except OSError as error:
        raise RequestError(
            f"a relative path cannot be used, because the working directory is not known: {error.strerror}",
            path=text,
            expected="an absolute path",
            advice="change to a directory that exists, or name the whole path",
        ) from None


def _is_encodable(name: str) -> bool:
    """Tell whether UTF-8 can encode a name.

    It cannot encode the surrogates by which Python represents the bytes of names that are not UTF-8.
    """
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _access_point(text: str, path: str) -> str:
    """Return the normalised location for the ARN of an access point and a key after it.

    Raises `RequestError` if the ARN is spelt otherwise than AWS prints it.
    """
    match = _ACCESS_POINT.fullmatch(path)
    if match is None:
        raise RequestError(
            f"not the ARN of an access point: {text!r}",
            expected="s3://arn:aws:s3:REGION:ACCOUNT:accesspoint/NAME/key",
            found=text,
            advice="name the access point as AWS prints it, with a / between its name and the key; for a bucket, "
            "write s3://bucket/key",
        )
    fields = match[1].split(":", 5)
    return _s3_uri(":".join((*fields[:5], fields[5].replace(":", "/"))), match[2] or "")


def _s3_uri(bucket: str, key: str) -> str:
    return f"{_S3_PREFIX}{bucket}{_clean_path(f'/{key}')}".rstrip("/")


def _clean_path(path: str) -> str:
    """Return an absolute path without `.`, `..` or repeated slashes; `normpath` alone would keep two leading ones."""
    return "/" + posixpath.normpath(path).lstrip("/")
