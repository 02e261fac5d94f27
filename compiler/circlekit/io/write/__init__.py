# SPDX-License-Identifier: Apache-2.0
"""Write models: convert them to trees, encode the trees as flatbuffers, and write the bytes to files."""
