# SPDX-License-Identifier: Apache-2.0
# Refused: %d: is a quotient, which may be so large that the first product overflows

graph main(%x: f32[2,3]) -> %z {
  %w = const f32[4,3] gaussian(0, 1)
  %y = FullyConnected(%x, %w, none)
  %d = Div(%y, %y)
  %z = Mul(%d, 2.0)
}

rules {
  passes(forward_number)
  unchanged()
  refused("%d: is a quotient, which may be so large that the first product overflows")
}
