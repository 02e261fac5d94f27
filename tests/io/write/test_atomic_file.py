# SPDX-License-Identifier: Apache-2.0
"""A file appears completely or not at all, and temporary files of killed writers are removed."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from multiprocessing import get_context
from pathlib import Path
from random import Random

import numpy as np
import pytest

import circlekit
import circlekit.ops  # operators are declared by being imported
from circlekit.errors import FileError
from circlekit.io.read.load import load
from circlekit.io.write import file_writer
from circlekit.io.write.file_writer import TEMPORARY, remove_stale, replacement, write_file
from circlekit.io.write.save import save, to_bytes
from tests.io.models import File
from tests.io.oracles import LITERT

ROOT = Path(__file__).parents[3]


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def litter(folder: Path, name: str = "m.circle", number: int = 0) -> Path:
    """Create the temporary file of a killed writer: no process holds its lock."""
    path = folder / f".{name}.99999-{number}.circlekit"
    path.write_bytes(b"half")
    return path


# -- temporary files ------------------------------------------------------------------------------------


def test_temporary_files_of_killed_writers_are_removed(tmp_path: Path) -> None:
    left = [litter(tmp_path), litter(tmp_path, number=1), litter(tmp_path, "other.circle")]
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


def test_folders_links_and_unreadable_files_are_not_removed(tmp_path: Path) -> None:
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


# -- disk full, no permission -------------------------------------------------------------------------


def run(code: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)


def mounted(folder: Path, options: str) -> None:
    """Mount a small file system in memory at ``folder``; skip the test where that is not allowed."""
    command = ["mount", "-t", "tmpfs", "-o", options, "circlekit", str(folder)]
    try:
        subprocess.run(command, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no file system can be mounted: {error}")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A folder on a file system of 256 KiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted(folder, "size=256k")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def test_full_disk_keeps_the_old_file(small_disk: Path, tmp_path: Path) -> None:
    """The old file stays, no other file does; the space of files from killed writers is reused."""
    target = small_disk / "m.circle"
    write_file(target, [b"before"])
    with pytest.raises(FileError, match=r"m\.circle: cannot be written: No space left on device"):
        write_file(target, [bytes(100_000)] * 3)
    assert names(small_disk) == ["m.circle"]
    assert target.read_bytes() == b"before"
    litter(small_disk).write_bytes(bytes(200_000))
    write_file(target, [bytes(100_000)])
    assert (names(small_disk), target.stat().st_size) == (["m.circle"], 100_000)


def test_save_on_a_full_disk_keeps_the_old_model(small_disk: Path, tmp_path: Path) -> None:
    model = load(model_file(tmp_path / "m.tflite"))
    target = small_disk / "m.tflite"
    target.write_bytes(bytes(230_000))
    with pytest.raises(FileError, match="No space left"):
        save(model, target)
    assert (names(small_disk), target.stat().st_size) == (["m.tflite"], 230_000)
    target.unlink()
    save(model, target)
    assert target.read_bytes() == to_bytes(model)


LIMITED = """
import resource, sys
from circlekit.errors import FileError
from circlekit.io.write.file_writer import write_file
resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))
try:
    write_file(sys.argv[1], [bytes(10_000)] * 10)
except FileError as error:
    print(error)
"""


def test_file_size_limit_keeps_the_old_file(tmp_path: Path) -> None:
    """A disk quota has the same effect as this limit."""
    (tmp_path / "m.circle").write_bytes(b"before")
    result = run(LIMITED, tmp_path / "m.circle")
    assert result.stdout.strip().endswith("m.circle: cannot be written: File too large"), result.stderr
    assert names(tmp_path) == ["m.circle"]
    assert (tmp_path / "m.circle").read_bytes() == b"before"


def test_read_only_file_system_is_refused(tmp_path: Path) -> None:
    mounted(tmp_path, "size=256k")
    try:
        (tmp_path / "m.circle").write_bytes(b"before")
        subprocess.run(["mount", "-o", "remount,ro", str(tmp_path)], check=True)
        with pytest.raises(FileError, match=r"m\.circle: cannot be written: Read-only file system"):
            write_file(tmp_path / "m.circle", [b"after"])
        assert (tmp_path / "m.circle").read_bytes() == b"before"
    finally:
        subprocess.run(["umount", "--lazy", str(tmp_path)], check=True)


UNPRIVILEGED_CLEARS_UP = """
import os, sys
from circlekit.io.write.file_writer import write_file
if not os.geteuid():
    os.chown(sys.argv[1], 65534, 65534)
    os.setuid(65534)
