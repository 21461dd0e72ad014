package sensu

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
)

// secretWithin is how long the values of one run may take to be found.
const secretWithin = 12 * time.Second

// found are the values for one run, on their way to its request and nowhere else.
type found struct {
	job    *job
	values []string
}

// cannot says why the agent cannot run a check; empty: it can.
func (x *session) cannot(j *job) string {
	c := j.recipe.chunk
	if j.recipe.problem != "" || len(c.Secrets) == 0 {
		return j.recipe.problem
	}
	const instead = "leave the node out (targets.except), or give it muster-agent"
	for i := range c.Secrets {
		if s := &c.Secrets[i]; !s.OnServer() {
			return fmt.Sprintf("this node has sensu-agent, and the value of secret %s is on the node (agentFile, agentEnv), which sensu-agent does not read\n  keep it on the server (file, env, vault), %s", s.Name, instead)
		}
	}
	if !x.proven || x.srv.cfg.Secret == nil {
		return fmt.Sprintf("this node has sensu-agent, which is given no secrets: %s\n  give it a certificate of its own (docs/sensu.md, Certificates), %s", x.why, instead)
	}
	return ""
}

// say makes the result of a run that cannot be, here.
func (x *session) say(j *job, problem string) {
	x.srv.metrics.cannot.Inc()
	c := j.recipe.chunk
	if code, _ := x.srv.cfg.View.Admit(x.subject(j), c); code != "" {
		return
	}
	result := &wire.Result{Status: model.Unknown, Output: []byte(problem)}
	x.keep(c.ID, result, j.about)
	x.ran(c, j.about.ID)
	if j.about.ID == 0 {
		x.answer(c.Unit, math.MaxInt64, result)
	}
}

// seek begins to look for the secrets of a run that is due, and waits for nothing; false: it needs
// none, or cannot be.
func (x *session) seek(j *job) bool {
	if len(j.recipe.chunk.Secrets) == 0 || x.cannot(j) != "" {
		return false
	}
	x.Mu.Lock()
	busy := j.seeking
	j.seeking = true
	x.Mu.Unlock()
	if busy {
		x.srv.metrics.overdue.Inc()
		return true
	}
	x.srv.seekers.Go(func() { x.find(j) })
	return true
}

// find leaves the values with the writers, or says why they cannot be had.
func (x *session) find(j *job) {
	ctx, cancel := context.WithTimeout(x.srv.base, secretWithin)
	defer cancel()
	values, err := x.srv.resolve(ctx, j.recipe.chunk)
	x.Mu.Lock()
	j.seeking = false
	over, put := x.EndedLocked(), false
	if err == nil && !over {
		x.found = append(x.found, found{j, values})
		put = !x.queued
		x.queued = true
	}
	x.Mu.Unlock()
	switch {
	case over:
	case err != nil:
		x.srv.metrics.secrets.WithLabelValues("failed").Inc()
		x.say(j, err.Error())
	case put:
		x.srv.put(x)
	}
}

// resolve asks for all values that a check needs. The error is for people, and holds nothing of any.
func (s *Server) resolve(ctx context.Context, c *model.CheckChunk) (values []string, err error) {
	values = make([]string, len(c.Secrets))
	failed := make([]error, len(c.Secrets))
	var asking sync.WaitGroup
	for i := range c.Secrets {
		asking.Go(func() {
			namespace, name := model.SplitRef("", c.Secrets[i].Name)
			values[i], failed[i] = s.cfg.Secret(ctx, namespace, name)
			if failed[i] == nil && !utf8.ValidString(values[i]) {
				failed[i] = errors.New("it is no text in UTF-8, as Sensu's agents want it")
			}
		})
	}
	asking.Wait()
	for i, err := range failed {
		if err != nil {
			return nil, fmt.Errorf("secret %s cannot be had: %s", c.Secrets[i].Name, model.Shorten(err.Error()))
		}
	}
	return values, nil
}

// tell appends the request for a run whose values were found, if the node should still run that.
func (x *session) tell(dst []byte, f *found) []byte {
	c := f.job.recipe.chunk
	a := x.srv.cfg.Assignments.For(x.node.ID)
	if a == nil || !slices.ContainsFunc(a.Chunks, func(now *model.Chunk) bool { return now.ID == c.ID }) {
		x.srv.metrics.secrets.WithLabelValues("refused").Inc()
		return dst
	}
	x.given.note(c, f.values)
	x.srv.metrics.secrets.WithLabelValues("given").Inc()
	said := make([]string, len(f.values))
	for i, value := range f.values {
		said[i] = c.Secrets[i].Env + "=" + value
	}
	part := x.codec.AppendSecrets(nil, said)
	defer clear(part)
	return x.request(dst, f.job, part)
}
