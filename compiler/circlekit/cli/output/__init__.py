# SPDX-License-Identifier: Apache-2.0
"""What commands print: text for terminals, progress, summaries, explanations, JUnit XML."""
