# SPDX-License-Identifier: Apache-2.0
"""Writers that fail, are killed, or write the same file at once: a reader sees a whole file at any time."""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from multiprocessing import get_context
from pathlib import Path
from random import Random

import pytest

import circlekit
import circlekit.ops  # operators are declared by being imported
from circlekit.errors import FileError
from circlekit.io.read.load import load
from circlekit.io.write.file_writer import write_file
from circlekit.io.write.save import save, to_bytes
from tests.io.write.test_atomic_file import litter, model_file, names

ROOT = Path(__file__).parents[3]


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
    """Only the old file stays.  The space of temporary files that killed writers left is reused."""
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
