package muster

import (
	"context"
	"log/slog"
	"strings"

	"golang.org/x/time/rate"

	"github.com/muster-fleet/muster/internal/pki"
	"github.com/muster-fleet/muster/internal/source/admission"
)

// serverNames counts and logs names of the server that clients ask for and its certificate does not have. Clients of
// people refuse the certificate then; agents verify by the CA alone.
type serverNames struct {
	authority      *pki.Authority
	metrics        *metrics
	log            *slog.Logger
	people, agents rate.Sometimes
}

func newServerNames(authority *pki.Authority, m *metrics, log *slog.Logger) *serverNames {
	return &serverNames{authority: authority, metrics: m, log: log, people: admission.OncePerMinute(), agents: admission.OncePerMinute()}
}

// check examines the name that a client asks for; empty: it asks for none, or for an address.
func (n *serverNames) check(name string, agent bool) {
	if name == "" {
		return
	}
	cert, err := n.authority.GetCertificate(nil)
	if err != nil || cert.Leaf.VerifyHostname(name) == nil {
		return
	}
	who, once, level := "people", &n.people, slog.LevelWarn
	text := "clients connect by a name that the server's certificate lacks: commands and browsers refuse it; restart with --advertise to add the name (the CA stays: no agent joins again)"
	if agent {
		who, once, level = "agents", &n.agents, slog.LevelInfo
		text = "agents connect by a name that the server's certificate lacks; they verify by the CA, people could not connect: --advertise adds the name"
	}
	n.metrics.unknownNames.WithLabelValues(who).Inc()
	if !isHostName(name) {
		return // a stranger chose the text
	}
	once.Do(func() {
		n.log.Log(context.Background(), level, text, "name", name, "advertise", strings.Join(pki.Advertise(n.authority.Names(), name), ","))
	})
}

// isHostName reports whether a text may be pasted into a command as a name.
func isHostName(text string) bool {
	return len(text) <= 253 && strings.Trim(strings.ToLower(text), "abcdefghijklmnopqrstuvwxyz0123456789-._") == "" && !strings.HasPrefix(text, "-")
}
