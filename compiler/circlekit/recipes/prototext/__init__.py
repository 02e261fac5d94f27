# SPDX-License-Identifier: Apache-2.0
"""ONE's recipe language, ``test.recipe``: protobuf text read into and written from the schema's tree."""
