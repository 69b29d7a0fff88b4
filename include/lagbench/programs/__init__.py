"""The programs that run inside a pod."""
