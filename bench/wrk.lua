-- Repeat the request that the environment describes; the figures are printed as JSON.

wrk.method = os.getenv("BENCH_METHOD")
wrk.body = os.getenv("BENCH_BODY")
wrk.headers["Content-Type"] = "application/json"

local form = '\n{"requests": %d, "seconds": %.6f, "p50_ms": %.3f, "p99_ms": %.3f, "errors": %d}\n'

function done(summary, latency, requests)
   local errors = summary.errors
   io.write(string.format(
      form,
      summary.requests,
      summary.duration / 1e6,
      latency:percentile(50) / 1000,
      latency:percentile(99) / 1000,
      errors.connect + errors.read + errors.write + errors.status + errors.timeout
   ))
end
