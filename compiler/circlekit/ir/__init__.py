# SPDX-License-Identifier: Apache-2.0
"""The intermediate representation; it knows no file format."""
