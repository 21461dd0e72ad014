package stage

import (
	"context"
	"fmt"
	"net"
	"sync"

	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/load"
	"github.com/muster-fleet/muster/internal/load/simulated"
	"github.com/muster-fleet/muster/internal/load/spine"
	"github.com/muster-fleet/muster/internal/wire"
)

// sockets is session, journal and view, over real connections; of the session alone, what
// agents send is acknowledged where it would go to the journal.
func (d *Driven) sockets(ctx context.Context, fleet *spine.Fleet, sessionAlone bool) error {
	listen := func() (net.Listener, error) { return net.Listen("tcp", "127.0.0.1:0") }
	o := spine.Options{Dir: d.dir, Fleet: fleet, TLS: true, Registerer: d.metric, Budget: unlimited}
	var err error
	if o.Listen, err = listen(); err == nil {
		o.Plain, err = listen()
	}
	if err != nil {
		return fmt.Errorf("listen for the agents of a stage: %w", err)
	}
	if sessionAlone {
		o.Sessions = func(j journal.Journal) journal.Journal { return forgetful{j} }
	}
	s, err := spine.Open(o)
	if err != nil {
		return err
	}
	life, stop := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	ended := make(chan error, 1)
	running.Go(func() { ended <- s.Run(life) })
	d.end(func() error { stop(); running.Wait(); return nil })
	select {
	case <-s.Ready:
	case err := <-ended:
		return err
	}
	d.config.ServerTLS, d.config.Server = o.Listen.Addr().String(), o.Plain.Addr().String()
	if d.config.TLS, err = simulated.Certificates(s.Authority); err != nil {
		return err
	}
	if !sessionAlone {
		d.config.Before = load.InProcess(s.View)
	}
	return nil
}

// forgetful keeps the marks of sessions, for which they wait, and says of what agents send
// that it is kept.
type forgetful struct{ journal.Journal }

func (j forgetful) Append(ctx context.Context, entries ...journal.Entry) error {
	for _, e := range entries {
		if e.Waiter == nil || e.Data[0] != byte(wire.RecordBatch) {
			if err := j.Journal.Append(ctx, e); err != nil {
				return err
			}
			continue
		}
		e.Waiter.Committed(e.Token, journal.Position{}, nil)
	}
	return nil
}
