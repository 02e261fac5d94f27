# SPDX-License-Identifier: Apache-2.0
"""The C++ verifier of both formats: flatc makes it of the schema, g++ a program of it."""

from __future__ import annotations

import shutil
import struct
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

from circlekit.errors import CirclekitError
from circlekit.io.schema import FORMATS, IDENTIFIERS, enumeration
from circlekit.io.tables import ENUMS, TABLES, UNIONS

NEEDS = "needed are flatc, g++ and the headers (apt install flatbuffers-compiler libflatbuffers-dev g++)"

PROGRAM = """\
#include <cstdint>
#include <cstdio>
#include <vector>
#include "tflite_generated.h"
#include "circle_generated.h"

// For each file of the input (format, length, bytes) a byte of output: 1 where the verifier takes it.
int main() {
  uint32_t head[2];
  while (std::fread(head, 4, 2, stdin) == 2) {
    std::vector<uint8_t> data(head[1]);
    if (head[1] && std::fread(data.data(), 1, head[1], stdin) != head[1]) return 1;
    flatbuffers::Verifier verifier(data.data(), data.size());
    const bool taken = head[0] ? circle::VerifyModelBuffer(verifier) : tflite::VerifyModelBuffer(verifier);
    std::putchar(taken ? '1' : '0');
  }
  return 0;
}
"""


def schema_text(fmt: str) -> str:
    """The schema of one format, in the language of flatc."""
    out = [f"namespace {fmt};", f'file_identifier "{IDENTIFIERS[fmt].decode()}";']
    for name, (underlying, _) in ENUMS.items():
        numbers = sorted(enumeration(name, fmt).names.items())
        out.append(f"enum {name} : {underlying} {{ {', '.join(f'{v} = {n}' for n, v in numbers)} }}")
    for name in UNIONS:
        numbers = sorted(enumeration(name, fmt).names.items())
        out.append(f"union {name} {{ {', '.join(f'{v} = {n}' for n, v in numbers)} }}")
    for name, fields in TABLES.items():
        rows = (f"{field}: {kind};" for field, kind, _, only in fields if only in ("", fmt))
        out.append(f"table {name} {{ {' '.join(rows)} }}")
    return "\n".join([*out, "root_type Model;", ""])


class Native:
    """The program, built in ``folder``.  ``flatc`` and ``include`` belong to one version of flatbuffers."""

    def __init__(self, folder: Path, flatc: str = "flatc", include: Path | None = None) -> None:
        for tool in (flatc, "g++"):
            if shutil.which(tool) is None:
                raise CirclekitError(f"there is no {tool}; {NEEDS}")
        self.program = folder / "verifier"
        for fmt in FORMATS:
            (folder / f"{fmt}.fbs").write_text(schema_text(fmt))
            self._run(flatc, "--cpp", "-o", str(folder), str(folder / f"{fmt}.fbs"))
        (folder / "verifier.cpp").write_text(PROGRAM)
        paths = [] if include is None else [f"-I{include}"]
        self._run("g++", "-O1", *paths, str(folder / "verifier.cpp"), "-o", str(self.program))

    @staticmethod
    def _run(*command: str) -> None:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise CirclekitError(f"{command[0]}: {(done.stderr or done.stdout).strip()[:600]}")

    def accepted(self, files: Sequence[bytes], fmt: str) -> Iterator[bool]:
        """Of each file whether the verifier takes it as a model of ``fmt``."""
        number = FORMATS.index(fmt)
        told = b"".join(struct.pack("<II", number, len(data)) + data for data in files)
        done = subprocess.run([self.program], input=told, capture_output=True, check=False)
        if done.returncode or len(done.stdout) != len(files):
            at = len(done.stdout)
            raise CirclekitError(f"the C++ verifier ended at file {at} with code {done.returncode}")
        return (byte == ord("1") for byte in done.stdout)
