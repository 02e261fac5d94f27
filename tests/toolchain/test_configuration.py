# SPDX-License-Identifier: Apache-2.0
"""Configuration files: INI and TOML with the same content, their sections, and what is wrong in them."""

from __future__ import annotations

from pathlib import Path

import pytest

from circlekit.toolchain.configuration import read_configuration, read_workflow_json, text_of
from circlekit.toolchain.option import DriverError, Kind, Option

pytestmark = pytest.mark.usefixtures("work")  # each test runs in a folder of its own

OPTIONS = (Option("a-b"), Option("fast", kind=Kind.SWITCH), Option("size", parse=int))
INI = "[one]\na-b=x ; comment\nfast=no\nsize=3\n[Environment]\nV=1\n[backend]\ntarget=rose\n"
TOML = '[one]\na_b = "x"\nfast = false\nsize = 3\n[Environment]\nV = 1\n[backend]\ntarget = "rose"\n'


def test_ini_and_toml_say_the_same() -> None:
    for name, text in (("a.cfg", INI), ("a.toml", TOML), ("a.TOML", TOML)):
        Path(name).write_text(text)
        configuration = read_configuration(name)
        assert configuration.values("one", OPTIONS) == {"a_b": "x", "fast": False, "size": "3"}
        assert configuration.environment == {"V": "1"}
        assert configuration.target == "rose"


def test_sections_that_a_file_may_lack() -> None:
    for text in ("[one]\n", "[one]\n[backend]\n", "[one]\n[backend]\ntarget=\n"):
        Path("a.cfg").write_text(text)
        configuration = read_configuration("a.cfg")
        assert (configuration.environment, configuration.target) == ({}, None)
        assert configuration.values("one", OPTIONS) == {}
    with pytest.raises(DriverError, match=r"must have 'oen' section: a.cfg; did you mean one") as caught:
        configuration.section("oen")
    assert caught.value.kind == "AssertionError"


def test_keys_of_default_belong_to_every_section() -> None:
    Path("a.cfg").write_text("[DEFAULT]\na=1\nb=2\n[one]\nb=3\n[two]\n")
    assert read_configuration("a.cfg").sections == {"one": {"a": "1", "b": "3"}, "two": {"a": "1", "b": "2"}}


def test_unknown_keys_of_default_are_ignored() -> None:
    Path("a.cfg").write_text("[DEFAULT]\nname=x\nsize=2\n[one]\na_b=%(name)s.circle\n")
    expected = {"a_b": "x.circle", "size": "2"}
    assert read_configuration("a.cfg").values("one", OPTIONS) == expected
    Path("a.cfg").write_text("[DEFAULT]\nname=x\n[one]\nsiez=1\n")
    with pytest.raises(DriverError, match="unrecognized: siez"):
        read_configuration("a.cfg").values("one", OPTIONS)


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        ("[one]\nsiez=1\nodd=2\n", "", "unrecognized: siez odd (in section [one] of a.cfg; did you mean"),
        ("[one]\nsize=large\n", "ValueError", "a.cfg: [one] size: invalid literal"),
        ("[one]\nfast=2\n", "ValueError", "a.cfg: [one] fast: expected True or False"),
    ],
)
def test_wrong_keys_and_values(text: str, kind: str, message: str) -> None:
    Path("a.cfg").write_text(text)
    with pytest.raises(DriverError) as caught:
        read_configuration("a.cfg").values("one", OPTIONS)
    assert caught.value.kind == kind
    assert message in caught.value.message
    if not kind:
        assert read_configuration("a.cfg").values("one", OPTIONS, is_open=True) == {}


@pytest.mark.parametrize(
    ("name", "content", "kind", "message"),
    [
        ("a.cfg", None, "FileNotFoundError", "Not found given configuration file: a.cfg: no such file"),
        (".", None, "FileNotFoundError", "Not found given configuration file: .: Is a directory"),
        (
            "~no-such-user/a",
            None,
            "FileNotFoundError",
            "Not found given configuration file: ~no-such-user/a: ",
        ),
        ("a\0", None, "FileNotFoundError", "Not found given configuration file: a\0: embedded null "),
        ("a.cfg", b"[one]\na=\xff\n", "UnicodeDecodeError", "a.cfg: expected text in UTF-8"),
        ("a.cfg", b"a=1\n", "MissingSectionHeaderError", "File contains no section headers."),
        ("a.cfg", b"[one]\na=%(b)s\n", "InterpolationMissingOptionError", "a.cfg: Bad value substitution"),
        ("a.toml", b"a = \n", "ParsingError", "a.toml: "),
        ("a.toml", b"[one]\na = 1" + b"1" * 5000, "ParsingError", "a.toml: "),
        ("a.toml", b"[one]\na = " + b"[" * 3000 + b"]" * 3000, "ParsingError", "a.toml: "),
        ("a.toml", b"[one]\na = " + b"[" * 400 + b"]" * 400, "ParsingError", "a.toml: "),
        (
            "a.toml",
            b"a = 1\n[one]\n",
            "ParsingError",
            "a.toml: expected only sections, such as [onecc], got a",
        ),
        ("a.toml", b"[[one]]\n", "ParsingError", "a.toml: expected only sections, such as [onecc], got one"),
        ("a.toml", b"[one]\n[one.b]\n", "ParsingError", "a.toml: [one] b: expected a text, a number"),
    ],
)
def test_files_that_cannot_be_read(name: str, content: bytes | None, kind: str, message: str) -> None:
    if content is not None:
        Path(name).write_bytes(content)
    with pytest.raises(DriverError) as caught:
        read_configuration(name)
    assert caught.value.kind == kind
    assert caught.value.message.startswith(message)
    assert "\n" not in caught.value.message


@pytest.mark.parametrize(
    ("value", "text"),
    [("a", "a"), (3, "3"), (True, "True"), (0, "0"), (False, "False"), (["a", 1, 2], "a,1,2"), ([], "")],
)
def test_texts_of_values(value: object, text: str) -> None:
    assert text_of(value, "here") == text


@pytest.mark.parametrize("value", [None, {}, {"a": 1}, ["a", None], ["a", [1, 2]]])
def test_values_without_a_text(value: object) -> None:
    with pytest.raises(DriverError, match=r"here: expected a text, a number, true or false, or a list"):
        text_of(value, "here")


def test_workflow_files_are_json() -> None:
    Path("a.json").write_text('\ufeff{"a": [1]}')
    assert read_workflow_json("a.json") == {"a": [1]}
    Path("b.json").write_text("{")
    with pytest.raises(DriverError, match=r"Invalid workflow file: b.json: "):
        read_workflow_json("b.json")
    with pytest.raises(DriverError, match=r"Not found given workflow file: c.json: no such file"):
        read_workflow_json("c.json")
