"""The reaction chain, from the load step to the first record of a new pod."""
