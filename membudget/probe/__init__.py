"""The real loss on a real device beside its prediction, and measurements as files that a team can commit."""
