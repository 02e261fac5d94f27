# SPDX-License-Identifier: Apache-2.0
# Elementwise logical not.

graph main(%a: bool[4]) -> %y {
  %y = LogicalNot(%a)
}
