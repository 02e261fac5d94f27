# SPDX-License-Identifier: Apache-2.0
"""Help for large work: limits, files for large arrays, reports of progress, sizes as text."""
