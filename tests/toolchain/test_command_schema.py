# SPDX-License-Identifier: Apache-2.0
"""Schema files of backends: which arguments they may describe, and the command lines that follow."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from circlekit.toolchain.command_schema import (
    Action,
    ArgumentParser,
    DriverName,
    NormalOption,
    TargetOption,
    load_schema,
)
from circlekit.toolchain.option import DriverError

FAULTS: list[tuple[list[str], dict[str, Any], str | None]] = [
    (["-a"], {}, '"action" keyword argument is required: -a'),
    (["-a"], {"action": str}, "Invalid action: -a"),
    ([], {"action": NormalOption}, "Invalid option name: "),
    (["tool", "other"], {"action": DriverName}, "onecc doesn't support multiple driver name: tool, other"),
    (["tool"], {"action": DriverName}, None),
    (["-a"], {"action": TargetOption, "dtype": bool}, "Only normal option can be boolean type: -a"),
    (["tool"], {"action": DriverName, "dtype": bool}, "Only normal option can be boolean type: tool"),
    (["-a"], {"action": NormalOption, "dtype": bool}, None),
    (["a"], {"action": NormalOption, "dtype": bool}, 'Boolean type option should start with dash("-"): a'),
    (["a"], {"action": NormalOption, "dtype": int}, None),
    (["a", "--a2"], {"action": NormalOption}, "Invalid option names. Only either of option type is allowed"),
    (["a", "--a2"], {"action": TargetOption}, "Invalid option names. Only either of option type is allowed"),
    (["a", "a2"], {"action": NormalOption}, None),
    (["-a", "--a2"], {"action": NormalOption}, None),
    (["--used"], {"action": NormalOption}, "Duplicate option names: --used"),
    (["-a", "used"], {"action": NormalOption}, "Duplicate option names: -a, used"),
]


@pytest.mark.parametrize(("names", "keywords", "message"), FAULTS)
def test_arguments_that_a_schema_may_have(
    names: list[str], keywords: dict[str, Any], message: str | None
) -> None:
    parser = ArgumentParser()
    parser.add_argument("-u", "--used", action=NormalOption)
    if message is None:
        parser.add_argument(*names, **keywords)
        is_driver = keywords["action"] is DriverName
        assert parser.driver == ("tool" if is_driver else None)
        assert [list(a.names) for a in parser.arguments[1:]] == ([] if is_driver else [names])
        return
    with pytest.raises(DriverError) as caught:
        parser.add_argument(*names, **keywords)
    assert caught.value.message.startswith(message)
    assert caught.value.kind == "RuntimeError"
    assert (parser.driver, len(parser.arguments)) == (None, 1)


@pytest.mark.parametrize(
    ("keys", "words", "unknown"),
    [
        ({}, ["--target", "rose"], []),
        ({"input": "a.circle"}, ["--target", "rose", "a.circle"], []),
        ({"level": "3"}, ["--target", "rose", "-l", "3"], []),
        ({"l": "3", "odd": "1"}, ["--target", "rose", "-l", "3"], ["odd"]),
        ({"l": "", "level": "2"}, ["--target", "rose", "-l", "2"], ["l"]),
        ({"fast": "True"}, ["--target", "rose", "--fast"], []),
        ({"fast": "no"}, ["--target", "rose"], []),
        ({"fast": "very"}, ["--target", "rose", "--fast"], []),
        ({"fast": ""}, ["--target", "rose"], ["fast"]),
        ({"level": "no", "fast": "1"}, ["--target", "rose", "-l", "no", "--fast"], []),
    ],
)
def test_keys_of_a_section_become_words(keys: dict[str, str], words: list[str], unknown: list[str]) -> None:
    parser = ArgumentParser(target="rose")
    parser.add_argument("--target", "-t", action=TargetOption)
    parser.add_argument("-l", "--level", action=NormalOption, dtype=int)
    parser.add_argument("--fast", action=NormalOption, dtype=bool)
    parser.add_argument("input", action=NormalOption)
    assert parser.words(keys) == (words, unknown)


def test_a_target_may_be_positional_and_is_empty_if_absent() -> None:
    parser = ArgumentParser()
    parser.add_argument("target", "name", action=TargetOption)
    assert parser.words({}) == ([""], [])
    parser.target = "rose"
    assert parser.words({}) == (["rose"], [])


BEGIN = "from onelib import argumentparse as a\ndef command_schema():\n    p = a.ArgumentParser()\n"
NAMED = f"{BEGIN}    p.add_argument('tool', action=a.DriverName)\n"


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        ("", "RuntimeError", 'You must implement "command_schema" function'),
        (f"{BEGIN}    return p\n", "RuntimeError", "expected an ArgumentParser with a DriverName from"),
        (f"{NAMED}    return 'tool'\n", "RuntimeError", "expected an ArgumentParser with a DriverName from"),
        (f"{NAMED}    p.add_argument('-x')\n", "RuntimeError", '"action" keyword argument is required: -x'),
        (f"{NAMED}    return 1 / 0\n", "ZeroDivisionError", "division by zero"),
        ("raise SystemExit('odd')\n", "SystemExit", "odd"),
        ("import onelib.other\n", "ModuleNotFoundError", "No module named 'onelib.other'"),
    ],
)
def test_wrong_schema_files_are_errors(tmp_path: Path, text: str, kind: str, message: str) -> None:
    path = tmp_path / "codegen.py"
    path.write_text(text)
    with pytest.raises(DriverError) as caught:
        load_schema(path, "rose")
    assert caught.value.kind == kind
    assert caught.value.message.startswith(message)
    assert str(path) in caught.value.message
    assert not {"onelib", "onelib.argumentparse"} & sys.modules.keys()


def test_a_module_named_onelib_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = ModuleType("onelib")
    monkeypatch.setitem(sys.modules, "onelib", own)
    (tmp_path / "codegen.py").write_text(f"{NAMED}    return p\n")
    parser = load_schema(tmp_path / "codegen.py", "rose")
    assert (parser.driver, parser.target) == ("tool", "rose")
    assert sys.modules["onelib"] is own
    assert "onelib.argumentparse" not in sys.modules


def test_an_action_that_one_lacks_is_an_error() -> None:
    class Other(Action):
        """An action that ONE does not have."""

    with pytest.raises(DriverError, match="Invalid action: -a"):
        ArgumentParser().add_argument("-a", action=Other)
