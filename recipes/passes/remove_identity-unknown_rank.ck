# SPDX-License-Identifier: Apache-2.0
# Refused: %x: may be broadcast, because a rank is unknown

graph main(%x: f32[?,2], %o: f32[*]) -> %y {
  %c = SelectV2(true, %x, %o) : f32[?,2]
  %y = Tanh(%c)
}

rules {
  passes(remove_identity)
  unchanged()
  refused("%x: may be broadcast, because a rank is unknown")
}
