package muster

import (
	"crypto/tls"
	"sync/atomic"
	"time"

	"github.com/muster-fleet/muster/internal/pki"
)

// ticketKeys gives TLS configurations keys for session tickets that survive a restart of the server. A fleet that
// reconnects at once resumes its TLS sessions, which costs a fraction of a handshake with certificates. Hello checks the
// node all the same.
type ticketKeys struct {
	authority *pki.Authority
	now       func() time.Time
	configs   []*tls.Config
	day       atomic.Int64 // of the keys in use
}

// rotate puts the keys of the day in force.
func (t *ticketKeys) rotate() {
	now := t.now()
	day := now.Unix() / 86400
	if old := t.day.Load(); old == day || !t.day.CompareAndSwap(old, day) {
		return
	}
	keys := t.authority.TicketKeys(now)
	for _, c := range t.configs {
		c.SetSessionTicketKeys(keys)
	}
}
