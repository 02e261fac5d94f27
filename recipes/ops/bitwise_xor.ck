# SPDX-License-Identifier: Apache-2.0
# Bitwise exclusive or.

graph main(%a: i32[4], %b: i32[4]) -> %y {
  %y = BitwiseXor(%a, %b)
}
