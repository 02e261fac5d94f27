# SPDX-License-Identifier: Apache-2.0
"""Take models apart and put them together: submodels, parts, connected models, other input shapes."""
