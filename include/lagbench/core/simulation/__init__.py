"""The whole loop on a virtual clock: traffic, pods and lag as a fluid, control as it runs live.

Simulated are the world's answers (lag, pods, time). What decides is not: the scale loop, KEDA's lag
rules, the lag scaler's rule and the HPA's sync are the functions that the live programs call.
"""
