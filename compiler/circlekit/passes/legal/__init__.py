# SPDX-License-Identifier: Apache-2.0
"""Passes that replace operators that a format or runtime lacks.  Users cannot run them by name."""
