# SPDX-License-Identifier: Apache-2.0
# One attention head with its RMS norm, as exporters from PyTorch write it: the norm is a chain, and
# reshapes merge and split the batch dimensions around every matrix product.  Queries, keys and values of 8
# channels stay apart: their products are small beside what a SPLIT would move.

model circle {version: 0, description: "RMS norm, attention, residual"}

graph main(%x: f32[1,4,8]) -> %y {
  # x / sqrt(mean(x * x) + epsilon) * weight
  %square = Mul(%x, %x)
  %mean = Mean(%square, [-1]) {keep_dims: true}
  %shifted = Add(%mean, 1e-06)
  %rsqrt = Rsqrt(%shifted)
  %unit = Mul(%x, %rsqrt)
  %weight = const f32[8] uniform(0.5, 1.5)
  %normed = Mul(%weight, %unit)

  %wq = const f32[8,8] gaussian(0, 0.3)
  %wk = const f32[8,8] gaussian(0, 0.3)
  %wv = const f32[8,8] gaussian(0, 0.3)
  %wo = const f32[8,8] gaussian(0, 0.3)
  %q = FullyConnected(%normed, %wq, none) {keep_num_dims: true}
  %k = FullyConnected(%normed, %wk, none) {keep_num_dims: true}
  %v = FullyConnected(%normed, %wv, none) {keep_num_dims: true}

  # two heads of four
  %q4 = Reshape(%q, [1,4,2,4])
  %k4 = Reshape(%k, [1,4,2,4])
  %v4 = Reshape(%v, [1,4,2,4])
  %qh = Transpose(%q4, [0,2,1,3])
  %kh = Transpose(%k4, [0,2,1,3])
  %vh = Transpose(%v4, [0,2,1,3])
  %kt = Transpose(%kh, [0,1,3,2])
  %q3 = Reshape(%qh, [2,4,4])
  %k3 = Reshape(%kt, [2,4,4])
  %dots = BatchMatMul(%q3, %k3)
  %scaled = Mul(%dots, 0.5)
  %logits = Reshape(%scaled, [1,2,4,4])
  %weights = Softmax(%logits)
  %w3 = Reshape(%weights, [2,4,4])
  %v3 = Reshape(%vh, [2,4,4])
  %heads = BatchMatMul(%w3, %v3)
  %h4 = Reshape(%heads, [1,2,4,4])
  %joined = Transpose(%h4, [0,2,1,3])
  %flat = Reshape(%joined, [1,4,8])
  %o = FullyConnected(%flat, %wo, none) {keep_num_dims: true}
  %y = Add(%x, %o)
}

rules {
  passes(O1)
  ops(RmsNorm: 1, FullyConnected: 4, BatchMatMul: 2, Split: 0, Reshape: at_most(4), Rsqrt: 0, Mean: 0)
}
