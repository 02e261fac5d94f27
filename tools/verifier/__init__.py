# SPDX-License-Identifier: Apache-2.0
"""Holds the decoder against the verifier that flatc and the C++ flatbuffers library make of the schema."""
