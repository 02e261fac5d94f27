# SPDX-License-Identifier: Apache-2.0
"""LiteRT's verifier of flatbuffers as an oracle: it runs when an interpreter is made.

What it lets pass may crash LiteRT afterwards, so it works in a process of its own.
"""

from __future__ import annotations

import struct
import subprocess
import sys
from collections.abc import Sequence

CHILD = """
import struct, sys
from ai_edge_litert.interpreter import Interpreter
while head := sys.stdin.buffer.read(4):
    data = sys.stdin.buffer.read(struct.unpack("<I", head)[0])
    verdict = b"1"
    try:
        Interpreter(model_content=data)
    except ValueError as error:
        if "not a valid Flatbuffer" in str(error):
            verdict = b"0"
    except Exception:
        pass
    sys.stdout.buffer.write(verdict)
    sys.stdout.buffer.flush()
"""


def accepted(files: Sequence[bytes]) -> list[bool]:
    """Of each of ``files`` whether the verifier lets it pass; what crashes LiteRT behind it has passed."""
    verdicts: list[bool] = []
    while len(verdicts) < len(files):
        rest = files[len(verdicts) :]
        told = b"".join(struct.pack("<I", len(data)) + data for data in rest)
        child = subprocess.run([sys.executable, "-c", CHILD], input=told, capture_output=True, check=False)
        verdicts += [byte == ord("1") for byte in child.stdout]
        if len(child.stdout) < len(rest):
            assert child.returncode < 0, child.stderr.decode()[-500:]  # a signal
            verdicts.append(True)
    return verdicts
