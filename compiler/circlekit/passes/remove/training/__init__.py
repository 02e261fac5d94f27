# SPDX-License-Identifier: Apache-2.0
"""Remove what training leaves in a model: dropout, fake quantization, constant branches."""
