package load

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"

	"github.com/muster-fleet/muster/internal/agent/link"
	"github.com/muster-fleet/muster/internal/wire"
)

// populate makes the agents of this process.
func (r *run) populate() error {
	dialers := make([]func(context.Context, string, string) (net.Conn, error), r.cfg.Sources)
	for i := range dialers {
		dialers[i] = r.dialer(i)
	}
	if err := r.newSources(); err != nil {
		return err
	}
	shared := link.NewShared()
	r.seats = make([]*agent, len(r.cfg.Members))
	for i, m := range r.cfg.Members {
		class := r.classes[m.Class]
		base := r.states
		r.states += uint64(class.states)
		if !r.cfg.Part.owns(i) {
			continue
		}
		a := &agent{run: r, class: class, index: m.Number, member: i, base: base, uid: m.UID, name: m.Name, stream: wire.StreamID(rand.Uint64() | 1)}
		c := link.Config{Node: m.UID, Dial: dialers[len(r.agents)%len(dialers)], Definition: r.definition, BootMs: r.boot, Log: r.cfg.Log, Shared: shared}
		if class.tls != nil {
			var err error
			if c.TLS, err = class.tls(m.UID); err != nil {
				return fmt.Errorf("certificate of agent %s: %w", m.Name, err)
			}
		}
		a.cfg = c.Complete()
		r.agents, r.seats[i] = append(r.agents, a), a
	}
	return nil
}

// dialer returns a function that connects from the i-th loopback address, so that there are enough local ports. Each
// loader of a joined run uses addresses of its own.
func (r *run) dialer(i int) func(context.Context, string, string) (net.Conn, error) {
	d := &net.Dialer{}
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		d := d
		if strings.HasPrefix(addr, "127.") && (r.cfg.Sources > 1 || r.cfg.Part.Of > 1) {
			d = &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, byte(2+r.cfg.Part.Number*r.cfg.Sources+i))}}
		}
		c, err := d.DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return strung(ctx, c), nil
	}
}
