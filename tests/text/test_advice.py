"""The text of an advice is worded for the command line; its parts are kept, so that a form can word them anew."""

from __future__ import annotations

import pickle

import msgspec
import pytest

from rescale.text.advice import SAME_COMMAND, About, Advice, Mention, command, joined, mention, setting
from rescale.text.error_document import ErrorDocument
from rescale.text.errors import RequestError, RescaleError, in_option

ADVICE = Advice("ask for ", mention("max-parallelism", 256), "; or ", command("discard", "/x"))


def test_advice_as_a_string_is_worded_for_the_command_line() -> None:
    assert ADVICE == "ask for --max-parallelism 256; or rescale discard /x"
    assert Advice(mention("rename", "a b=c")) == "--rename 'a b=c'"
    assert Advice(setting("s3-region", "set AWS_REGION"), ", then ", SAME_COMMAND).endswith(SAME_COMMAND.text)
    assert not Advice()


def test_every_mention_is_worded_by_the_surface() -> None:
    def word_in_brackets(part: Mention) -> str:
        return f"<{part.name}:{part.value}>"

    assert ADVICE.worded(word_in_brackets) == "ask for <max-parallelism:256>; or <discard:/x>"
    assert Advice(ADVICE, "!").worded(word_in_brackets) == f"{ADVICE.worded(word_in_brackets)}!"
    assert joined(" ", [mention("drop", "a"), mention("drop", "b")]).worded(word_in_brackets) == "<drop:a> <drop:b>"


@pytest.mark.parametrize("advice", [ADVICE, Advice("plain"), "text"])
def test_advice_survives_json_and_pickle(advice: str) -> None:
    error = RequestError("it is wrong", advice=advice)
    document = msgspec.json.decode(msgspec.json.encode(error.document()), type=ErrorDocument)
    assert document.advice == str(advice)
    for restored_error in (RescaleError.of_document(document), pickle.loads(pickle.dumps(error))):
        assert restored_error.advice == advice
        assert getattr(restored_error.advice, "parts", None) == getattr(advice, "parts", None)


def test_mentions_have_their_kind() -> None:
    assert [part.about for part in ADVICE.parts if isinstance(part, Mention)] == [About.OPTION, About.COMMAND]


def test_an_error_names_the_option_that_it_refuses() -> None:
    with pytest.raises(RequestError) as caught, in_option("--rename"):
        raise RequestError("it is wrong")
    assert caught.value.option == "--rename"
    assert RescaleError.of_document(caught.value.document()).option == "--rename"
