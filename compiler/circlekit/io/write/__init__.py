# SPDX-License-Identifier: Apache-2.0
"""Model to bytes: operators to trees, trees to flatbuffers, and the output file."""
