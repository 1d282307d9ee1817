"""The program behind tests/model_server.py: serves a model until its input is closed."""

import sys

import xllamacpp

#: Per request; it answers two at a time.
CONTEXT_TOKENS = 2048


def serve(file: str) -> None:
    parameters = xllamacpp.CommonParams()
    parameters.model.path = file
    parameters.hostnames = ["127.0.0.1"]
    parameters.port = 0
    parameters.n_ctx = 2 * CONTEXT_TOKENS
    parameters.n_parallel = 2
    parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = 1
    parameters.n_threads_http = 4
    server = xllamacpp.Server(parameters)
    print(server.listening_address, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    serve(sys.argv[1])
