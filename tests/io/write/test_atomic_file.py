# SPDX-License-Identifier: Apache-2.0
"""A file appears completely or not at all, and temporary files of killed writers are removed."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from circlekit.errors import FileError
from circlekit.io.read.load import load
from circlekit.io.write import file_writer
from circlekit.io.write.file_writer import TEMPORARY, remove_stale, replacement, write_file
from circlekit.io.write.save import save, to_bytes
from tests.io.models import File
from tests.io.oracles import LITERT


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def litter(folder: Path, name: str = "m.circle", number: int = 0) -> Path:
    """Create the temporary file of a killed writer: no process holds its lock."""
    path = folder / f".{name}.99999-{number}.circlekit"
    path.write_bytes(b"half")
    return path


# -- temporary files ------------------------------------------------------------------------------------


def test_temporary_files_of_killed_writers_are_removed(tmp_path: Path) -> None:
    left = [
        litter(tmp_path, number=1),
        *(litter(tmp_path, name) for name in ("m.circle", "other.circle", "")),
    ]
    for path in left:
        assert TEMPORARY.fullmatch(path.name)
    write_file(tmp_path / "m.circle", [b"whole"])
    assert names(tmp_path) == ["m.circle"]


@pytest.mark.parametrize(
    "name",
    [".m.circle.99-0.tmp", "m.circle.99-0.circlekit", ".m.circle.circlekit", ".m.x-0.circlekit", ".m~"],
)
def test_other_files_are_not_removed(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(b"mine")
    write_file(tmp_path / "m.circle", [b"whole"])
    assert (tmp_path / name).read_bytes() == b"mine"


def test_folders_links_and_pipes_are_not_removed(tmp_path: Path) -> None:
    (tmp_path / "mine").write_bytes(b"mine")
    (tmp_path / ".folder.1-0.circlekit").mkdir()
    (tmp_path / ".link.1-0.circlekit").symlink_to(tmp_path / "mine")
    os.mkfifo(tmp_path / ".pipe.1-0.circlekit")
    before = names(tmp_path)
    remove_stale(tmp_path)
    assert names(tmp_path) == before
    remove_stale(tmp_path / "absent")


def test_temporary_file_of_a_running_writer_is_kept(tmp_path: Path) -> None:
    """Two writers of one output at once: each writes a complete file; the one that is finished last stays."""
    target = tmp_path / "m.circle"
    with replacement(target) as first:
        os.write(first, b"first")
        write_file(target, [b"second"])
        assert target.read_bytes() == b"second"
        assert len(names(tmp_path)) == 2
    assert target.read_bytes() == b"first"
    assert names(tmp_path) == ["m.circle"]


def test_temporary_file_removed_before_it_was_locked_is_created_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another writer removes the file between its creation and its lock."""
    real = os.open
    made: list[int] = []

    def taken(path: Path, flags: int, *mode: int) -> int:
        descriptor = real(path, flags, *mode)
        if flags & os.O_CREAT and len(made) < 2:
            made.append(descriptor)
            if len(made) == 1:
                remove_stale(tmp_path)  # removed before it was locked
            else:
                other = real(path, os.O_WRONLY)
                fcntl.flock(other, fcntl.LOCK_EX)  # about to be removed
                made.append(other)
        return descriptor

    monkeypatch.setattr(os, "open", taken)
    write_file(tmp_path / "m.circle", [b"whole"])
    monkeypatch.undo()
    os.close(made[2])
    assert (tmp_path / "m.circle").read_bytes() == b"whole"
    write_file(tmp_path / "m.circle", [b"again"])
    assert names(tmp_path) == ["m.circle"]


@pytest.mark.parametrize("can_lock", [True, False])
def test_nothing_is_removed_without_file_locks(
    can_lock: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: int) -> None:
        raise OSError(37, "No locks available")

    monkeypatch.setattr(file_writer, "CAN_LOCK", can_lock)
    monkeypatch.setattr(fcntl, "flock", refuse)
    left = litter(tmp_path)
    write_file(tmp_path / "m.circle", [b"whole"])
    assert names(tmp_path) == [left.name, "m.circle"]


