# SPDX-License-Identifier: Apache-2.0
"""Compares the flatbuffer decoder with the C++ verifier in LiteRT, on damaged model files."""
