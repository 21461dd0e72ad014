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

// identitiesAtOnce are sent in one order.
const identitiesAtOnce = 500

// followerPart is the part of a follower, without the keys of its agents.
type followerPart struct {
	Scenario   *scenario.Scenario `json:"scenario"`
	Part       play.Part          `json:"part"`
	Server     string             `json:"server"`
	ServerTLS  string             `json:"serverTLS"`
	UIDs       []uuid.UUID        `json:"uids,omitempty"` // of all members, where they do not follow from the seed
	CA         []byte             `json:"ca,omitempty"`   // PEM
	ServerName string             `json:"serverName,omitempty"`
	MaxLag     time.Duration      `json:"maxLag"`
	Spool      int                `json:"spool"`
	Parallel   int                `json:"parallel"`
	Senders    int                `json:"senders"`
	Sources    int                `json:"sources"`
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
		x := followerPart{Scenario: cfg.Scenario, Part: play.Part{Number: p.number, Of: l.loaders, Here: same(machines, p.Machine)}, Server: cfg.Server, ServerTLS: cfg.ServerTLS,
			UIDs: ownUIDs(cfg), CA: ca, MaxLag: cfg.MaxLag, Spool: cfg.Spool, Parallel: cfg.Parallel, Senders: cfg.Senders, Sources: cfg.Sources}
		if err := l.send(p, cfg, &x); err != nil {
			return cfg, err
		}
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

// ownUIDs returns the ids of all members if the server chose them.
func ownUIDs(cfg load.Config) (list []uuid.UUID) {
	derived := simulated.Members(cfg.Scenario)
	if slices.Equal(derived, cfg.Members) {
		return nil
	}
	for _, m := range cfg.Members {
		list = append(list, m.UID)
	}
	return list
}

// send gives one follower its part.
func (l *Lead) send(p *peer, cfg load.Config, x *followerPart) error {
	var list []identity
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
		list = append(list, identity{Member: i, Chain: c.Certificates[0].Certificate, Key: key})
		if l.ctx.Err() != nil {
			return context.Cause(l.ctx)
		}
	}
	p.send(order{Plan: x})
	for part := range slices.Chunk(list, identitiesAtOnce) {
		p.send(order{Identities: part})
	}
	p.send(order{Prepare: true})
	return nil
}

// config returns the configuration of a follower's run.
func (x *followerPart) config(identities []identity) (c load.Config, err error) {
	if x.Scenario == nil || x.Part.Of < 2 || x.Part.Number < 1 || x.Part.Number >= x.Part.Of {
		return c, model.Errorf(model.Invalid, "the loader that leads sent an incomplete plan")
	}
	if err := check(x.Scenario); err != nil {
		return c, err
	}
	c = load.Config{MaxLag: x.MaxLag, Options: play.Options{Scenario: x.Scenario, Part: x.Part, Server: x.Server, ServerTLS: x.ServerTLS, Spool: x.Spool,
		Parallel: x.Parallel, Senders: x.Senders, Sources: x.Sources, Members: simulated.Members(x.Scenario)}}
	if len(x.UIDs) == len(c.Members) {
		for i, id := range x.UIDs {
			c.Members[i].UID = id
		}
	}
	c.TLS, err = certificates(x, c.Members, identities)
	return c, err
}

// certificates returns the TLS configuration of each agent from the received keys and certificates.
func certificates(x *followerPart, members []simulated.Member, identities []identity) (func(uuid.UUID) (*tls.Config, error), error) {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(x.CA)
	known := make(map[uuid.UUID]tls.Certificate, len(identities))
	for _, id := range identities {
		if id.Member < 0 || id.Member >= len(members) || len(id.Chain) == 0 {
			return nil, model.Errorf(model.Invalid, "a key for machine %d, which does not exist", id.Member)
		}
		key, err := x509.ParsePKCS8PrivateKey(id.Key)
		if err != nil {
			return nil, fmt.Errorf("key of agent %s: %w", members[id.Member].Name, err)
		}
		signer, ok := key.(crypto.Signer)
		if !ok {
			return nil, model.Errorf(model.Invalid, "key of agent %s signs nothing", members[id.Member].Name)
		}
		known[members[id.Member].UID] = tls.Certificate{Certificate: id.Chain, PrivateKey: signer}
	}
	return func(uid uuid.UUID) (*tls.Config, error) {
		c, ok := known[uid]
		if !ok {
			return nil, fmt.Errorf("node %s has no identity", uid)
		}
		return simulated.ClientConfig(pool, x.ServerName, c), nil
	}, nil
}

// mostAgents bounds the agents of a plan before preflight checks the machine.
const mostAgents = 1 << 20

// check validates a received scenario; only the lead checks its files.
func check(sc *scenario.Scenario) error {
	n := 0
	for i := range sc.Agents {
		if n += sc.Agents[i].Count; sc.Agents[i].Count < 0 || n > mostAgents {
			return model.Errorf(model.Invalid, "a plan of more than %d agents", mostAgents)
		}
	}
	return sc.Runs()
}
