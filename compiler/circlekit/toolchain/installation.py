# SPDX-License-Identifier: Apache-2.0
"""Find the files that belong to an installation: optimization groups, targets, programs of backends.

An optimization group is a file with options of one-optimize.  A backend is a compiler for devices, with
programs such as BACKEND-compile.  A target is a device; its file names the backend that compiles for it.

As in an installation of ONE, the folders ``optimization``, ``target`` and ``backends`` are beside the folder
``bin`` with the commands.  Programs of backends are also found on the PATH, and as entry points in the group
``circlekit.backends``.  Such an entry point is a function that gets the list of arguments and returns the
exit code, or None for 0.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from circlekit.toolchain.configuration import read_ini, read_text
from circlekit.toolchain.option import DriverError

ENTRY_POINTS = "circlekit.backends"
"""The group of entry points by which packages provide programs of backends."""


@dataclass(frozen=True)
class Installation:
    """The files of an installation.  ``bin``: the folder with the commands."""

    bin: Path

    @property
    def root(self) -> Path:
        """The folder that contains ``bin``."""
        return self.bin.parent

    # -- programs --------------------------------------------------------------------------------

    def programs(self, pattern: str) -> dict[str, Path]:
        """Return the executable files in ``bin``, and in ``backends`` and its subfolders, by name.

        ``pattern``: a pattern for the names of the files, such as ``*-compile``.  A file in ``bin`` comes
        before a file of the same name in ``backends``.
        """
        found: dict[str, Path] = {}
        for path in (*sorted(self.bin.glob(pattern)), *sorted(self.root.glob(f"backends/**/{pattern}"))):
            if path.is_file() and os.access(path, os.X_OK):
                found.setdefault(path.name, path)
        return found

    def find_program(self, name: str) -> Path | Callable[[list[str]], int | None]:
        """Return the program ``name`` of a backend: a file, or the function of an entry point.

        Search in ``bin`` and ``backends``, then on the PATH, then among the entry points.  A name with a
        slash is a path.  Raise DriverError if the program is not found.
        """
        has_slash = bool(os.path.dirname(name))  # noqa: PTH120  # Path.parent is "." without a slash, too
        beside = None if has_slash else self.programs("*").get(name)
        found = beside or shutil.which(name)
        if found:
            return Path(found).absolute()
        for point in metadata.entry_points(group=ENTRY_POINTS):
            if point.name == name:
                main: Callable[[list[str]], int | None] = point.load()
                return main
        places = f"in {self.bin}, below {self.root / 'backends'}, on the PATH, or as an entry point"
        expected = "an executable file" if has_slash else f"it {places}"
        raise DriverError("FileNotFoundError", f"{name} not found: expected {expected}")

    def backends(self, suffix: str) -> list[str]:
        """Return the names of the programs and entry points that end with ``suffix``, for help pages.

        Programs on the PATH are left out.
        """
        points = [p.name for p in metadata.entry_points(group=ENTRY_POINTS) if p.name.endswith(suffix)]
        return sorted({*self.programs(f"*{suffix}"), *points})

    @property
    def venv_python(self) -> Path | None:
        """The Python of the virtual environment ``bin/venv``, as in ONE; None if there is none."""
        path = self.bin / "venv/bin/python"
        return path if path.exists() else None

    # -- groups and targets ----------------------------------------------------------------------

    def groups(self) -> dict[str, Path]:
        """Return {name of an optimization group, such as ``O1``: its file}.

        A file of the installation replaces the built-in group with the same name.
        """
        built_in = Path(__file__).with_name("optimization").glob("O*.cfg")
        files = {path.stem: path for path in (*built_in, *self._siblings("optimization", "O*.cfg"))}
        return dict(sorted(files.items()))

    def group(self, name: str) -> dict[str, str]:
        """Return {key: text} of the optimization group ``name``.

        Raise DriverError if there is no such group, or if its file cannot be read, is damaged, or does not
        have exactly one section, [one-optimize].
        """
        groups = self.groups()
        if name not in groups:
            known = ", ".join(groups)
            raise DriverError(
                "FileNotFoundError",
                f"Not found given optimization configuration file: {name} (known groups: {known})",
            )
        text = read_text(str(groups[name]), "Not found")
        sections = read_ini(text, f"optimization/{name}.cfg").sections
        if list(sections) != ["one-optimize"]:
            raise DriverError(
                "AssertionError",
                f"Optimization configuration file only allowed to have a 'one-optimize' section: {name}",
            )
        return sections["one-optimize"]

    def targets(self) -> list[str]:
        """Return the names of the target files."""
        return [path.stem for path in self._siblings("target", "*.ini")]

    def backend_of(self, target: str) -> str:
        """Return the backend that the file of ``target`` names.

        Raise DriverError if the file is missing or wrong.
        """
        path = self.root / "target" / f"{target}.ini"
        if not path.is_file():
            known = ", ".join(self.targets()) or "none"
            raise DriverError(
                "FileNotFoundError",
                f"Not found given target configuration: {target} (expected {path}; known targets: {known})",
            )
        text = read_text(str(path), "Not found given target configuration")
        keys = read_ini(f"[target]\n{text}", str(path)).sections["target"]
        if keys.get("TARGET") != target:
            raise DriverError("RuntimeError", f"Invalid target file: {path}: expected TARGET={target}")
        if "BACKEND" not in keys:
            raise DriverError("RuntimeError", f"Not found 'BACKEND' key in target configuration: {path}")
        return keys["BACKEND"]

    def schema_file(self, backend: str, command: str) -> Path | None:
        """Return the schema file for ``command`` (codegen, profile) of ``backend``; None if there is none.

        It describes how keys of a configuration file become arguments: see ``command_schema``.
        """
        path = self.root / "backends/command" / backend / f"{command}.py"
        return path if path.is_file() else None

    def _siblings(self, folder: str, pattern: str) -> Iterator[Path]:
        """Yield the readable files that match ``pattern`` in ``folder``, which is beside ``bin``.

        As in ONE, files with a space in the name are left out.
        """
        for path in sorted((self.root / folder).glob(pattern)):
            if " " not in path.name and path.is_file() and os.access(path, os.R_OK):
                yield path


def find_installation() -> Installation:
    """Return the installation to which the running command belongs; symbolic links are followed."""
    return Installation(Path(sys.argv[0]).resolve().parent)
