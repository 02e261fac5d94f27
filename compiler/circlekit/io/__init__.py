# SPDX-License-Identifier: Apache-2.0
"""Bytes <-> Model, for both formats; driven by the schema, without a word about any operator.

file --files--> bytes --decode--> tree --load--> Model --save--> tree --encode--> bytes --files--> file
"""
