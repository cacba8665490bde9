"""y = a recurrent network over x[T,N,H]: seq_len steps T, batch_size sequences N, hidden_size units H."""

from primbench.kernels.rnn.problem import Rnn as Rnn
