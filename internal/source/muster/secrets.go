package muster

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
)

const (
	maxExchanges = 64 // of one session, on their way
	// secretWithin is how long an answer may take: less than agents wait.
	secretWithin = 12 * time.Second
)

// SecretValue is what a Secret stands for, and how long an agent may keep it.
type SecretValue struct {
	Text  string
	Lease time.Duration
}

// features is what a session's agent may ask: nobody is told secrets without TLS.
func (x *session) features() (bits uint32) {
	if x.srv.cfg.Secret != nil && x.proven.Load() {
		bits |= wire.FeatureSecrets
	}
	return bits
}

// exchange takes what the agent asks, and has it answered by a goroutine of its own.
func (x *session) exchange(body []byte) outcome {
	var m wire.Exchange
	if err := m.Decode(body); err != nil {
		return x.broken(malformed, err.Error())
	}
	switch {
	case m.SecretsRequest == nil:
		return unknownKind
	case x.features()&wire.FeatureSecrets == 0:
		return unasked // it was told that nobody answers
	}
	x.Mu.Lock()
	ok := !x.EndedLocked() && x.exchanges < maxExchanges
	if ok {
		x.exchanges++
	}
	x.Mu.Unlock()
	if !ok {
		return hasty
	}
	go x.answer(m.ID, m.SecretsRequest.Names)
	return asksSecrets
}

// answer finds the values and leaves them with the writers.
func (x *session) answer(id uint64, names []string) {
	ctx, cancel := context.WithTimeout(x.srv.base, secretWithin)
	defer cancel()
	given := make([]wire.SecretValue, len(names))
	var finding sync.WaitGroup
	for i, name := range names {
		given[i].Name = name
		if !x.named(name) {
			given[i].Error = "the node's assignment does not name it"
			x.srv.metrics.secrets.WithLabelValues("refused").Inc()
			x.srv.cfg.Log.Warn("an agent asked for a secret that its assignment does not name", "node", x.node.Name, "secret", name)
			continue
		}
		finding.Go(func() {
			g := &given[i]
			namespace, name := model.SplitRef("", name)
			value, err := x.srv.cfg.Secret(ctx, namespace, name)
			if err != nil {
				g.Error = model.Shorten(err.Error())
				x.srv.metrics.secrets.WithLabelValues("failed").Inc()
				return
			}
			g.Value, g.LeaseMs = []byte(value.Text), uint32(min(value.Lease.Milliseconds(), 1<<31))
			x.srv.metrics.secrets.WithLabelValues("given").Inc()
		})
	}
	finding.Wait()
	x.Mu.Lock()
	x.exchanges--
	over := x.EndedLocked()
	if !over {
		x.answers = append(x.answers, wire.Exchange{ID: id, SecretsReply: &wire.SecretsReply{Values: given}})
	}
	x.Mu.Unlock()
	if !over {
		x.due(lanePush, dueRun)
	}
}

// named says whether a check that the node should run now names a secret that the server knows.
func (x *session) named(secret string) bool {
	a := x.srv.cfg.Assignments.For(x.node.ID)
	return a != nil && slices.ContainsFunc(a.Chunks, func(chunk *model.Chunk) bool {
		c := chunk.AsCheck()
		return c != nil && slices.ContainsFunc(c.Secrets, func(s model.ChunkSecret) bool { return s.Name == secret && s.OnServer() })
	})
}

// sendAnswers writes what was asked, and leaves nothing of it in the writer's buffer.
func (x *session) sendAnswers(w *scratch, answers []wire.Exchange) error {
	for i := range answers {
		frame := wire.AppendExchange(w.begin(), &answers[i])
		err := x.send(frame, "exchange")
		clear(frame)
		w.frame = frame
		if err != nil {
			return err
		}
	}
	return nil
}
