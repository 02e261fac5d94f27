# SPDX-License-Identifier: Apache-2.0
"""Write files: convert models to trees, encode trees as flatbuffers, and write these to files."""
