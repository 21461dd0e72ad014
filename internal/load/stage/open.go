package stage

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/muster-fleet/muster/internal/load"
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/load/spine"
)

// Driven is a stage that runs.
type Driven struct {
	config load.Config // what a run has to know of it
	metric *prometheus.Registry
	dir    string
	ends   []func() error // in the order of starting
}

// unlimited is the size of a journal that nobody cuts: the disk's.
const unlimited = 1 << 50

// Open starts the stage that a scenario's target names, in a folder of its own below dir; empty:
// below the system's for temporary files. The caller closes it.
func Open(ctx context.Context, sc *scenario.Scenario, dir string) (_ *Driven, err error) {
	name, _ := sc.Stage()
	if err := Plays(sc); err != nil {
		return nil, err
	}
	d := &Driven{metric: prometheus.NewRegistry()}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.Close())
		}
	}()
	if d.dir, err = os.MkdirTemp(dir, "muster-stage-"); err != nil {
		return nil, fmt.Errorf("make a folder for the stage: %w", err)
	}
	d.config.Alone = name
	fleet := spine.NewFleet(sc)
	switch name {
	case "journal":
		err = d.journal(ctx, fleet)
	case "view":
		err = d.view(ctx, fleet)
	case "reactions":
		err = d.reactions(ctx, fleet)
	case "planner":
		err = d.planner(ctx, sc)
	default:
		err = d.sockets(ctx, fleet, name == "session")
	}
	if err == nil {
		err = d.show()
	}
	return d, err
}

// Configure tells a run of the stage.
func (d *Driven) Configure(c *load.Config) {
	c.Alone, c.Stage, c.Before = d.config.Alone, d.config.Stage, d.config.Before
	c.Server, c.ServerTLS, c.TLS, c.AdminURL, c.Data = d.config.Server, d.config.ServerTLS, d.config.TLS, d.config.AdminURL, d.dir
}

// Close ends it and takes its folder away.
func (d *Driven) Close() error {
	var errs []error
	for i := len(d.ends) - 1; i >= 0; i-- {
		errs = append(errs, d.ends[i]())
	}
	return errors.Join(append(errs, os.RemoveAll(d.dir))...)
}

// end keeps what has to be done in the end.
func (d *Driven) end(f func() error) { d.ends = append(d.ends, f) }

// show answers with the stage's metrics, which the run reads as it reads a server's.
func (d *Driven) show() error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listen for the stage's metrics: %w", err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(d.metric, promhttp.HandlerOpts{}))
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	go func() { _ = server.Serve(listener) }() // until Close
	d.end(server.Close)
	d.config.AdminURL = "http://" + listener.Addr().String()
	return nil
}

// Plays says what of a scenario a stage alone cannot play: nil, or an Unsupported error.
func Plays(sc *scenario.Scenario) error {
	name, _ := sc.Stage()
	has := []string{"stage", "results", "keepalives", "output-sizes", "rates", "phase-objectives", "recorded"}
	if name == "session" || name == "spine" { // the others have no connections
		has = append(has, "tls")
	}
	return sc.Refused(has, "stage "+name+" alone", "", "a scenario of results alone: muster load run muster-saturation --target "+sc.Target)
}
