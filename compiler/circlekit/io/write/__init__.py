# SPDX-License-Identifier: Apache-2.0
"""Write files: models become trees, trees become flatbuffers, and these become files."""
