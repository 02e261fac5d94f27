# SPDX-License-Identifier: Apache-2.0
"""The commands, mostly one file each: parse the arguments, call the library, print the result."""
