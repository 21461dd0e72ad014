package app

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/muster-fleet/muster/internal/api"
	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/datadir"
	"github.com/muster-fleet/muster/internal/doctor"
	"github.com/muster-fleet/muster/internal/handler"
	"github.com/muster-fleet/muster/internal/intent"
	"github.com/muster-fleet/muster/internal/journal/disk"
	"github.com/muster-fleet/muster/internal/load"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pki"
	"github.com/muster-fleet/muster/internal/selfcheck"
	"github.com/muster-fleet/muster/internal/sensuctl"
	"github.com/muster-fleet/muster/internal/source/muster"
	"github.com/muster-fleet/muster/internal/version"
)

// openAPI makes the HTTP handlers of the listeners.
func (s *Server) openAPI(context.Context) error {
	tokens := intent.JoinTokens{Store: s.intent.Store()}
	admit := api.Enrolments(s.queues)
	var pending *api.Pending
	var ask func(string, pki.EnrolRequest) (time.Duration, error)
	if s.cfg.Pending != "off" {
		pending = api.NewPending(s.queues, s.now)
		ask = pending.Ask
	}
	options := api.Options{
		Access: s.access, Intent: s.intent, Rows: s.intent.Store(), Events: s.view, Directory: directory{s.planner, s.turns}, History: s.history, Actions: s.recorder, Handlers: s.reactor, Verdicts: s.reactor.Verdicts, Routing: s.routes, Archives: s.archives, Chunk: s.planner.CheckChunk,
		Incarnation: s.journal.Incarnation().ID, Retention: time.Duration(s.cfg.HistoryRetention),
		JoinTokens: tokens,
		NewJoinToken: func(keep pki.JoinToken) (pki.Token, pki.JoinToken, error) {
			return s.authority.NewToken(s.agentAddresses(), keep)
		},
		Enrol: &pki.Enroller{
			Authority: s.authority, Tokens: tokens, Registrar: s.intent, Servers: s.agentAddresses(), Admit: admit, Pending: ask,
		},
		Stream:  s.streamOf,
		Waiting: pending, Pending: pending.Len,
		CA: func() v1.Authority {
			return v1.Authority{Hash: pki.SumText(s.authority.CASum()), Certificate: string(s.authority.CAPEM()), Addresses: s.agentAddresses()}
		},
		NewRuns: func() api.Runs { return runs{s.sessions.NewRuns(), s.bridge} },
		Assigned: func(node model.NodeID, check model.CheckID) *model.CheckChunk {
			a := s.planner.For(node)
			if a == nil {
				return nil
			}
			if i := slices.IndexFunc(a.Chunks, func(c *model.Chunk) bool { return c.Unit == check }); i >= 0 {
				return a.Chunks[i].AsCheck()
			}
			return nil
		},
		Renew:     &pki.Renewer{Authority: s.authority, Registrar: s.intent, Admit: admit, Pending: ask},
		Alerts:    s.alerts.Serve,
		Secret:    handler.New(handler.Options{Secret: s.secretText, Now: s.now, Logger: s.log}).Secret,
		Connected: s.connected, Agent: s.agentSession, Queues: s.queues, Describe: s.describe, Limits: s.limitsOf, Vouch: muster.Vouch, NotReady: s.NotReady, Registry: s.registry, Logger: s.log, Now: s.now,
	}
	if s.agents == nil {
		s.handler = api.New(options)
	} else {
		s.handler, s.enrolHandler = api.NewSplit(options)
	}
	if s.bridge != nil { // users of Sensu's agents use sensuctl too
		s.handler = sensuctl.New(sensuctl.Options{API: s.handler, Registerer: s.registry, Log: s.log, Now: s.now})
	}
	admin := http.NewServeMux()
	admin.Handle("/", api.Admin(api.AdminOptions{
		Gatherer: s.registry, NotReady: s.NotReady, Queues: s.queues, Settings: s.cfg.Settings(),
		Log: func() []byte {
			if s.logTail == nil {
				return nil
			}
			return s.logTail()
		},
	}))
	admin.Handle("GET /debug/states", load.StatesHandler(s.view))
	admin.HandleFunc("GET "+doctor.AssetsPath, s.archives.ServeHTTP)
	s.adminHandler = api.Local(admin)
	return nil
}

// describe returns the server's state as the API shows it.
func (s *Server) describe() v1.Status {
	st := s.journal.Stats()
	out := v1.Status{
		Server: version.Get().Version, Started: s.started, Connected: s.connectedNodes(),
		Journal: v1.Journal{SizeBytes: st.SizeBytes, BudgetBytes: st.BudgetBytes, QueuedBytes: st.QueuedBytes},
	}
	if st.Blocked != nil {
		out.Journal.Blocked = st.Blocked.Error()
	}
	if free, err := (disk.OS{}).Free(datadir.Journal(s.cfg)); err == nil {
		out.Journal.FreeBytes = free
	}
	if free, err := (disk.OS{}).Free(s.cfg.Data); err == nil && s.cfg.Journal != "" {
		out.Journal.DataFreeBytes = free
	}
	if head, applied := s.journal.Head().Number, s.view.Applied().Number; head > applied {
		out.Journal.BehindCommits = head - applied
	}
	lag := s.reactor.Lag()
	out.Reactions = v1.Reactions{
		Waiting: int64(lag.Changes), BehindSeconds: lag.Age.Seconds(), BehindBytes: lag.Bytes, BehindCommits: lag.Commits,
		Rederiving: lag.Again, Lagging: lag.Age > selfcheck.LagWarning,
	}
	for _, store := range []interface{ Trouble() error }{s.intent.Store(), s.history} {
		if err := store.Trouble(); err != nil {
			out.Warnings = append(out.Warnings, model.OneLine(err))
		}
	}
	out.Warnings = append(out.Warnings, s.monitor.Warnings()...)
	hits := s.sessions.Limiter().Hits(s.now().Add(-hitsShown))
	for _, h := range hits[:min(5, len(hits))] {
		out.Warnings = append(out.Warnings, selfcheck.LimitText(h))
	}
	for _, text := range s.planner.Oversized(3) {
		out.Warnings = append(out.Warnings, "too much for one assignment: "+text)
	}
	return out
}

// hitsShown is how long a limit that was met stands in the status.
const hitsShown = 10 * time.Minute
