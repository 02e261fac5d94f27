# SPDX-License-Identifier: Apache-2.0
"""Read files: decode flatbuffers to trees, and make models from trees."""
