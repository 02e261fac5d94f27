# SPDX-License-Identifier: Apache-2.0
"""What large work needs: limits of memory and calls, files for large results, progress, sizes as text."""
