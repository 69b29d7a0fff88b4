"""The load generator: sends what the profile plans, whatever the consumers do (open model)."""
