package muster

import (
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/source/core"
	"github.com/muster-fleet/muster/internal/wire"
)

// maxExchanges bounds the unanswered requests of one agent.
const maxExchanges = 64

// features returns the requests that the agent may make. Secrets are sent over mutual TLS only.
func (x *session) features() (bits uint32) {
	if x.srv.cfg.Secret != nil && x.proven.Load() {
		bits |= wire.FeatureSecrets
	}
	return bits
}

// exchange accepts a request of the agent for secrets. A goroutine of its own answers it.
func (x *session) exchange(body []byte) outcome {
	var m wire.Exchange
	if err := m.Decode(body); err != nil {
		return x.violation(malformed, err.Error())
	}
	switch {
	case m.SecretsRequest == nil:
		return unknownKind
	case x.features()&wire.FeatureSecrets == 0:
		return unrequested // Welcome did not offer it
	}
	x.Mu.Lock()
	ok := !x.EndedLocked() && x.requests.exchanges < maxExchanges
	if ok {
		x.requests.exchanges++
	}
	x.Mu.Unlock()
	if !ok {
		return tooSoon
	}
	go x.answerSecrets(m.ID, m.SecretsRequest.Names)
	return secrets
}

// answerSecrets finds the values of the secrets that the assignment names, and queues the answer.
func (x *session) answerSecrets(id uint64, names []string) {
	given := make([]wire.SecretValue, len(names))
	var named []string
	var index []int
	for i, name := range names {
		given[i].Name = name
		if core.NamesSecret(x.srv.cfg.Assignments, x.Node.ID, name) {
			named, index = append(named, name), append(index, i)
			continue
		}
		given[i].Error = "the node's assignment does not name it"
		x.srv.metrics.secrets.WithLabelValues("refused").Inc()
		x.srv.cfg.Log.Warn("refused a secret that the assignment of the node does not name", "node", x.Node.Name, "secret", name)
	}
	values, errs := x.srv.cfg.Secret.Resolve(x.srv.life.Base, named)
	for k, i := range index {
		g := &given[i]
		if errs[k] != nil {
			g.Error = model.Shorten(errs[k].Error())
			x.srv.metrics.secrets.WithLabelValues("failed").Inc()
			continue
		}
		g.Value, g.LeaseMs = []byte(values[k].Text), uint32(min(values[k].Lease.Milliseconds(), 1<<31))
		x.srv.metrics.secrets.WithLabelValues("given").Inc()
	}
	x.Mu.Lock()
	x.requests.exchanges--
	ended := x.EndedLocked()
	if !ended {
		x.requests.answers = append(x.requests.answers, wire.Exchange{ID: id, SecretsReply: &wire.SecretsReply{Values: given}})
	}
	x.Mu.Unlock()
	if !ended {
		x.srv.pushes.Add(x, dueRequests)
	}
}
