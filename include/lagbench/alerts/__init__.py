"""Alert rules for Prometheus: of a policy (``lagbench policy alerts``) and of the bench itself."""
