package muster

import (
	"crypto/tls"
	"sync/atomic"
	"time"

	"github.com/muster-fleet/muster/internal/pki"
)

// tickets gives the TLS configurations keys for session tickets that a restart of
// the server does not change: a whole fleet that comes back at once resumes, which
// costs a fraction of a handshake with certificates. Who may come is asked at Hello
// all the same.
type tickets struct {
	authority *pki.Authority
	now       func() time.Time
	configs   []*tls.Config
	day       atomic.Int64 // of the keys in use
}

// renew puts the keys of the day in force.
func (t *tickets) renew() {
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
