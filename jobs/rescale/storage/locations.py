"""Where things lie, as text: an absolute local path, or `s3://bucket/key`.

Flink and people write the same place in several ways (`file:///a`, `s3a://b/k`, trailing slashes, `..`); one
spelling of each makes places comparable. As in Flink's `Path`, slashes in a row are one, and a percent sign is a
percent sign: nothing is decoded. Symbolic links are left alone; only `real` follows them.
"""

from __future__ import annotations

import os
import posixpath
import re
from pathlib import Path

from rescale.errors import RequestError

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(.*)", re.DOTALL)
_LOCAL_PATH = re.compile(r"(?://(?:localhost)?(?=/)|(?!//))(/.*)", re.DOTALL)
_S3_SCHEMES = ("s3", "s3a", "s3p")
_S3_PREFIX = "s3://"
_ELSEWHERE = "copy a savepoint that lies elsewhere, as a whole, to one of these: it can be moved"
_ADVICE = {
    "file": f"name the whole path; of another machine's: {_ELSEWHERE}",
    **dict.fromkeys(_S3_SCHEMES, "name a bucket, and no user: access to it is not part of its name"),
}


def normalise(text: str) -> str:
    """The one spelling of a local path, a `file:` URI or an `s3://`, `s3a://`, `s3p://` URI."""
    if not _is_text(text):
        raise RequestError("the name of a place is not UTF-8", path=ascii(text), advice="give it another name")
    if text == "~" or text.startswith("~/"):  # as in `--target=~/x`: a directory of that name would be a trap
        raise RequestError(
            "~ is your home directory for a shell alone, which has left it as it is",
            path=text,
            expected="a path without ~ at its beginning",
            advice=f"write your home directory out; or if there is a directory of that name: ./{text}",
        )
    match = _SCHEME.fullmatch(text)
    if match is None and text:
        return _clean(text if text.startswith("/") else f"{_working_directory(text)}/{text}")
    scheme, rest = (match[1].lower(), match[2]) if match else ("", "")
    if scheme == "file" and (local := _LOCAL_PATH.fullmatch(rest)):
        return _clean(local[1])
    if scheme in _S3_SCHEMES and rest.startswith("//"):
        bucket, _, key = rest[2:].partition("/")
        named = "@" not in bucket and (":" not in bucket or bucket.startswith("arn:"))
        if bucket and named:  # without keys, as Hadoop once took them: all who see the plan would see them
            return _s3(bucket, key)
    raise RequestError(
        f"not a place that can be read: {text!r}",
        expected="a local path, file:/path, or s3://bucket/key (s3a:// and s3p:// too)",
        found=text,
        advice=_ADVICE.get(scheme, _ELSEWHERE) if match else None,
    )


def join(directory: str, relative: str) -> str:
    """`relative` (which may hold `..`) inside `directory`."""
    if is_s3(directory):
        bucket, key = split_s3(directory)
        return _s3(bucket, f"{key}/{relative}")
    return _clean(f"{directory}/{relative}")


def parent(uri: str) -> str:
    return join(uri, "..")


def name(uri: str) -> str:
    return uri.rpartition("/")[2]


def is_s3(uri: str) -> bool:
    return uri.startswith(_S3_PREFIX)


def split_s3(uri: str) -> tuple[str, str]:
    """(bucket, key)."""
    bucket, _, key = uri.removeprefix(_S3_PREFIX).partition("/")
    return bucket, key


def contains(directory: str, uri: str) -> bool:
    """Whether `uri` is `directory` or lies below it, by whole path components."""
    return uri == directory or uri.startswith(directory.rstrip("/") + "/")


def real(uri: str) -> str:
    """The same place where no symbolic link is on the way, to see whether it lies in another one."""
    return uri if is_s3(uri) else os.path.realpath(uri)


def _working_directory(text: str) -> str:
    try:
        return Path.cwd().as_posix()
    except OSError as error:
        raise RequestError(
            f"a relative path says nothing here: the working directory cannot be told: {error.strerror}",
            path=text,
            expected="an absolute path",
            advice="go to a directory that is there, or name the whole path",
        ) from None


def _is_text(name: str) -> bool:
    """Whether it can be written down: Python stands in for bytes of file names that are not UTF-8."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _s3(bucket: str, key: str) -> str:
    return f"{_S3_PREFIX}{bucket}{_clean(f'/{key}')}".rstrip("/")


def _clean(path: str) -> str:
    """An absolute path without `.`, `..`, or slashes in a row (`normpath` alone would keep two leading ones)."""
    return "/" + posixpath.normpath(path).lstrip("/")
