package loadcmd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/muster-fleet/muster/internal/load/report"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/profiles"
)

// listenLoader shows this program's own metrics and profiles until ctx ends, if asked to.
// The function that it returns is told of every second of the run.
func (o *options) listenLoader(ctx context.Context, say func(string, ...any)) (func(report.Sample), error) {
	if o.listen == "" {
		return func(report.Sample) {}, nil
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	counter := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Name: "muster_load_" + name, Help: help})
		registry.MustRegister(c)
		return c
	}
	gauge := func(name, help string) prometheus.Gauge {
		g := prometheus.NewGauge(prometheus.GaugeOpts{Name: "muster_load_" + name, Help: help})
		registry.MustRegister(g)
		return g
	}
	offered, sent, acked, refused := counter("offered_total", "Results that were meant to be sent."), counter("sent_total", "Results handed to sessions, and keepalives of agents that had none to send."),
		counter("acknowledged_total", "Those that the server acknowledged, keepalives too."), counter("refused_total", "Results that it refused.")
	failed := counter("connections_failed_total", "Connections that could not be opened.")
	connected, lag, p99 := gauge("sessions", "Agents with a session now."), gauge("lag_seconds", "How far the generator fell behind in the last second, 99th percentile."),
		gauge("latency_seconds", "From the intended time to the acknowledgement in the last second, 99th percentile.")

	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	profiles.Handle(mux, func(w http.ResponseWriter, err *model.Error) { http.Error(w, err.Error(), err.Class.HTTP()) })
	listener, err := net.Listen("tcp", o.listen)
	if err != nil {
		return nil, fmt.Errorf("listen for --listen-loader: %w", err)
	}
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	go func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			say("warning: the loader's own listener ended: %v", err)
		}
	}()
	say("metrics and profiles of the loader: http://%s/metrics, http://%s/debug/pprof/", listener.Addr(), listener.Addr())
	return func(s report.Sample) {
		offered.Add(float64(s.Offered))
		sent.Add(float64(s.Sent))
		acked.Add(float64(s.Acked))
		refused.Add(float64(s.Refused))
		failed.Add(float64(s.Failed))
		connected.Set(float64(s.Connected))
		lag.Set(s.Lag / 1000)
		if s.Latency != nil {
			p99.Set(s.Latency.P99 / 1000)
		}
	}, nil
}
