"""Define experiments: cells that are compared by pairs of runs, their order, their progress.

Light on purpose: the Dags of the experiments import it whenever they are parsed. The result, which
needs the measures, is in ``result``.
"""
