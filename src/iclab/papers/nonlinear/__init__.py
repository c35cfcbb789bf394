"""Paper T: softmax attention with an MLP, unseen tasks, out of domain, pruning."""
