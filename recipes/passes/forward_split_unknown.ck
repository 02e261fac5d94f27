# SPDX-License-Identifier: Apache-2.0
# Done: the parts of a SPLIT are equal, even if their size is unknown.

graph main(%x: f32[?,6]) -> %z {
  %a, %b = Split(0, %x) {num_splits: 2}
  %u = Relu(%a)
  %v = Relu(%b)
  %z = Sub(%u, %v)
}

rules {
  passes(forward_split)
  order(Relu, Split, Sub)
}
