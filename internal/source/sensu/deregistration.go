package sensu

import (
	"cmp"
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/sensuwire"
)

// departure is the handling of an agent that stops.
type departure struct {
	requested bool // by the agent's setting deregister
	ephemeral bool // the node is forgotten when it stops
}

// ephemeralLifecycle returns the lifecycle of a node whose agent has the setting deregister: it is forgotten after the
// silence that makes its keepalive critical. The handler that the agent names is notified, if it is in the agent's
// namespace: CleanName removes the slash that would name another one.
func (s *Server) ephemeralLifecycle(m *sensuwire.Machine, said *sensuwire.Received, keepalive bool) *model.Lifecycle {
	silence := s.cfg.Limits.Timeout
	if keepalive {
		silence = cmp.Or(criticalTimeout(said), silence)
	}
	l := &model.Lifecycle{Ephemeral: true, ForgetAfter: model.Duration(max(silence, time.Minute))}
	if name := model.CleanName(m.Deregistration); name != "" {
		l.Handlers = []string{name}
	}
	return l
}

// warnDeafHandlers logs deregistration handlers that cannot be notified. The node is created all the same: its message
// waits until the handler is applied, or becomes a dead letter.
func (x *session) warnDeafHandlers(l *model.Lifecycle) {
	for _, name := range l.Handlers {
		spec, ok := x.srv.cfg.Handler(x.namespace, name)
		reason := "it does not exist: apply it, and the waiting message is sent"
		if ok {
			service := spec.ProblemService()
			if service == "" {
				continue
			}
			reason = service + " accepts problems only: let agents name a command, a webhook, mail or a chat"
		}
		x.srv.logDeafHandlers.Do(func() {
			x.srv.cfg.Log.Warn("the deregistration handler of a Sensu agent cannot be notified; at most one line a minute, muster describe node shows it for each node",
				"entity", x.entity, "namespace", x.namespace, "handler", name, "reason", reason)
		})
	}
}
