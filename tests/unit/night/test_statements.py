"""How verdicts are read from status documents and headlines."""

import pytest

from tests.night.statements import UNKNOWN_WORD, word_in_status, word_in_text


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("All 45 watches are within 1 s.", "good"),
        ("pods is within 1 s.", "good"),
        ("No watch is late. (4 within 1 s, 41 idle)", "good"),
        ("All 3 watches are idle (proven by audits).", "good"),
        ("configmaps: late since 03:14; pods: no events delivered since 03:15", "stalled"),
        ("configmaps: late since 03:14", "late"),
        ("15 of 45 watches cannot be kept open since 03:14", "down"),
        ("No watch is proven late, but pods cannot be judged.", "undecided"),
        ("Cannot tell: no watch has had enough events lately.", "no_data"),
        ("Cannot tell: the clock has not ticked since 03:14.", "clock_stopped"),
        ("Cannot tell yet: not every watch has been opened, or a clock does not tick.", "starting"),
        ("Cannot tell: paused by the configuration.", "paused"),
        ("A sentence that nobody knows.", UNKNOWN_WORD),
    ],
)
def test_headline_states_its_verdict(text: str, word: str) -> None:
    assert word_in_text(text) == word


def test_word_of_the_status_is_preferred_to_its_text() -> None:
    verdict = {"level": "bad", "text": "pods: late since 03:14"}
    assert word_in_status({"verdict": verdict | {"verdict": "cause"}}) == ("cause", verdict["text"])
    assert word_in_status({"verdict": verdict}) == ("late", verdict["text"])
    assert word_in_status({"verdict": None}) == ("starting", "")
