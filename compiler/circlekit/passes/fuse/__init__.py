# SPDX-License-Identifier: Apache-2.0
"""Passes that merge operators, or move constants so that operators can be merged."""
