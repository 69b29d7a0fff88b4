"""The parameters of each trigger, as KEDA parses them."""
