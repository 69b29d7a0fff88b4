"""What a policy does otherwise than it reads."""
