# SPDX-License-Identifier: Apache-2.0
"""Options: their flags, their texts in configuration files, and how several sources of values are joined."""

from __future__ import annotations

import argparse
from typing import Any

import pytest

from circlekit.errors import ModelError
from circlekit.toolchain.option import (
    DriverError,
    Kind,
    Option,
    UsageFault,
    merged,
    naming,
    one_line,
)

TEXT = Option("model-name", short="-n", choices=("a", "b"))
NUMBER = Option("number", parse=float)
SWITCH = Option("switch", kind=Kind.SWITCH)
REPEATED = Option("scale", kind=Kind.REPEATED, parse=float)
KIND = Option("kind", constants={"v1": "50% first", "v2": "second"})
HIDDEN = Option("hidden", "50% hidden", is_shown=False)
SHOWN = Option("shown", "50% shown")
OPTIONS = (TEXT, NUMBER, SWITCH, REPEATED, KIND, HIDDEN, SHOWN)


def parsed(*words: str) -> dict[str, Any]:
    parser = argparse.ArgumentParser(exit_on_error=False)
    for option in OPTIONS:
        option.add_to(parser)
    return vars(parser.parse_args(words))


@pytest.mark.parametrize(
    ("words", "values"),
    [
        ("", {}),
        ("-n a", {"model_name": "a"}),
        ("--model-name b", {"model_name": "b"}),
        ("--number 5 --switch", {"number": "5", "switch": True}),
        ("--scale 1 2 --scale 3", {"scale": ["1", "2", "3"]}),
        ("--v2", {"kind": "v2"}),
        ("--kind v1 --hidden x", {"kind": "v1", "hidden": "x"}),
        ("--kind v3", {"kind": "v3"}),
    ],
)
@pytest.mark.parametrize("is_joined", [False, True])
def test_flags_and_words_correspond(words: str, values: dict[str, Any], is_joined: bool) -> None:
    assert parsed(*words.split()) == values
    again = [w for option in OPTIONS for w in option.words(values.get(option.key), is_joined)]
    assert parsed(*again) == values


def test_texts_that_begin_with_a_dash_need_the_joined_form() -> None:
    values = {"shown": "-x", "scale": ["-inf", "-1"], "number": "-2"}
    words = [word for option in OPTIONS for word in option.words(values.get(option.key), is_joined=True)]
    assert words == ["--number=-2", "--scale=-inf", "--scale=-1", "--shown=-x"]
    assert parsed(*words) == values
    with pytest.raises(argparse.ArgumentError, match="expected one argument"):
        parsed(*SHOWN.words("-x"))


@pytest.mark.parametrize("flag", ["--number", "--scale"])
def test_numbers_are_checked(flag: str) -> None:
    with pytest.raises(argparse.ArgumentError, match="invalid float value: 'large'"):
        parsed(flag, "large")


def test_choices_of_a_flag() -> None:
    with pytest.raises(argparse.ArgumentError, match="invalid choice: 'c'"):
        parsed("-n", "c")


def test_the_help_leaves_out_hidden_options(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parsed("--help")
    page = capsys.readouterr().out
    assert "50% shown" in page
    assert "50% first" in page
    assert "--v1" in page
    assert "MODEL_NAME" in page or "{a,b}" in page
    assert not any(text in page for text in ("hidden", "--kind"))


@pytest.mark.parametrize(
    ("option", "text", "value"),
    [
        (TEXT, "", None), (TEXT, "a", "a"), (NUMBER, "1.5", "1.5"), (SHOWN, "any", "any"),
        (REPEATED, "1.5", ["1.5"]), (SWITCH, "", None), (SWITCH, "Yes", True), (SWITCH, "OFF", False),
        (SWITCH, "1", True), (SWITCH, "0", False),
    ],
)  # fmt: skip
def test_texts_of_configuration_files(option: Option, text: str, value: object) -> None:
    assert option.read(text) == value


@pytest.mark.parametrize(
    ("option", "text", "message"),
    [
        (TEXT, "c", "expected one of a, b, got 'c'"),
        (NUMBER, "large", "could not convert"),
        (REPEATED, "large", "could not convert"),
        (SWITCH, "2", "expected True or False, got '2'"),
    ],
)
def test_texts_that_are_not_accepted(option: Option, text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        option.read(text)


@pytest.mark.parametrize("option", OPTIONS)
@pytest.mark.parametrize("value", [None, False])
def test_no_value_has_no_words(option: Option, value: object) -> None:
    assert option.words(value) == []


def test_the_first_level_with_a_value_counts() -> None:
    options = [Option("a", default="0"), Option("b"), SWITCH, REPEATED]
    assert merged(options) == {"a": "0"}
    assert merged(options, {"a": None, "switch": False}, {"a": "1", "b": "", "switch": True}, {"a": "2"}) == {
        "a": "1", "b": "", "switch": False,
    }  # fmt: skip
    assert merged(options, {"scale": ["1"]}, {}, {"scale": ["2", "3"]})["scale"] == ["1", "2", "3"]


# -- errors --------------------------------------------------------------------------------------


def test_an_error_in_one_line() -> None:
    assert one_line(ModelError("odd\nmore")) == "odd"
    # of each text only the first line counts, and only if it begins with at, in or for
    places = ("at net.circle > main\nat the second line", "  in section x", "pass y", "for z")
    assert one_line(ModelError("odd", *places)) == "odd (at net.circle > main, in section x, for z)"


@pytest.mark.parametrize("error", [UsageFault("odd"), DriverError("ValueError", "odd")])
def test_errors_name_the_file_once(error: UsageFault | DriverError) -> None:
    for _ in range(2):
        with pytest.raises(type(error)), naming("a.cfg", "in section [x] of a.cfg"):
            raise error
        assert error.message == "odd (in section [x] of a.cfg)"
