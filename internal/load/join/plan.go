package join

import (
	"context"
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/load"
	"github.com/muster-fleet/muster/internal/load/play"
	"github.com/muster-fleet/muster/internal/load/scenario"
	"github.com/muster-fleet/muster/internal/load/simulated"
	"github.com/muster-fleet/muster/internal/model"
)

// followerPart is the part of a follower.
type followerPart struct {
	Scenario   *scenario.Scenario `json:"scenario"`
	Part       play.Part          `json:"part"`
	Server     string             `json:"server"`
	ServerTLS  string             `json:"serverTLS"`
	Members    []simulated.Member `json:"members"`
	CA         []byte             `json:"ca,omitempty"` // PEM
	ServerName string             `json:"serverName,omitempty"`
	MaxLag     time.Duration      `json:"maxLag"`
	Sources    int                `json:"sources"`
	Identities []identity         `json:"identities,omitempty"` // of its agents
}

// identity is the key and the certificate of one agent.
type identity struct {
	Member int      `json:"member"`
	Chain  [][]byte `json:"chain"` // DER
	Key    []byte   `json:"key"`   // PKCS #8
}

// Send sends the followers their parts: the checked and scaled scenario, the addresses, and the keys of their agents.
// It returns the part of the lead.
func (l *Lead) Send(cfg load.Config, ca []byte) (load.Config, error) {
	if cfg.Members == nil {
		cfg.Members = simulated.Members(cfg.Scenario)
	}
	peers := l.all()
	machines := []string{machineID()}
	for _, p := range peers {
		machines = append(machines, p.Machine)
	}
	for _, p := range peers {
		if host, _, err := net.SplitHostPort(cfg.Server); err == nil && p.Machine != machines[0] && net.ParseIP(host).IsLoopback() {
			return cfg, model.Errorf(model.Invalid, "%s is on another machine, and the server under test listens on %s here alone", p.who(l), cfg.Server).
				WithHint("play against a server that all machines reach: --server HOST:PORT")
		}
		x := &followerPart{Scenario: cfg.Scenario, Part: play.Part{Number: p.number, Of: l.loaders, Here: same(machines, p.Machine)}, Server: cfg.Server, ServerTLS: cfg.ServerTLS,
			Members: cfg.Members, CA: ca, MaxLag: cfg.MaxLag, Sources: cfg.Sources}
		if err := l.addIdentities(x, p, cfg); err != nil {
			return cfg, err
		}
		l.send(p, order{Plan: x})
	}
	cfg.Part = play.Part{Of: l.loaders, Here: same(machines, machines[0])}
	cfg.Joint = l
	return cfg, nil
}

// same counts the entries that equal machine.
func same(list []string, machine string) (n int) {
	for _, m := range list {
		if m == machine {
			n++
		}
	}
	return n
}

// addIdentities adds the keys and certificates of a follower's agents to its plan.
func (l *Lead) addIdentities(x *followerPart, p *peer, cfg load.Config) error {
	for i := p.number; i < len(cfg.Members); i += l.loaders {
		if !cfg.Scenario.Agents[cfg.Members[i].Class].TLS {
			continue
		}
		c, err := cfg.TLS(cfg.Members[i].UID)
		if err != nil {
			return fmt.Errorf("certificate of agent %s: %w", cfg.Members[i].Name, err)
		}
		key, err := x509.MarshalPKCS8PrivateKey(c.Certificates[0].PrivateKey)
		if err != nil {
			return fmt.Errorf("key of agent %s: %w", cfg.Members[i].Name, err)
		}
		x.ServerName = c.ServerName
		x.Identities = append(x.Identities, identity{Member: i, Chain: c.Certificates[0].Certificate, Key: key})
		if l.ctx.Err() != nil {
			return context.Cause(l.ctx)
		}
	}
	return nil
}

// config returns the configuration of a follower's run.
func (x *followerPart) config() (c load.Config, err error) {
	if x.Scenario == nil || x.Part.Of < 2 || x.Part.Number < 1 || x.Part.Number >= x.Part.Of {
		return c, model.Errorf(model.Invalid, "the loader that leads sent an incomplete plan")
	}
	if err := x.Scenario.Runs(); err != nil {
		return c, err
	}
	if slices.ContainsFunc(x.Members, func(m simulated.Member) bool { return m.Class < 0 || m.Class >= len(x.Scenario.Agents) }) {
		return c, model.Errorf(model.Invalid, "the loader that leads sent a machine of no class")
	}
	c = load.Config{MaxLag: x.MaxLag, Options: play.Options{Scenario: x.Scenario, Part: x.Part, Server: x.Server, ServerTLS: x.ServerTLS, Sources: x.Sources, Members: x.Members}}
	c.TLS, err = x.certificates()
	return c, err
}

// certificates returns the TLS configuration of each agent from the received keys and certificates.
func (x *followerPart) certificates() (func(uuid.UUID) (*tls.Config, error), error) {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(x.CA)
	known := make(map[uuid.UUID]tls.Certificate, len(x.Identities))
	for _, id := range x.Identities {
		if id.Member < 0 || id.Member >= len(x.Members) || len(id.Chain) == 0 {
			return nil, model.Errorf(model.Invalid, "a key for machine %d, which does not exist", id.Member)
		}
		key, err := x509.ParsePKCS8PrivateKey(id.Key)
		if err != nil {
			return nil, fmt.Errorf("key of agent %s: %w", x.Members[id.Member].Name, err)
		}
		signer, ok := key.(crypto.Signer)
		if !ok {
			return nil, model.Errorf(model.Invalid, "key of agent %s signs nothing", x.Members[id.Member].Name)
		}
		known[x.Members[id.Member].UID] = tls.Certificate{Certificate: id.Chain, PrivateKey: signer}
	}
	return func(uid uuid.UUID) (*tls.Config, error) {
		c, ok := known[uid]
		if !ok {
			return nil, fmt.Errorf("node %s has no identity", uid)
		}
		return simulated.ClientConfig(pool, x.ServerName, c), nil
	}, nil
}
