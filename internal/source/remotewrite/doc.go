// Package remotewrite is the source for samples of a Prometheus: its remote write protocol, versions 1.0 and 2.0, which agents
// of Grafana, VictoriaMetrics and OpenTelemetry speak, too. docs/promql.md is the manual.
//
// In: POST api/v1/write (server.go). The body is decoded without copies (decode_request.go), each series gets the label namespace of
// its path (sample_batch.go), unless the server knows it by its bytes (series_cache.go), and the samples of one request become journal records by section. Out: the answer, as soon as the
// records are durable. The metric reducer adds them to the series store.
//
// Goroutines: one per request. Locks: of the known series, which requests share. Start reading at server.go.
package remotewrite
