# SPDX-License-Identifier: Apache-2.0
"""The report on one model, or on a model before and after a change: figures, drawings, one HTML page."""
