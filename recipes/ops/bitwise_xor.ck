# SPDX-License-Identifier: Apache-2.0
# Bit by bit: one of both.

graph main(%a: i32[4], %b: i32[4]) -> %y {
  %y = BitwiseXor(%a, %b)
}
