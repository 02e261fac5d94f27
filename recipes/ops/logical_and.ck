# SPDX-License-Identifier: Apache-2.0
# Elementwise logical and.

graph main(%a: bool[4], %b: bool[4]) -> %y {
  %y = LogicalAnd(%a, %b)
}
