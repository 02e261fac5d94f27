# SPDX-License-Identifier: Apache-2.0
# Elementwise logical or.

graph main(%a: bool[4], %b: bool[4]) -> %y {
  %y = LogicalOr(%a, %b)
}
