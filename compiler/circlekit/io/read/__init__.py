# SPDX-License-Identifier: Apache-2.0
"""Bytes to model: the flatbuffer decoder, and the tree to operators."""
