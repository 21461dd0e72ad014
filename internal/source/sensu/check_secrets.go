package sensu

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/hide"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
)

// resolvedJob is a due check with the values of its secrets, ready to be requested.
type resolvedJob struct {
	*checkJob
	values []string
}

// unsupportedReason returns the reason why a Sensu agent cannot run the check, or an empty text.
func (j *checkJob) unsupportedReason() string {
	x, c := j.x, j.prepared.definition
	if j.prepared.problem != "" || len(c.Secrets) == 0 {
		return j.prepared.problem
	}
	const instead = "exclude the node (targets.except), or install muster-agent"
	for i := range c.Secrets {
		if s := &c.Secrets[i]; !s.OnServer() {
			return fmt.Sprintf("this node runs sensu-agent, which cannot read secret %s from the node (agentFile, agentEnv)\n  store it on the server (file, env, vault), %s", s.Name, instead)
		}
	}
	if !x.proven || x.srv.cfg.Secret == nil {
		return fmt.Sprintf("this node runs sensu-agent, which gets no secrets: %s\n  give it its own certificate (docs/sensu-certificates.md), %s", x.unproven, instead)
	}
	return ""
}

// failRun writes an UNKNOWN result to the journal, with the reason why the agent cannot run the check.
func (j *checkJob) failRun(problem string) {
	x, c := j.x, j.prepared.definition
	x.srv.metrics.impossible.Inc()
	if code, _ := x.srv.cfg.View.Admit(j.checkedNode(), c); code != "" {
		return
	}
	result := &wire.Result{Status: model.Unknown, Output: []byte(problem)}
	x.commitServerResult(c.ID, result, j.proxy)
	x.reportRun(c, j.proxy.ID)
	if j.proxy.ID == 0 {
		x.answerRuns(c.Unit, math.MaxInt64, result)
	}
}

// resolveSecrets starts a goroutine that reads the check's secrets before the run is requested. It returns false if
// the run needs no secrets, or if the agent cannot run the check.
func (j *checkJob) resolveSecrets() bool {
	if len(j.prepared.definition.Secrets) == 0 || j.unsupportedReason() != "" {
		return false
	}
	x := j.x
	x.Mu.Lock()
	busy := j.resolving
	j.resolving = true
	x.Mu.Unlock()
	if busy {
		x.srv.metrics.overdue.Inc()
		return true
	}
	x.srv.life.Go(func() { j.queueWithSecrets() })
	return true
}

// queueWithSecrets reads the check's secrets and queues its request, or writes an UNKNOWN result with the reason.
func (j *checkJob) queueWithSecrets() {
	x := j.x
	values, err := j.secretValues()
	x.Mu.Lock()
	j.resolving = false
	ended := x.EndedLocked()
	if err == nil && !ended {
		x.resolved = append(x.resolved, resolvedJob{j, values})
		x.srv.outbox.AddLocked(x, dueRequests)
	}
	x.Mu.Unlock()
	if err != nil && !ended {
		x.srv.metrics.secrets.WithLabelValues("failed").Inc()
		j.failRun(err.Error())
	}
}

// secretValues returns the values of all secrets that the check needs. The error is for people and contains no value.
func (j *checkJob) secretValues() (values []string, err error) {
	x, c := j.x, j.prepared.definition
	names := make([]string, len(c.Secrets))
	for i := range c.Secrets {
		names[i] = c.Secrets[i].Name
	}
	found, errs := x.srv.cfg.Secret.Resolve(x.srv.life.Base, names)
	for i := range names {
		if errs[i] == nil && !utf8.ValidString(found[i].Text) {
			errs[i] = errors.New("its value is not UTF-8")
		}
		if errs[i] != nil {
			return nil, fmt.Errorf("read secret %s: %s", names[i], model.Shorten(errs[i].Error()))
		}
		values = append(values, found[i].Text)
	}
	return values, nil
}

// appendRequest appends the request to run a check, together with its secret values. It does nothing if the check is
// no longer assigned.
func (r *resolvedJob) appendRequest(dst []byte) []byte {
	x, c := r.x, r.prepared.definition
	a := x.srv.cfg.Assignments.AssignmentOf(x.Node.ID)
	if a == nil || !slices.ContainsFunc(a.Definitions, func(now *model.Definition) bool { return now.ID == c.ID }) {
		x.srv.metrics.secrets.WithLabelValues("refused").Inc()
		return dst
	}
	x.sent.remember(c, r.values)
	x.srv.metrics.secrets.WithLabelValues("given").Inc()
	env := make([]string, len(r.values))
	for i, value := range r.values {
		env[i] = c.Secrets[i].Env + "=" + value
	}
	encoded := x.codec.AppendSecrets(nil, env)
	defer clear(encoded)
	return r.checkJob.appendRequest(dst, encoded)
}

// maxRememberedValues limits how many values of one Secret the server remembers for redaction. Former values are
// needed because a run may have started before the Secret changed.
const maxRememberedValues = 4

// outputRemoved replaces an output that may contain secrets that this server does not know.
const outputRemoved = "(output removed: it may contain secrets, and the server cannot hide them: it has sent none for this check since its start)"

// sentSecrets has the secret values that a node's agent has received since the server's start. They are redacted in
// its outputs.
type sentSecrets struct {
	uid    uuid.UUID // uid of the node; guarded by sessionRegistry.mu
	mu     sync.Mutex
	values map[string][]string // by the name of the Secret; the newest last
	hider  *hide.Redactor
}

// remember records the secret values sent for a check, so that the server can redact outputs.
func (g *sentSecrets) remember(c *model.CheckDefinition, values []string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	changed := false
	for i := range c.Secrets {
		name := c.Secrets[i].Name
		list := g.values[name]
		if at := slices.Index(list, values[i]); at >= 0 {
			list = slices.Delete(list, at, at+1)
		} else {
			changed = true
		}
		list = append(list, values[i])
		if g.values == nil {
			g.values = map[string][]string{}
		}
		g.values[name] = list[max(0, len(list)-maxRememberedValues):]
	}
	if !changed {
		return
	}
	g.hider = hide.New(slices.Concat(slices.Collect(maps.Values(g.values))...))
}

// redactionFor returns a Hider, which replaces the check's secret values in its output. known is false if the
// agent may have secret values of an earlier run of the server.
func (g *sentSecrets) redactionFor(c *model.CheckDefinition) (h *hide.Redactor, known bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for i := range c.Secrets {
		if len(g.values[c.Secrets[i].Name]) == 0 {
			return nil, false
		}
	}
	return g.hider, true
}

// redact returns a check's output with a placeholder for each secret value.
func (x *session) redact(c *model.CheckDefinition, output []byte) []byte {
	if x.sent == nil {
		return output
	}
	hider, known := x.sent.redactionFor(c)
	if !known {
		return []byte(outputRemoved)
	}
	return hider.Redact(output)
}

// forgetSentSecrets drops the remembered secrets of deleted nodes.
func (s *Server) forgetSentSecrets() {
	s.registry.forgetSentSecrets(func(id model.NodeID, uid uuid.UUID) bool {
		node, ok := s.cfg.Intent.LookupNode(uid)
		return ok && node.ID == id
	})
}
