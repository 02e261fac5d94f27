# SPDX-License-Identifier: Apache-2.0
# Done: RELU, RELU6, RELU_N1_TO_1 and RELU_0_TO_1, two in a row: the redundant one is removed.

graph main(%x: f32[40]) -> %z {
  %y = Relu(%x)
  %z = Relu(%y)
}

rules {
  passes(remove_redundant_activation)
  order(Relu)
}
