# SPDX-License-Identifier: Apache-2.0
# Done: the unknown batch becomes 1, in the inputs and in all shapes inferred from them.

graph main(%x: f32[?,3,4]) -> %y {
  %a = Add(%x, [1.0])
  %y = Relu(%a)
}

rules {
  passes(dynamic_batch_to_single_batch)
  order(Add, Relu)
  value(%x, shape: [1,3,4])
  value(%y, shape: [1,3,4])
}
