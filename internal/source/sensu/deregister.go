package sensu

import (
	"cmp"
	"time"

	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/sensuwire"
)

// comesAndGoes is the lifecycle of a node whose agent says deregister: it is forgotten when it
// was away for as long as would be its death. The handler that the agent names hears of it,
// one of its own namespace: a slash, which would lead into another, is no part of a name.
func (s *Server) comesAndGoes(m *sensuwire.Machine, said *sensuwire.Said, keepalive bool) *model.Lifecycle {
	away := s.cfg.Limits.Timeout
	if keepalive {
		away = cmp.Or(silence(said), away)
	}
	l := &model.Lifecycle{Ephemeral: true, ForgetAfter: model.Duration(max(away, time.Minute))}
	if name := model.CleanName(m.Deregistration); name != "" {
		l.Handlers = []string{name}
	}
	return l
}

// wouldHear tells the operator of a handler that an agent names and that cannot hear of it. The
// node is made: its message waits until somebody applies that handler, or is given up.
func (x *session) wouldHear(l *model.Lifecycle) {
	for _, name := range l.Handlers {
		spec, ok := x.srv.cfg.Handler(x.namespace, name)
		why := "it does not exist: apply it, and the message that waits is sent"
		if ok {
			service := spec.ProblemService()
			if service == "" {
				continue
			}
			why = service + " takes problems only: let agents name a command, a webhook, mail or a chat"
		}
		x.srv.unheard.Do(func() {
			x.srv.cfg.Log.Warn("the deregistration handler that a Sensu agent names cannot be told; others within a minute are not logged, muster describe node says it of each",
				"entity", x.entity, "namespace", x.namespace, "handler", name, "why", why)
		})
	}
}