os.chdir(sys.argv[1])
with open(".m.circle.1-0.circlekit", "wb"):
    os.chmod(".m.circle.1-0.circlekit", 0o444)
write_file("m.circle", [b"whole"])
print(os.listdir())
"""


def test_read_only_temporary_files_are_removed() -> None:
    """The writer was killed after it had set the permissions."""
    with tempfile.TemporaryDirectory() as name:
        result = run(UNPRIVILEGED_CLEARS_UP, name)
        assert result.stdout.strip() == "['m.circle']", result.stderr


UNPRIVILEGED = """
import os, sys
from circlekit.errors import FileError
from circlekit.io.write.file_writer import write_file
if not os.geteuid():
    os.setuid(65534)
os.chdir(sys.argv[1])
try:
    write_file("m.circle", [b"after"])
except FileError as error:
    print(error)
"""


def test_read_only_folder_is_refused() -> None:
    """Run as a user other than root, in a folder that this user can reach."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "m.circle").write_bytes(b"before")
        (folder / "m.circle").chmod(0o666)
        folder.chmod(0o555)
        result = run(UNPRIVILEGED, folder)
        folder.chmod(0o700)
        assert result.stdout.strip() == "m.circle: cannot be written: Permission denied", result.stderr
        assert (names(folder), (folder / "m.circle").read_bytes()) == (["m.circle"], b"before")


# -- two writers, and kills --------------------------------------------------------------------

WRITER = """
import sys
from circlekit.io.write.file_writer import write_file
for number in range(int(sys.argv[3])):
    write_file(sys.argv[1], [sys.argv[2].encode() * 1000] * 300)
"""


def test_two_processes_write_the_same_output(tmp_path: Path) -> None:
    """A reader sees the file of one process or of the other, never a mixture."""
    target = tmp_path / "m.circle"
    target.write_bytes(b"a" * 300_000)
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, target, letter, "40"], cwd=ROOT) for letter in "ab"
    ]
    while any(writer.poll() is None for writer in writers):
        assert target.read_bytes() in (b"a" * 300_000, b"b" * 300_000)
    assert [writer.returncode for writer in writers] == [0, 0]
    assert names(tmp_path) == ["m.circle"]


def save_in_turns(models: list[circlekit.Model], output: Path) -> None:
    while True:
        for model in models:
            save(model, output)


def test_a_killed_writer_leaves_a_whole_file(tmp_path: Path) -> None:
    """The next save removes the temporary file that the killed writer may have left."""
    models, complete, folder = list[circlekit.Model](), list[bytes](), tmp_path / "output"
    folder.mkdir()
    for number in range(2):
        path = tmp_path / f"{number}.circle"
        text = f"graph main() -> %c {{ %c = const f32[1024,1024] gaussian({number}, 1) }}"
        save(circlekit.parse(text), path)
        models.append(load(path))
        complete.append(path.read_bytes())
    target = folder / "m.circle"
    save(models[0], target)
    random = Random(7)
    for _ in range(20):
        process = get_context("fork").Process(target=save_in_turns, args=(models, target))
        process.start()
        time.sleep(random.uniform(0, 0.05))
        process.kill()
        process.join()
        assert process.exitcode == -signal.SIGKILL
        assert target.read_bytes() in complete
        save(models[0], target)
        assert names(folder) == ["m.circle"]
