"""What the API server and KEDA's webhook say to a ScaledObject, rule by rule, without a cluster."""
