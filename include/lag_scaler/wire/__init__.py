"""The gRPC contract of KEDA's external scalers: externalscaler.proto and what protoc makes of it.

``make proto`` generates the modules; they are committed, so that running the program needs no
compiler, and a test compares them with what the .proto gives.
"""
