# SPDX-License-Identifier: Apache-2.0
"""Writing: models to trees, trees to flatbuffers, and the output file."""
