"""Pure steps: DataFrames in, DataFrames out; nothing here reads or writes."""
