# SPDX-License-Identifier: Apache-2.0
"""Sessions: logs, other programs, errors in a ``with session.program(...)`` block, models kept in memory."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

import circlekit
from circlekit.errors import CirclekitError, FileError, FormatError, ModelError
from circlekit.toolchain.option import DriverError, StepFailed
from circlekit.toolchain.session import Session

SCRIPT = "import os, sys; print('out', os.environ.get('VARIABLE')); sys.exit('bad\\nworse')"


@pytest.mark.parametrize("is_listed", [True, False])
def test_the_output_of_a_program_is_printed_and_logged(
    work: Path, capfd: pytest.CaptureFixture[str], is_listed: bool
) -> None:
    session = Session()
    session.environment["VARIABLE"] = "set"
    words = [sys.executable, "-c", SCRIPT]
    with session.logging("a.circle"):
        assert session.run(words, "tool", is_listed=is_listed) == 1
    assert session.log is None
    printed = capfd.readouterr()
    assert (printed.out, printed.err) == ("out set\n", "tool: bad\ntool: worse\n")
    lines = (work / "a.circle.log").read_text().splitlines()
    first = [" ".join(words).split("\n")[0]] if is_listed else []
    assert lines[: len(first)] == first
    assert sorted(lines[len(first) :]) == ["out set", "tool: bad", "tool: worse"]
    assert session.run(words) == 1
    assert capfd.readouterr().err == "bad\nworse\n"


@pytest.mark.parametrize(
    ("script", "code"),
    [
        ("raise SystemExit(7)", 7),
        ("raise SystemExit(1)", 1),
        ("import os; os.kill(os.getpid(), 9)", 137),  # as in a shell: 128 plus the number of the signal
    ],
)
def test_a_required_program_must_succeed(work: Path, script: str, code: int) -> None:
    session = Session()
    session.require([sys.executable, "-c", ""])
    with pytest.raises(StepFailed) as caught:
        session.require([sys.executable, "-c", script])
    assert caught.value.code == code


def test_files_that_cannot_be_opened(work: Path) -> None:
    with pytest.raises(DriverError, match="none/tool: No such file or directory") as caught:
        Session().run(["none/tool"])
    assert caught.value.kind == "FileNotFoundError"
    with (
        pytest.raises(DriverError, match=r"the log of none/a.circle") as caught,
        Session().logging("none/a.circle"),
    ):
        pytest.fail("there is no log")
    assert caught.value.kind == "FileNotFoundError"


PLACE = "at net.circle > main\n   1  text of the model"


@pytest.mark.parametrize(
    ("error", "line", "code"),
    [
        (FileError("Failed to open file: a"), "Failed to open file: a", 9),
        (FileError("cannot be written"), "ERROR: cannot be written", 255),
        (FormatError("Invalid input file 'a'"), "ERROR: Invalid input file 'a'", 9),
        (FormatError("ERROR: odd"), "ERROR: odd", 255),
        (ModelError("Failed to open file: a"), "Failed to open file: a", 255),
        (ModelError("odd", PLACE), "ERROR: odd (at net.circle > main)", 255),
    ],
)
@pytest.mark.parametrize("verbose", [False, True])
def test_an_error_in_a_block_is_reported_like_that_of_a_program(
    work: Path,
    capsys: pytest.CaptureFixture[str],
    error: CirclekitError,
    line: str,
    code: int,
    verbose: bool,
) -> None:
    """``unread``: the exit code if the model cannot be read; after other errors it is 255.

    The log has the text of the model where the error happened; the terminal shows it only if ``verbose``.
    """
    session = Session(verbose=verbose)
    with (
        session.logging("a.circle"),
        pytest.raises(StepFailed) as caught,
        session.program("tool", ["a", "b"], unread=9),
    ):
        raise error
    assert caught.value.code == code
    printed = capsys.readouterr().err.splitlines()
    logged = (work / "a.circle.log").read_text().splitlines()
    assert logged[:2] == ["tool a b", f"tool: {line}"]
    assert printed[0] == f"tool: {line}"
    has_text = "\n" in str(error)
    assert (len(printed) > 1) == (has_text and verbose)
    assert (len(logged) > 2) == has_text
    assert ("   1  text of the model" in "\n".join(logged)) == has_text


def test_a_block_has_the_prefix_and_the_exit_code_of_its_program(
    work: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    session = Session()
    with pytest.raises(StepFailed) as caught, session.program("tool", [], prefix="other"):
        session.load("none.circle")
    assert caught.value.code == 1
    assert capsys.readouterr().err.startswith("other: Failed to open file: none.circle")
    with pytest.raises(StepFailed) as caught, session.program("tool", []):
        raise StepFailed("inner", 3)
    assert caught.value.code == 3
    assert capsys.readouterr().err == ""
    Path("odd.circle").write_bytes(b"odd" * 9)
    with pytest.raises(FormatError, match=r"Invalid input file 'odd.circle': ") as invalid:
        session.load("odd.circle")
    assert "'odd.circle': odd.circle: " not in invalid.value.message
    with pytest.raises(FileError, match=r"^Failed to export 'none/a.circle': ") as failed:
        session.save(session.load("net.tflite"), "none/a.circle")
    assert failed.value.message.count("none/a.circle") == 1


def test_intermediate_files_are_kept_beside_the_output(work: Path) -> None:
    session = Session()
    values = {"save_intermediate": True, "output_path": "~/a.circle"}
    with session.intermediate(values) as folder:
        assert folder == Path("~").expanduser().resolve()
    with session.intermediate({"save_intermediate": False, "output_path": "a.circle"}) as folder:
        assert folder.is_dir()
        assert folder not in (work, *work.parents)
    assert not folder.exists()


# -- models in memory ----------------------------------------------------------------------------


def saved(session: Session, later: list[str], path: str = "a.circle") -> circlekit.Model:
    """Save the model in a step before steps that read ``later``; return what was saved."""
    model = circlekit.load("net.tflite")
    session.models.begin_step(later)
    session.save(model, path)
    return circlekit.load(path)


def test_a_model_is_in_memory_until_the_last_step_that_reads_it(
    work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = Session()
    first = saved(session, ["b.circle", "./a.circle", "a.circle"])
    monkeypatch.setattr("circlekit.api.models.load", lambda path: pytest.fail("the file was read"))
    session.models.begin_step(["a.circle"])
    model = session.load("a.circle")
    assert (model.source, model.format) == ("a.circle", "circle")
    model.main.outputs = []  # the next step gets a model of its own
    session.models.begin_step([])
    assert str(session.load("a.circle")) == str(first)
    assert session.models.take("a.circle") is None


def test_a_model_that_no_later_step_reads_is_not_kept_in_memory(work: Path) -> None:
    session = Session()
    saved(session, ["b.circle"])
    assert session.models.take("a.circle") is None


def test_a_file_that_has_changed_is_read(work: Path) -> None:
    session = Session()
    saved(session, ["a.circle"])
    times = os.stat("a.circle")  # noqa: PTH116  # nanoseconds
    os.utime("a.circle", ns=(times.st_atime_ns, times.st_mtime_ns + 1))
    assert session.models.take("a.circle") is None
    saved(session, ["a.circle"])
    Path("a.circle").unlink()
    assert session.models.take("a.circle") is None


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_an_error_of_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("out.log").symlink_to("/dev/full")
    session = Session()
    expected = r"No space left on device: '.*out.log' \(the log\)$"
    with pytest.raises(DriverError, match=expected) as caught, session.logging("out"):
        session.say("line")
    assert caught.value.kind == "OSError"
    assert session.log is None


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_a_full_disk_does_not_stop_a_program_that_prints_much(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stream: str
) -> None:
    """Both streams are read to their ends, or closed: a program that fills a pipe would wait for ever."""
    monkeypatch.chdir(tmp_path)
    Path("out.log").symlink_to("/dev/full")
    session = Session()
    script = f"import sys; sys.{stream}.write('line\\n' * 100_000)"
    with pytest.raises(DriverError, match="No space left on device"), session.logging("out"):
        session.run([sys.executable, "-c", script], is_listed=False)


def test_the_log_takes_names_that_are_no_utf_8(work: Path) -> None:
    session = Session()
    with session.logging("a.circle"):
        session.report(os.fsdecode(b"a\xff.circle"))
    assert (work / "a.circle.log").read_text() == "a\\udcff.circle\n"
