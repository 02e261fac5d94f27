# SPDX-License-Identifier: Apache-2.0
"""Bytes <-> Model, for both formats; driven by the schema, without a word about any operator.

file --files--> bytes --decode--> tree --load--> Model --save--> tree --encode--> bytes --files--> file
"""

from circlekit.io.load import load, load_bytes
from circlekit.io.save import save, to_bytes

__all__ = ["load", "load_bytes", "save", "to_bytes"]
