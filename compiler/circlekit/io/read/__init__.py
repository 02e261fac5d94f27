# SPDX-License-Identifier: Apache-2.0
"""Read files: flatbuffers become trees, and trees become models."""
