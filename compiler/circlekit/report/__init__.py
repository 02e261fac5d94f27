# SPDX-License-Identifier: Apache-2.0
"""An HTML page about one model, or about two, before and after a change: figures, drawings, differences."""
