# SPDX-License-Identifier: Apache-2.0
# Done: SQUEEZE of a constant becomes a constant.

graph main(%x: f32[1,3]) -> %y {
  %r/input = const f32[1,1,3] [1.0, 2.0, 3.0]
  %r = Squeeze(%r/input) : f32[3]
  %y = Add(%x, %r) : f32[1,3]
}

rules {
  passes(fold_squeeze)
  order(Add)
}
