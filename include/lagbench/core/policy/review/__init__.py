"""What a policy does that its text does not say: found by reading it, before it is applied."""