# -- names -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["m" * 248 + ".circle", "é" * 124 + ".circle", "m\udcff" * 60 + ".circle", "a\nb"]
)
def test_file_names_of_maximum_length_and_names_that_are_not_text(name: str, tmp_path: Path) -> None:
    """NAME_MAX counts bytes, at most 255: 248 + 7, 2 * 124 + 7.  A name need not be text."""
    seen: list[str] = []

    def pieces() -> Iterator[bytes]:
        seen.extend(names(tmp_path))
        yield b"whole"

    write_file(tmp_path / name, pieces())
    assert names(tmp_path) == [name]
    assert len(seen) == 1
    assert TEMPORARY.fullmatch(seen[0])
    assert seen[0][1:4] == name[:3] or "\udcff" in name
    write_file(tmp_path / name, [b"again"])


def test_symbolic_and_hard_links(tmp_path: Path) -> None:
    """A symbolic link is followed; another hard link to the file keeps the old content."""
    real, soft, hard = tmp_path / "a" / "real.circle", tmp_path / "soft.circle", tmp_path / "hard.circle"
    real.parent.mkdir()
    real.write_bytes(b"before")
    soft.symlink_to(real)
    hard.hardlink_to(real)
    write_file(soft, [b"after"])
    assert (soft.is_symlink(), real.read_bytes(), hard.read_bytes()) == (True, b"after", b"before")
    assert names(tmp_path) == ["a", "hard.circle", "soft.circle"]
    loop = tmp_path / "loop.circle"
    loop.symlink_to(loop)
    with pytest.raises(FileError, match=r"loop\.circle: cannot be written"):
        write_file(loop, [b"after"])
    dangling = tmp_path / "dangling.circle"
    dangling.symlink_to(tmp_path / "a" / "new.circle")
    write_file(dangling, [b"new"])
    assert (tmp_path / "a" / "new.circle").read_bytes() == b"new"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_owner_is_kept(tmp_path: Path) -> None:
    target = tmp_path / "m.circle"
    target.write_bytes(b"before")
    try:
        os.chown(target, 12345, 54321)
    except OSError as error:
        pytest.skip(f"root may not give files away here: {error}")
    target.chmod(0o4640)
    write_file(target, [b"after"])
    status = target.stat()
    assert (status.st_uid, status.st_gid, status.st_mode & 0o7777) == (12345, 54321, 0o4640)


def test_temporary_file_that_replaces_a_file_is_private(tmp_path: Path) -> None:
    """Only the owner has access to the temporary file until it gets the permissions of the old file.

    The temporary file of a new file has the permissions of the new file from the start.
    """
    target = tmp_path / "m.circle"
    seen: list[int] = []

    def pieces() -> Iterator[bytes]:
        seen.extend(path.stat().st_mode & 0o777 for path in tmp_path.iterdir() if path != target)
        yield b"whole"

    write_file(target, pieces())
    new = target.stat().st_mode & 0o777
    assert seen == [new]
    for mode in (0o600, 0o640, 0o444):
        target.chmod(mode)
        write_file(target, pieces())
        assert (seen.pop(), target.stat().st_mode & 0o777) == (0o600, mode)


# -- input and output are the same file --------------------------------------------------------


def model_file(path: Path) -> Path:
    """Write a model with a constant larger than a page; return the path."""
    f = File(LITERT)
    data = np.random.default_rng(0).bytes(40_000)
    f.op("ADD", [0, f.tensor("w", [100, 100], buffer=f.buffer(data))], [1], f.make("AddOptions"))
    path.write_bytes(f.pack())
    return path


@pytest.mark.parametrize("link", ["same", "hard", "soft"])
def test_output_may_be_the_input_under_another_name(link: str, tmp_path: Path) -> None:
    path = model_file(tmp_path / "m.tflite")
    before = path.read_bytes()
    output = path if link == "same" else tmp_path / "link.tflite"
    if link == "hard":
        output.hardlink_to(path)
    elif link == "soft":
        output.symlink_to(path)
    model = load(path)
    expected = to_bytes(model)
    assert expected != before
    for _ in range(2):
        save(model, output)
        assert output.read_bytes() == expected
    assert path.read_bytes() == (before if link == "hard" else expected)
    assert to_bytes(load(output)) == expected
