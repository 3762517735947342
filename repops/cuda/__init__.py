"""Programs on NVIDIA GPUs: kernels generated from the operator table, compiled at run time by NVRTC. No torch needed.

`repops.backend.prepare(graph, name="cuda")` chooses it. Equal bits to every other backend.
"""
