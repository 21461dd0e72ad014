package muster

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"golang.org/x/time/rate"

	"github.com/muster-fleet/muster/internal/pki"
)

// names looks by which name the server is reached: a name that its certificate does not
// have is counted, and said with the setting that adds it. Clients of people refuse the
// certificate then; agents go by the CA.
type names struct {
	authority      *pki.Authority
	metrics        *metrics
	log            *slog.Logger
	people, agents rate.Sometimes
}

func newNames(authority *pki.Authority, m *metrics, log *slog.Logger) *names {
	minute := func() rate.Sometimes { return rate.Sometimes{Interval: time.Minute} }
	return &names{authority: authority, metrics: m, log: log, people: minute(), agents: minute()}
}

// look judges the name that a client asks for; empty: it asks for none, or for an address.
func (n *names) look(name string, agent bool) {
	if name == "" {
		return
	}
	cert, err := n.authority.GetCertificate(nil)
	if err != nil || cert.Leaf.VerifyHostname(name) == nil {
		return
	}
	who, tell, level := "people", &n.people, slog.LevelWarn
	text := "reached by a name that the server's certificate does not have: commands and browsers refuse it; restart with --advertise to add the name (the CA stays: nobody joins again)"
	if agent {
		who, tell, level = "agents", &n.agents, slog.LevelInfo
		text = "agents reach the server by a name that its certificate does not have; they go by the CA and do not mind, people would: --advertise adds the name"
	}
	n.metrics.misnamed.WithLabelValues(who).Inc()
	if !hostName(name) {
		return // whoever comes may say anything
	}
	tell.Do(func() {
		n.log.Log(context.Background(), level, text, "name", name, "advertise", strings.Join(pki.Advertise(n.authority.Names(), name), ","))
	})
}

// hostName says whether a text may be pasted into a command as a name.
func hostName(text string) bool {
	return len(text) <= 253 && strings.Trim(strings.ToLower(text), "abcdefghijklmnopqrstuvwxyz0123456789-._") == "" && !strings.HasPrefix(text, "-")
}
