# SPDX-License-Identifier: Apache-2.0
"""Reading: flatbuffers to trees, and trees to models."""
