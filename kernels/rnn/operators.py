"""Which operator of torch is a recurrent network: cuDNN's forward pass.

What torch calls for the gradients computes those of weights, too, which is no direction of this primitive.
"""

from __future__ import annotations

from primbench.kernels.rnn.problem import Rnn
from primbench.problem.operands import contiguous
from primbench.problem.operators import Call, NotThere, OperatorCase, Settings, operator, said

CELLS = {0: "vanilla", 2: "lstm", 3: "gru"}  # cudnnRNNMode_t; 1 has tanh in place of a ReLU


@operator("_cudnn_rnn")
def rnn(call: Call, settings: Settings) -> list[OperatorCase]:
    x, (mode, hidden, _, layers, _, _, is_training, both_ways, _) = call.tensor(0), call.positional[6:15]
    if mode not in CELLS or x.shape[2] != hidden or not _is_plain(call):
        raise NotThere("sequences of several lengths, dropout, or other features than units")
    steps, sequences, _ = x.shape
    fields = {"hidden_size": hidden, "batch_size": sequences, "seq_len": steps, "layers": layers, "cell": CELLS[mode]}
    fields |= {"bidirectional": both_ways, "direction": "forward_training" if is_training else "forward_inference"}
    fields["dtype"] = x.dtype
    if settings.tf32_conv and x.dtype == "float32":
        fields["math_mode"] = "tf32"
    return [OperatorCase(Rnn.primitive, said(fields, layers=1, bidirectional=False))]


def _is_plain(call: Call) -> bool:
    x = call.tensor(0)
    projection, is_batch_first, dropout, lengths = (call.argument(number) for number in (8, 10, 11, 14))
    return not (projection or is_batch_first or dropout or lengths) and x.strides == contiguous(x.shape)
