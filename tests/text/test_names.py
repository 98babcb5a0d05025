"""Names and addresses from outside, in texts: shortened, escaped, quoted, and without secrets."""

from __future__ import annotations

import shlex
import signal
import subprocess

import pytest

from rescale.text.errors import InternalError, SnapshotError, StoreError, as_rescale_error
from rescale.text.names import did_you_mean, first_of, printable, printable_lines, quoted, signal_name, without_secrets

EVIL = "\x1b[2J\x9b31mred\u202e\rgone\nerror: forged\x07"


@pytest.mark.parametrize(
    ("name_count", "shortened"),
    [(0, ""), (1, "0"), (3, "0, 1, 2"), (4, "0, 1, 2 and 1 more"), (2003, "0, 1, 2 and 2,000 more")],
)
def test_long_list_is_shortened_to_its_first_names(name_count: int, shortened: str) -> None:
    assert first_of([str(name) for name in range(name_count)], 3) == shortened


@pytest.mark.parametrize(
    ("signal_number", "name"),
    [(signal.SIGKILL, "SIGKILL"), (signal.SIGRTMIN, "SIGRTMIN"), (signal.SIGRTMIN + 1, "signal 35")],
)
def test_every_signal_has_a_name(signal_number: int, name: str) -> None:
    assert signal_name(signal_number) == name


def test_control_characters_are_escaped() -> None:
    assert printable("visits → ∑") == "visits → ∑"
    assert printable(EVIL) == r"\x1b[2J\x9b31mred\u202e\rgone\nerror: forged\x07"
    assert printable_lines(f"a\n{EVIL}").count("\n") == 2


@pytest.mark.parametrize("word", ["a b", "it's \\", "visits", "\u3000", f"it's \\ {EVIL} ü \U000e0001", ""])
def test_quoted_word_is_unchanged_by_a_shell(word: str) -> None:
    quoted_word = quoted(word)
    assert quoted_word.isprintable()
    assert (quoted_word == shlex.quote(word)) is word.isprintable()
    command = ["bash", "-c", f"printf %s {quoted_word}"]
    assert subprocess.run(command, env={"LC_ALL": "C.UTF-8"}, capture_output=True, check=True).stdout == word.encode()


def test_control_characters_in_an_error_are_escaped() -> None:
    error = SnapshotError(f"no state {EVIL}", operator=EVIL, state=EVIL, path=EVIL, found=EVIL, expected=EVIL)
    lines = str(error).split("\n")
    assert len(lines) == 6
    assert all(line.isprintable() for line in lines)
    assert error.document().operator == EVIL, "data is not escaped"
    fault_lines = str(InternalError.from_message(EVIL, f"Traceback\n  {EVIL}")).split("\n")
    assert all(line.isprintable() for line in fault_lines)
    assert "    Traceback" in fault_lines


@pytest.mark.parametrize(
    ("word", "question"),
    [
        ("visit", "did you mean 'visits'?"),
        ("VISITS", "did you mean 'visits'?"),
        ("revenu", "did you mean 'revenue'?"),
        ("sink", None),
        ("count", "did you mean 'counts-2' or 'counts-1'?"),
    ],
)
def test_similar_name_is_suggested(word: str, question: str | None) -> None:
    assert did_you_mean(word, ["visits", "revenue", "counts-1", "counts-2"]) == question


@pytest.mark.parametrize(
    ("text", "text_without_secrets"),
    [
        ('no answer from "http://me:pa@ss@host:9000/bucket/key"', 'no answer from "http://…@host:9000/bucket/key"'),
        ("HTTPS://me:pa/ss@host", "HTTPS://…@host"),
        ("postgresql+psycopg2://me:pass@host/db and http://ok", "postgresql+psycopg2://…@host/db and http://ok"),
        ("s3a://KEY:secret@bucket/key", "s3a://…@bucket/key"),
        ("s3a://KEY:sec/ret@bucket/key, s3://b/k", "s3a://…@bucket/key, s3://b/k"),
        ("s3://arn:aws:s3:eu-west-1:123456789012:accesspoint:mine/a@b", None),
        ("https://b.s3.amazonaws.com/k?X-Amz-Signature=1a2b&b=c, or not", "https://b.s3.amazonaws.com/k?… or not"),
        ("s3://bucket/a@b?c file:///a@b?c /a?b@c me@example.org", None),
    ],
)
def test_secrets_in_an_address_are_hidden(text: str, text_without_secrets: str | None) -> None:
    assert without_secrets(text) == (text if text_without_secrets is None else text_without_secrets)


def test_secrets_of_addresses_in_errors_are_hidden() -> None:
    address = "http://me:planted@host/key"
    error = StoreError(address, path=address, found=address, expected=[address])
    fault = InternalError.from_exception(ValueError(address))
    for each_error in (
        error,
        fault,
        as_rescale_error(ConnectionError(address)),
        InternalError.of_document(fault.document()),
    ):
        assert "planted" not in f"{each_error} {each_error.document()} {each_error.args}"
        assert "http://…@host/key" in str(each_error)
