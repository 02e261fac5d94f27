# SPDX-License-Identifier: Apache-2.0
"""one-optimize: passes, pipelines, groups and settings; its log."""

from __future__ import annotations

from pathlib import Path

import pytest

import circlekit
from circlekit.toolchain.drivers import all_drivers
from circlekit.toolchain.pass_log import log_lines

pytestmark = pytest.mark.usefixtures("work")  # a folder of its own, with net.tflite: Conv2D, Mul, Add


def call(*words: str, keys: str = "") -> int:
    Path("c.cfg").write_text(f"[one-optimize]\ninput_path=net.tflite\noutput_path=a.circle\n{keys}")
    return all_drivers()["one-optimize"](["-C", "c.cfg", *words])


def operators() -> list[str]:
    return [type(op).__name__ for op in circlekit.load("a.circle").main]


@pytest.mark.parametrize(
    ("words", "keys", "expected"),
    [
        ("", "", ["Conv2D", "Mul", "Add"]),
        ("--fuse_mul_with_conv", "", ["Conv2D", "Add"]),
        ("", "fuse_mul_with_conv=True\n", ["Conv2D", "Add"]),
        ("--fuse_mul_with_conv", "fuse_mul_with_conv=False\n", ["Conv2D", "Add"]),
        ("--fuse_mul_with_conv --fuse_add_with_conv", "", ["Conv2D"]),
        ("--O1", "", ["Conv2D"]),
        ("", "O1=True\n", ["Conv2D"]),
        ("", "O1=True\nfuse_add_with_conv=False\nfuse_batchnorm_with_conv=False\n", ["Conv2D", "Add"]),
        ("", "O1=False\n", ["Conv2D", "Mul", "Add"]),
        ("-O 1", "", ["Conv2D"]),
        ("-O NONE", "", ["Conv2D", "Mul", "Add"]),
        ("-O", "", None),
    ],
)
def test_passes_and_pipelines(words: str, keys: str, expected: list[str] | None) -> None:
    Path("../optimization/ONONE.cfg").write_text("[one-optimize]\nfuse_mul_with_conv=False\n")
    code = call(*words.split(), keys=keys)
    assert code == (2 if expected is None else 0)
    if expected is not None:
        assert operators() == expected


def test_the_last_of_several_groups_counts() -> None:
    for name, switch in (("ON", True), ("OFF", False)):
        Path(f"../optimization/O{name}.cfg").write_text(f"[one-optimize]\nfuse_mul_with_conv={switch}\n")
    for groups, count in (("ON OFF", 3), ("OFF ON", 2), (" ON ", 2)):
        assert call("-O", groups) == 0
        assert len(operators()) == count


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("fuse_gelo=True\n", "OBAD.cfg: unknown key fuse_gelo"),
        ("fuse_gelu=2\n", "OBAD.cfg: fuse_gelu: expected"),
    ],
)
def test_wrong_groups(text: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("../optimization/OBAD.cfg").write_text(f"[one-optimize]\n{text}")
    assert call("-O", "BAD") == 255
    assert f"one-optimize: ValueError: optimization/{message}" in capsys.readouterr().err


def test_a_setting_that_is_named_as_its_pass_switches_the_pass_on() -> None:
    assert call("--change_outputs", "m") == 0
    assert [value.name for value in circlekit.load("a.circle").main.outputs] == ["m"]
    assert call("--remove_nodes_of", "z,m") == 0
    assert operators() == ["Conv2D"]


def test_settings_of_passes_that_do_not_run_have_no_effect() -> None:
    assert call("--freeze_decay", "0.5") == 0
    assert call("--sparsify_format", "d,s") == 0
    assert operators() == ["Conv2D", "Mul", "Add"]


def test_the_log_has_the_flags_of_circle2circle() -> None:
    def logged() -> str:
        return Path("a.circle.log").read_text().splitlines()[0]

    assert call() == 0
    assert logged() == "circle2circle net.tflite a.circle"
    assert call("--fuse_mul_with_conv", "--change_outputs", "m", "-p", "-V") == 0
    assert logged() == (
        "circle2circle net.tflite a.circle --change_outputs m --fuse_mul_with_conv "
        "--generate_profile_data --verbose"
    )


@pytest.mark.parametrize(
    ("words", "variable", "is_printed"),
    [
        ([], None, False),
        ([], "", False),
        ([], "0", False),
        ([], "1", True),
        (["-V"], None, True),
        (["-V"], "0", True),
    ],
)
def test_the_log_of_passes_is_printed_if_asked(
    words: list[str],
    variable: str | None,
    is_printed: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.delenv("LUCI_LOG", raising=False)
    if variable is not None:
        monkeypatch.setenv("LUCI_LOG", variable)
    assert call("--fuse_mul_with_conv", "--fuse_gelu", *words) == 0
    printed = capsys.readouterr().out
    assert ("After FuseMulWithConvPass (changed: Y)" in printed) == is_printed
    assert ("After FuseGeluPass (changed: N)" in printed) == is_printed
    assert bool(printed) == is_printed


def test_passes_have_names_in_the_style_of_one_in_the_log() -> None:
    names = ["remove_unnecessary_add", "fuse_activation_function"]
    found = list(log_lines(circlekit.optimize(circlekit.load("net.tflite"), names)))
    assert "Before RemoveUnnecessaryAddPass" in found
    assert "After FuseActivationFunctionPass (changed: N)" in found


def test_profile_data_are_written_if_asked() -> None:
    assert call() == 0
    plain = len(circlekit.load("a.circle").metadata)
    assert call("-p") == 0
    assert len(circlekit.load("a.circle").metadata) > plain
