# SPDX-License-Identifier: Apache-2.0
"""Whether two models compute the same values, and which pass is to blame where they do not."""
